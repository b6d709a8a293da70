# SPDX-License-Identifier: Apache-2.0
"""The page that a person reads and passes on: one file, one small script of its own, nothing loaded from elsewhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from netdiag.assets import data_dir
from netdiag.errors import UsageError
from netdiag.render import Options, cadence, ladders, lanes, spreads, waterfall, words
from netdiag.render.table import subject
from netdiag.text import safe
from netdiag.units import UNKNOWN, format_bytes, format_count, format_ms

__all__ = ["Part", "page", "page_environment", "render"]

_TEMPLATE = "trace.html.j2"
_MAX_ROWS = 300


def render(document: Mapping[str, Any], options: Options) -> str:
    """Return the whole page of one recording."""
    return page([Part(document=document, name="", activity=options.activity, arrived=options.arrived)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One recording of a page."""

    document: Mapping[str, Any]
    name: str
    """How the list of recordings calls it."""
    activity: Mapping[str, tuple[tuple[str, float, float], ...]] = field(default_factory=dict)
    arrived: Mapping[str, Sequence[float]] = field(default_factory=dict)
    routes: Sequence[Mapping[str, Any]] = ()
    """Of stored checks, as `route_shown.shown` tells them."""
    counts: tuple[int, int] | None = None
    """Requests and connections in all, where the document has not all of them."""
    values: Mapping[str, Sequence[float]] | None = None
    """Of such a document, the known times of all requests by measure."""


def page(parts: Sequence[Part], *, templates: Path | None = None) -> str:
    """Return the page of these recordings; what lies in `templates` is taken for the shipped file of that name.

    UsageError where a file there is no template, or names what is not there.
    """
    try:
        return _filled(parts, templates)
    except jinja2.TemplateError as error:
        if templates is None:
            raise
        raise UsageError(f"--template {templates}: {error}") from error


def _filled(parts: Sequence[Part], templates: Path | None) -> str:
    environment = page_environment(templates)
    # a page's script and styles are ours or the user's own: nothing of what was traced is in them
    script = environment.get_template("page.js").render()
    verdicts = [_verdict(part.document) for part in parts]
    title = verdicts[0]["title"] if len(parts) == 1 else f"{len(parts)} recordings"
    text: str = environment.get_template(_TEMPLATE).render(
        reports=[
            _report(part, number, verdict) for number, (part, verdict) in enumerate(zip(parts, verdicts, strict=True))
        ],
        several=len(parts) > 1,
        title=title,
        script=Markup(script),  # noqa: S704 - see above
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return text


def _report(part: Part, number: int, verdict: Mapping[str, str]) -> dict[str, Any]:
    document = part.document
    return {
        "at": "" if number == 0 else f"-{number}",
        "name": part.name or words.command(document),
        "document": document,
        "summary": document["summary"],
        "verdict": verdict,
        "facts": _facts(document),
        "early": words.breaks_off(document),
        "parts": _parts(document),
        "picture": lanes.draw(document, part.activity, None if part.counts is None else part.counts[1]),
        "rows": document["connections"][:_MAX_ROWS],
        "capture": document["coverage"]["tier"] == "capture",
        "lost": sum(row["lost"] or 0 for row in document["coverage"]["events"]),
        "busy": any(phases and phases[0][0] == "busy" for phases in part.activity.values()),
        "costs": _costs(document),
        "waterfall": waterfall.draw(document, None if part.counts is None else part.counts[0]),
        "spreads": spreads.draw(document, part.values),
        "ladders": ladders.draw(document),
        "routes": part.routes,
        "cadence": cadence.draw(document, part.arrived),
    }


def _costs(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the findings with a cost, dearest first, with the length of their bars in per cent."""
    priced = [(number, row) for number, row in enumerate(document["findings"], 1) if row["cost_ms"]]
    most = max((row["cost_ms"] for _, row in priced), default=1.0)
    rows = [
        {
            "number": number,
            "code": row["code"],
            "severity": row["severity"],
            "count": row["count"],
            "cost_ms": row["cost_ms"],
            "share": row["share_of_total"],
            "width": 100 * row["cost_ms"] / most,
        }
        for number, row in priced
    ]
    return sorted(rows, key=lambda row: -row["cost_ms"])


def page_environment(templates: Path | None = None) -> jinja2.Environment:
    """Return what fills templates in: escaping on, foreign text made safe, unknown values as a dash."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*([templates] if templates else []), data_dir("reports") / "templates"]),
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
