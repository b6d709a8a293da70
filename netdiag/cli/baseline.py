# SPDX-License-Identifier: Apache-2.0
"""`netdiag baseline`: what calls usually take, as remembered traces taught it."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from netdiag.cli.options import format_option

if TYPE_CHECKING:
    from netdiag.baseline import Figures
    from netdiag.recording.reader import Recording
    from netdiag.tables import Tables

__all__ = ["command", "remember"]

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
@click.option("--health", metavar="URL", help="Ask this status page, or /v1/models, once, and print its word beside.")
@format_option("table", "json")
def show(host: str | None, hour: int | None, health: str | None, format_: str) -> None:
    """Print for each scenario and dimension mean, p50, p90, p95, p99 and σ/μ.

    A scenario is host, model, streamed or not, and place. network: look-up, connect, TLS and sending. service: the
    server until its first byte. api: the whole call.

    \b
    netdiag baseline show --host api.example.com --health https://status.example.com/api/v2/status.json
    """  # noqa: D301 - click reads the control character
    from netdiag.baseline import open_store
    from netdiag.baseline.health import ask
    from netdiag.cli.results import write_text
    from netdiag.values import dumps

    with open_store() as store:
        found = store.figures(host=host, hour=hour)
    told = None if health is None else ask(health)
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
        own = None if told is None else {"url": told.url, "status": told.status, "ms": told.ms, "says": told.says}
        document = {"schema": "netdiag.baseline/1", "hour": hour, "scenarios": rows, "health": own}
        write_text(dumps(document) + "\n", None, sys.stdout)
        return
    write_text(_table(rows), None, sys.stdout)
    if told is not None:
        status = "no answer" if told.status is None else f"status {told.status}"
        word = f", it says: {told.says}" if told.says else ""
        write_text(f"health   {told.url}: {status} in {told.ms:.0f} ms{word}\n", None, sys.stdout)


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
