# SPDX-License-Identifier: Apache-2.0
"""A load as Markdown, for a ticket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netdiag.render import Options
from netdiag.render.weights_table import PARTS, headline
from netdiag.render.words import percent
from netdiag.text import safe
from netdiag.units import UNKNOWN, format_bytes, format_ms

__all__ = ["render"]


def _cell(text: str) -> str:
    return safe(text).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "'")


def render(document: Mapping[str, Any], options: Options) -> str:  # noqa: ARG001 - the one signature of renderers
    """Return the report."""
    lines = [f"# {_cell(headline(document).removeprefix('netdiag: '))}", ""]
    for one in document["findings"]:
        lines.append(f"- **{one['severity']}** `{one['code']}`: {_cell(one['title'])}")
        lines += [f"  - {_cell(row['note'])}" for row in one["evidence"][:2]]
        lines += [f"  - {_cell(advice['text'])}" for advice in one["advice"][:1]]
        if one["what_if"]:
            lines.append(f"  - then: {_cell(one['what_if'])}")
    load = document["load"]
    if load:
        lines += ["", "| part | time | share |", "|---|---:|---:|"]
        lines += [f"| {PARTS[r['part']]} | {format_ms(r['ms'])} | {percent(r['share'], 1)} |" for r in load["time"]]
    if document["files"]:
        lines += ["", "| file | size | in memory | walk | requests | mean |", "|---|---:|---:|---|---:|---:|"]
    for file in document["files"]:
        asked = file["requests"][0] if file["requests"] else None
        held = None if file["cached_after"] is None else file["cached_after"] / max(file["bytes"], 1)
        cells = [
            _cell(file["path"]),
            format_bytes(file["bytes"]),
            percent(held),
            file["walk"]["direction"] or UNKNOWN,
            f"{asked['count']:,}" if asked else UNKNOWN,
            format_bytes(asked["mean_bytes"]) if asked else UNKNOWN,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    if document["restart"]:
        lines += ["", f"Next load: {_cell(document['restart']['says'])}"]
    return "\n".join(lines) + "\n"
