# SPDX-License-Identifier: Apache-2.0
"""`netdiag baseline`: what calls usually take, as remembered traces taught it."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from netdiag.cli.options import format_option
from netdiag.errors import UsageError

if TYPE_CHECKING:
    from netdiag.baseline import Figures
    from netdiag.baseline.health import Polled
    from netdiag.recording.reader import Recording
    from netdiag.tables import Tables

__all__ = ["command", "remember"]

_TIMES = 5
_SHARES = (0.5, 0.9, 0.95, 0.99)


@click.group("baseline", short_help="Show or forget what calls usually take.", invoke_without_command=False)
def command() -> None:
    """Show or forget what calls usually take: grown by each `netdiag trace --remember`.

    \b
    netdiag trace --remember -- python app.py
    netdiag baseline show
    """  # noqa: D301 - click reads the control character


@command.command("show", short_help="Print the table of scenarios.")
@click.option("--host", metavar="NAME", help="Only this host.")
@click.option("--hour", metavar="H", type=click.IntRange(0, 23), help="Only calls of this hour of the day, UTC.")
@click.option("--health", metavar="URL", help="Ask this status page, or /v1/models, and print its word beside.")
@click.option(
    "--every", metavar="S", type=click.FloatRange(min=1), help="--health: ask again every S seconds. [default: once]"
)
@click.option("--times", metavar="N", type=click.IntRange(min=1, max=100_000), help="--every: so often. [default: 5]")
@format_option("table", "json")
def show(
    *,
    host: str | None,
    hour: int | None,
    health: str | None,
    every: float | None,
    times: int | None,
    format_: str,
) -> None:
    """Print for each scenario and dimension mean, p50, p90, p95, p99 and σ/μ.

    A scenario is host, model, streamed or not, and place. network: look-up, connect, TLS and sending. service: the
    server until its first byte. api: the whole call.

    \b
    netdiag baseline show --host api.example.com --health https://status.example.com/api/v2/status.json
    netdiag baseline show --health https://api.example.com/v1/models --every 10 --times 30
    """  # noqa: D301 - click reads the control character
    from netdiag.baseline import open_store
    from netdiag.baseline.health import poll
    from netdiag.cli.results import write_text
    from netdiag.values import dumps

    if (every is not None and health is None) or (times is not None and every is None):
        raise UsageError("--every is of --health, and --times of --every")
    with open_store() as store:
        found = store.figures(host=host, hour=hour)
    told = None if health is None else poll(health, (times or _TIMES) if every else 1, every or 0.0)
    rows = [
        {
            "host": scenario.host,
            "model": scenario.model or None,
            "stream": scenario.stream,
            "region": scenario.region or None,
            "dimension": dimension,
            **_row(figures),
        }
        for (scenario, dimension), figures in found.items()
    ]
    if format_ == "json":
        own = None if told is None else _health(told)
        document = {"schema": "netdiag.baseline/1", "hour": hour, "scenarios": rows, "health": own}
        write_text(dumps(document) + "\n", None, sys.stdout)
        return
    write_text(_table(rows), None, sys.stdout)
    if told is not None:
        write_text(_said(told), None, sys.stdout)


def _health(told: Polled) -> dict[str, Any]:
    last = told.last
    more = {"asked": told.asked, "failed": told.failed, "p50_ms": told.p50_ms, "slowest_ms": told.slowest_ms}
    return {"url": last.url, "status": last.status, "ms": last.ms, "says": last.says, **more}


def _said(told: Polled) -> str:
    """Return the service's word in a line, and what several asks took in another."""
    from netdiag.units import format_ms

    last = told.last
    status = "no answer" if last.status is None else f"status {last.status}"
    word = f", it says: {last.says}" if last.says else ""
    lines = f"health   {last.url}: {status} in {last.ms:.0f} ms{word}\n"
    if told.asked > 1:
        took = f"p50 {format_ms(told.p50_ms)}, slowest {format_ms(told.slowest_ms)}"
        lines += f"         asked {told.asked} times, {told.failed} without a good answer, {took}\n"
    return lines


@command.command("forget", short_help="Forget one host, or everything.")
@click.option("--host", metavar="NAME", help="Only this host. Without it, everything is forgotten.")
def forget(host: str | None) -> None:
    """Forget what was remembered of a host, or everything.

    \b
    netdiag baseline forget --host api.example.com
    """  # noqa: D301 - click reads the control character
    from netdiag.baseline import open_store
    from netdiag.cli.results import say

    with open_store() as store:
        count = store.forget(host)
    say(f"forgot {count} scenario{'' if count == 1 else 's'}")


def remember(recording: Recording, tables: Tables) -> str:
    """Add a recording to the baselines and return a sentence about it."""
    import hashlib
    import json

    from netdiag.baseline import learn, open_store

    clock = recording.header["clock"]
    found = learn(tables, int(clock["realtime_ns"]))
    print_ = hashlib.sha256(json.dumps([clock, recording.header.get("host")], sort_keys=True).encode()).hexdigest()
    with open_store(make=True) as store:
        new = store.remember(found, print_, datetime.now(UTC).isoformat(timespec="seconds"))
    count = len({scenario for scenario, _, _ in found})
    words = f"{count} scenario{'' if count == 1 else 's'}"
    return f"remembered {words}: netdiag baseline show" if new else "this recording was remembered before"


def _row(figures: Figures) -> dict[str, Any]:
    row: dict[str, Any] = {"n": figures.n, "mean": _rounded(figures.mean)}
    row |= {f"p{share * 100:.0f}": _rounded(figures.percentile(share)) for share in _SHARES}
    return row | {"jitter": _rounded(figures.jitter)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _table(rows: list[dict[str, Any]]) -> str:
    from netdiag.text import fit, safe
    from netdiag.units import UNKNOWN, format_count, format_ms

    if not rows:
        return "Nothing was remembered for that.\n"
    lines, last = [], None
    head = "".join(fit(name, 9, right=True) for name in ("calls", "mean", "p50", "p90", "p95", "p99", "σ/μ"))
    for row in rows:
        words = [row["host"], row["model"] or "", "streamed" if row["stream"] else "", row["region"] or ""]
        scenario = " · ".join(safe(word) for word in words if word)
        if scenario != last:
            lines += ["" if last else None, fit(scenario, 79).rstrip(), fit("  ms of", 12) + head]
        last = scenario
        jitter = UNKNOWN if row["jitter"] is None else f"{row['jitter']:.2f}"
        cells = [format_count(row["n"]), *(format_ms(row[key]) for key in ("mean", "p50", "p90", "p95", "p99")), jitter]
        lines.append(fit(f"  {row['dimension']}", 12) + "".join(fit(cell, 9, right=True) for cell in cells))
    return "\n".join(line for line in lines if line is not None) + "\n"
