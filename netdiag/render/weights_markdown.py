# SPDX-License-Identifier: Apache-2.0
"""A load as Markdown, for a ticket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netdiag.render import Options
from netdiag.render.markdown import escape
from netdiag.render.weights_table import PARTS, headline
from netdiag.render.words import percent
from netdiag.units import UNKNOWN, format_bytes, format_ms

__all__ = ["render"]


def render(document: Mapping[str, Any], options: Options) -> str:  # noqa: ARG001 - the one signature of renderers
    """Return the report."""
    lines = [f"# {escape(headline(document).removeprefix('netdiag: '))}", ""]
    for one in document["findings"]:
        lines.append(f"- **{one['severity']}** `{one['code']}`: {escape(one['title'])}")
        lines += [f"  - {escape(row['note'])}" for row in one["evidence"][:2]]
        lines += [f"  - {escape(advice['text'])}" for advice in one["advice"][:1]]
        if one["what_if"]:
            lines.append(f"  - then: {escape(one['what_if'])}")
    for row in document["verified"]:
        took = f"{format_ms(row['before_ms'])} → {format_ms(row['after_ms'])}"
        ways = f"{escape(row['before'])} → {escape(row['after'])}"
        lines.append(f"- verified `{row['code']}`, {row['state']}: {took}; {ways}")
    load = document["load"]
    if load:
        lines += ["", "| part | time | share |", "|---|---:|---:|"]
        lines += [f"| {PARTS[r['part']]} | {format_ms(r['ms'])} | {percent(r['share'], 1)} |" for r in load["time"]]
    if document["files"]:
        lines += ["", "| file | size | in memory | walk | requests | mean |", "|---|---:|---:|---|---:|---:|"]
    for file in document["files"]:
        asked = file["requests"][0] if file["requests"] else None
        known = file["cached_after"] is not None and file["bytes"]
        held = file["cached_after"] / file["bytes"] if known else None
        cells = [
            escape(file["path"]),
            format_bytes(file["bytes"]),
            percent(held),
            file["walk"]["direction"] or UNKNOWN,
            f"{asked['count']:,}" if asked else UNKNOWN,
            format_bytes(asked["mean_bytes"]) if asked else UNKNOWN,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    if document["restart"]:
        lines += ["", f"Next load: {escape(document['restart']['says'])}"]
    return "\n".join(lines) + "\n"
