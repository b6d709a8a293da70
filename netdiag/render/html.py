# SPDX-License-Identifier: Apache-2.0
"""The page that a person reads and passes on: one file, no script, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jinja2

from netdiag.assets import data_dir
from netdiag.render import Options, lanes, words
from netdiag.render.table import subject
from netdiag.text import safe
from netdiag.units import UNKNOWN, format_bytes, format_count, format_ms

__all__ = ["page_environment", "render"]

_TEMPLATE = "trace.html.j2"
_MAX_ROWS = 300


def render(document: Mapping[str, Any], options: Options) -> str:
    """Return the whole page."""
    environment = page_environment()
    page: str = environment.get_template(_TEMPLATE).render(
        document=document,
        summary=document["summary"],
        verdict=_verdict(document),
        facts=_facts(document),
        early=words.breaks_off(document),
        parts=_parts(document),
        picture=lanes.draw(document, options.activity),
        rows=document["connections"][:_MAX_ROWS],
        lost=sum(row["lost"] or 0 for row in document["coverage"]["events"]),
        geometry={"label": lanes.LABEL_PX, "plot": lanes.PLOT_PX, "lane": lanes.LANE_PX, "head": lanes.HEAD_PX},
    )
    return page


def page_environment() -> jinja2.Environment:
    """Return what fills templates in: escaping on, foreign text made safe, unknown values as a dash."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(data_dir("reports") / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_shown,
    )
    environment.filters |= {
        "bytes": format_bytes,
        "count": format_count,
        "endpoint": words.endpoint,
        "ms": format_ms,
        "name": words.name_of,
        "percent": words.percent,
        "plural": words.plural,
        "seconds": words.seconds,
        "subject": subject,
    }
    return environment


def _shown(value: Any) -> Any:
    """Return what is printed for a value: foreign text made safe, a dash for what is not known."""
    if value is None:
        return UNKNOWN
    return safe(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _verdict(document: Mapping[str, Any]) -> dict[str, str]:
    loud = [row for row in document["findings"] if row["severity"] != "info"]
    if loud:
        return {"severity": loud[0]["severity"], "title": loud[0]["title"]}
    if not document["connections"]:
        return {"severity": "info", "title": "No TCP connection was seen, so there is nothing to judge."}
    return {"severity": "good", "title": "Nothing to change was found."}


def _facts(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    summary = document["summary"]
    status = (document["command"] or {}).get("exit_status")
    facts = [
        ("traced", words.command(document)),
        ("started", document["started"][:19].replace("T", " ") + " UTC"),
        ("for", words.lasted(document)),
        ("connections", format_count(summary["connections"])),
        ("requests", format_count(summary["requests"])),
        ("reuse", words.percent(summary["reuse"])),
        ("wait p50", format_ms(summary["wait_ms"]["p50"])),
        ("wait p95", format_ms(summary["wait_ms"]["p95"])),
    ]
    return facts if status is None else [*facts, ("exit status", str(status))]


def _parts(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of request time with their place in the bar, in per cent of its width."""
    source = words.sources(document)
    parts, at = [], 0.0
    for row in document["summary"]["time"]:
        share = 100 * (row["share"] or 0.0)
        parts.append(
            {
                **row,
                "name": words.part(row["part"], document),
                "source": source.get(row["part"], ""),
                "x": at,
                "width": share,
            }
        )
        at += share
    return parts
