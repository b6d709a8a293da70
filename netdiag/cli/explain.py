# SPDX-License-Identifier: Apache-2.0
"""`netdiag explain`: what a finding means, how it is proven, and what to change; how a figure is defined."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from netdiag.cli.options import COLORS, format_option, wants_color

if TYPE_CHECKING:
    from netdiag.catalog import Entry
    from netdiag.metrics import Metric

__all__ = ["command", "definition", "page"]


@click.command("explain", short_help="Explain what a finding or a figure means.")
@click.argument("code", required=False)
@format_option("table", "json")
@click.option("--color", type=click.Choice(COLORS), default="auto", show_default=True, help="Colour the text.")
@click.option(
    "--policy",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="With a retry code: draw what the retry policy of this TOML file does in an outage.",
)
def command(code: str | None, format_: str, color: str, policy: str | None) -> None:
    """Explain the finding CODE, or define the figure of that name; without CODE, list all of them.

    \b
    netdiag explain reuse.client-per-call
    netdiag explain first_token_ms
    netdiag explain retry.storm --policy policy.toml
    """  # noqa: D301 - click reads the control character
    from netdiag.catalog import catalog
    from netdiag.cli.results import write_text
    from netdiag.metrics import metrics
    from netdiag.values import clean, dumps

    if policy is not None:
        write_text(_simulated(code, policy, format_), None, sys.stdout)
        return
    entries = {name: entry.in_general() for name, entry in catalog().items()}
    if format_ == "json":
        from dataclasses import asdict

        defined = metrics()
        chosen = entries.values() if code is None else [defined[code] if code in defined else _entry(code)]
        text = "[\n" + ",\n".join(dumps(clean(asdict(entry))) for entry in chosen) + "\n]\n"
    elif code is None:
        width = max((len(name) for name in entries), default=0)
        text = "".join(
            f"{name:<{width}}  {'(not said yet) ' if entry.unsaid else ''}{entry.plain}\n"
            for name, entry in entries.items()
        )
        text += f"\nfigures, defined by the same command: {', '.join(metrics())}\n"
    elif code in metrics():
        text = definition(metrics()[code], color=wants_color(color, sys.stdout))
    else:
        text = page(_entry(code), color=wants_color(color, sys.stdout))
    write_text(text, None, sys.stdout)


def _entry(code: str) -> Entry:
    from netdiag.catalog import catalog
    from netdiag.errors import UsageError
    from netdiag.metrics import metrics

    entries = catalog()
    if code in entries:
        return entries[code].in_general()
    close = difflib.get_close_matches(code, [*entries, *metrics()], n=3)
    hint = f"did you mean {' or '.join(close)}?" if close else "`netdiag explain` lists all codes"
    raise UsageError(f"no finding has the code {code!r}", hint=hint)


def _simulated(code: str | None, path: str, format_: str) -> str:
    """Return the course of an outage under the policy of a file."""
    import tomllib

    from netdiag.analysis.retry_simulation import read, simulate
    from netdiag.errors import InputUnreadable, UsageError
    from netdiag.render import curve
    from netdiag.values import clean, dumps

    if code is None or not _entry(code).code.startswith("retry."):
        hint = "netdiag explain retry.storm --policy FILE"
        raise UsageError("--policy goes with a code of the family retry", hint=hint)
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputUnreadable(f"{path}: {error}") from error
    made = simulate(*read(table))
    return dumps(clean(curve.as_json(made))) + "\n" if format_ == "json" else curve.text(made)


def definition(metric: Metric, *, color: bool) -> str:
    """Return the definition of a figure, and how others' differ, 80 columns wide."""
    from netdiag.render.layout import Paper

    paper = Paper(width=80, color=color)
    paper.line(f"{metric.name} ({metric.unit})", "bold")
    for label, text in (("means", metric.means), ("seen", metric.where), ("null", metric.unknown)):
        paper.labelled(label, text)
    for place, (tool, how) in enumerate(metric.differs):
        paper.labelled("" if place else "others", f"{tool}: {how}")
    return paper.text()


def page(entry: Entry, *, color: bool) -> str:
    """Return all that is written about a code, 80 columns wide."""
    from netdiag.render.layout import Paper

    paper = Paper(width=80, color=color)
    paper.line(entry.code, "bold")
    if entry.unsaid:
        paper.labelled("not yet", f"netdiag does not say this: {entry.unsaid}")
    for label, text in (
        ("means", entry.means),
        ("proof", entry.proof),
        ("cost", entry.cost),
        ("refuted", entry.refuted),
    ):
        paper.labelled(label, text)
    for remedy in entry.remedies:
        paper.labelled("fix" if remedy is entry.remedies[0] else "", f"{remedy.library}: {remedy.text}")
        if remedy.snippet:
            paper.verbatim(remedy.snippet)
    return paper.text()
