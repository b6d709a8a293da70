# SPDX-License-Identifier: Apache-2.0
"""The report as Markdown, to paste into an issue, a review or a chat."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from netdiag.render import Options, words
from netdiag.render.table import subject
from netdiag.text import safe
from netdiag.units import UNKNOWN, format_count, format_ms

__all__ = ["escape", "render"]

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~$@-])")
_MAX_EVIDENCE = 10


def escape(text: str) -> str:
    """Return text that Markdown and HTML inside it show as it is, on one line."""
    return _SPECIAL.sub(r"\\\1", safe(text)).replace("&", "&amp;")


def render(document: Mapping[str, Any], options: Options) -> str:  # noqa: ARG001 - the one signature of renderers
    """Return the whole report: findings, time, hosts, coverage."""
    parts = [
        _head(document),
        *(_finding(finding) for finding in document["findings"]),
        _time(document),
        _hosts(document["summary"]["by_host"]),
        _coverage(document),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(document: Mapping[str, Any]) -> str:
    summary = document["summary"]
    facts = [
        words.lasted(document),
        words.plural(summary["connections"], "connection"),
        words.plural(summary["requests"], "request"),
        f"reuse {words.percent(summary['reuse'])}",
    ]
    lines = [f"# netdiag: {_code(words.command(document))}", "", " · ".join(facts), ""]
    early = words.breaks_off(document)
    if early is not None:
        lines += [f"**Early end:** {escape(early)}.", ""]
    worst = document["findings"][0]["severity"] if document["findings"] else None
    if worst is None:
        lines.append("No finding." if document["connections"] else "No TCP connection was seen.")
    return "\n".join(lines).rstrip()


def _code(text: str) -> str:
    """Return text as code: with a fence longer than any run of back quotes in it."""
    text = safe(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _finding(finding: Mapping[str, Any]) -> str:
    return "\n".join(_finding_lines(finding))


def _finding_lines(finding: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {str(finding['severity']).upper()}: {escape(finding['title'])}"
    yield ""
    cause = f", cause {escape(finding['cause'])}" if finding["cause"] else ""
    about = f" · {escape(subject(finding))}" if subject(finding) else ""
    yield f"{_code(finding['code'])}{cause} · confidence {finding['confidence']:.2f}{about}"
    yield ""
    notes = [": ".join(filter(None, (row["id"], row["note"]))) for row in finding["evidence"] if row["note"]]
    yield from (f"- {escape(note)}" for note in notes[:_MAX_EVIDENCE])
    if len(notes) > _MAX_EVIDENCE:
        yield f"- and {len(notes) - _MAX_EVIDENCE:,} more"
    for advice in finding["advice"]:
        yield from _advice(advice)
    if finding["what_if"]:
        yield ""
        yield f"**Then:** {escape(finding['what_if'])}"


def _advice(advice: Mapping[str, Any]) -> Iterator[str]:
    setting = f" ({_code(' = '.join(filter(None, (advice['setting'], advice['value']))))})" if advice["setting"] else ""
    library = f"{escape(advice['applies_to'])}: " if advice["applies_to"] else ""
    yield ""
    yield f"**Fix:** {library}{escape(advice['text'])}{setting}"
    if advice["snippet"]:
        yield ""
        yield from (f"    {safe(line)}".rstrip() for line in advice["snippet"].splitlines())


def _grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def _time(document: Mapping[str, Any]) -> str:
    summary = document["summary"]
    if not summary["time_ms"]:
        return ""
    rows = [
        (
            words.part(row["part"], document),
            words.span(row["ms"], summary["time_ms"]),
            words.percent(row["share"], 1),
            format_ms(row["p50_ms"]),
        )
        for row in summary["time"]
    ]
    title = f"## Where {words.seconds(summary['time_ms'])} of request time went"
    head = ("part", f"total {words.unit(summary['time_ms'])}", "share", "p50 a call")
    return f"{title}\n\n{_grid(head, rows)}"


def _hosts(hosts: Sequence[Mapping[str, Any]]) -> str:
    if not hosts:
        return ""
    rows = [
        (
            escape(words.name_of(row["host"], row["port"])),
            format_count(row["requests"]),
            format_count(row["connections"]),
            format_count(row["failed_connections"]),
            words.percent(row["reuse"]),
            format_ms(row["wait_ms"]["p50"]),
        )
        for row in hosts
    ]
    return "## Other ends\n\n" + _grid(("host", "requests", "connections", "failed", "reuse", "wait p50"), rows)


def _coverage(document: Mapping[str, Any]) -> str:
    coverage = document["coverage"]
    lines = ["## Coverage", "", f"- tier: {escape(coverage['tier'] or 'unknown')}"]
    for row in coverage["probes"]:
        reason = f": {escape(row['reason'])}" if row["reason"] else ""
        lines.append(f"- probe {escape(row['name'] or UNKNOWN)}: {escape(row['state'] or 'unknown')}{reason}")
    for row in coverage["events"]:
        counts = f"{format_count(row['seen'])} seen, {format_count(row['lost'])} lost"
        lines.append(f"- events of {escape(row['probe'] or UNKNOWN)}: {counts}")
    unseen = [(escape(row["what"] or ""), escape(row["why"] or "")) for row in coverage["unobservable"]]
    lines += [f"- not seen: {what}: {why}" for what, why in unseen]
    lines += [f"- ignored: {_code(row['code'])}: {escape(row['reason'])}" for row in document["ignored"]]
    return "\n".join(lines)
