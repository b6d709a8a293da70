# SPDX-License-Identifier: Apache-2.0
"""`netdiag weights show`: a recorded load again, without root, or what changed between two."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import click

from netdiag.cli.options import Output, output_options
from netdiag.errors import UsageError

__all__ = ["command"]

_MISSING = (
    ("GPU", "a recording holds the kernel's side alone"),
    ("headers, mounts and what is in memory now", "they are looked at when a load is traced"),
)


@click.command("show", short_help="Print a recorded load again, or what changed between two.")
@output_options
@click.argument("recordings", metavar="RECORDING [RECORDING]", nargs=-1, required=True)
def command(*, recordings: tuple[str, ...], output: Output) -> int:
    """Say of a RECORDING, or `last`, what `weights` said of it; of two, what changed from the first to the second.

    Files are not looked at again: what of them is in memory now was not so then.

    \b
    netdiag weights show last
    netdiag weights show before.netdiag after.netdiag
    """  # noqa: D301 - click reads the control character
    from netdiag.cli.options import wants_color
    from netdiag.cli.results import check_assertions, gate, write_text
    from netdiag.cli.weights import ASSERTED
    from netdiag.render import Options
    from netdiag.render.weights import render

    check_assertions(output, ASSERTED)
    if len(recordings) > 2:
        raise UsageError("name one recording, or two to compare")
    documents = [_document(name, output) for name in recordings]
    if len(documents) == 2:
        if output.format not in ("table", "json"):
            raise UsageError("two recordings are compared as a table or as JSON")
        write_text(_compared(*documents, form=output.format), output.file, sys.stdout)
        return 0
    color = output.color == "always" if output.file else wants_color(output.color, sys.stdout)
    options = Options(color=color, verbose=output.verbose > 0, rows=output.rows)
    write_text(render(output.format, documents[0], options), output.file, sys.stdout)
    return gate(documents[0], output)


def _document(name: str, output: Output) -> dict[str, Any]:
    from datetime import UTC, datetime

    from netdiag import config
    from netdiag.loading import read
    from netdiag.weights.document import build
    from netdiag.weights.examine import examine

    recording = read(name)
    examined = examine(recording, later=True)
    reported, ignored = config.split(examined.findings, config.load(output.config), datetime.now(UTC).date())
    return build(recording, examined.load, examined.memory, reported, ignored=ignored, missing=_MISSING)


def _compared(a: Mapping[str, Any], b: Mapping[str, Any], *, form: str) -> str:
    from netdiag.weights.change import causes, rows

    if form == "json":
        made = {
            "rows": [{"name": r.name, "unit": r.unit, "a": r.a, "b": r.b, "change": r.change} for r in rows(a, b)],
            "causes": [{"code": code, "change": change} for code, change in causes(a, b)],
        }
        return json.dumps(made) + "\n"
    return "\n".join(_lines(a, b)) + "\n"


def _lines(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
    from netdiag.render.weights_table import PARTS
    from netdiag.text import fit
    from netdiag.units import UNKNOWN, format_bytes, format_count, format_ms, format_percent
    from netdiag.weights.change import causes, rows

    forms: dict[str, Any] = {
        "ms": format_ms, "bytes": format_bytes, "count": format_count, "share": format_percent,
    }  # fmt: skip
    yield f"{fit('', 24)}{'A':>10}{'B':>10}{'change':>11}"
    for row in rows(a, b):
        if not row.a and not row.b:
            continue
        form = forms[row.unit]
        cells = [UNKNOWN if value is None else form(value) for value in (row.a, row.b)]
        change = row.change
        if change is None:
            told = UNKNOWN
        elif row.unit == "share":
            told = f"{100 * change:+.0f} pts"
        else:
            told = f"{'−' if change < 0 else '+'}{form(abs(change))}"
        yield f"{fit(PARTS.get(row.name, row.name), 24)}{cells[0]:>10}{cells[1]:>10}{told:>11}"
    for code, became in causes(a, b):
        yield f"{became:<5} {code}"
    yield "note  one load against one: whether a difference is chance is not known"
