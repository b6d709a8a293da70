# SPDX-License-Identifier: Apache-2.0
"""Turns what an analysis saw into a `Finding`: words from the catalogue, evidence with ids, cost and severity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from netdiag.analysis.case import Case, Process
from netdiag.analysis.links import NAN, Link, known
from netdiag.analysis.pricing import grade
from netdiag.catalog import Entry, catalog
from netdiag.findings import Evidence, Finding, Learned, Severity, Subject

__all__ = ["Seen", "finding", "milliseconds", "number_of", "price", "subject"]

_SHOWN = 5
_WORTH_NAMING = 0.005
"""A smaller share of the time is no headline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One cause as an analysis saw it; times in milliseconds, NaN = cannot be measured."""

    code: str
    links: tuple[Link, ...]
    """The connections that show it, by time."""
    count: int
    of: int
    confidence: float
    cost_ms: float = NAN
    cause: str | None = None
    learned: Learned | None = None
    note: str = ""
    structural: bool = False
    breaks: bool = False
    severity: Severity | None = None
    """Set where the rule of costs does not decide."""
    ceiling: Severity | None = None
    """Never said louder than this."""
    what_if: str | None = None
    calls: float = NAN
    """Requests that the cost is spread over."""
    words: Mapping[str, str] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()
    """Evidence beyond the connections."""
    examples: tuple[Evidence, ...] | None = None
    """Evidence instead of the connections: where requests show it."""
    host: str | None = None
    process: Process | None = None


def milliseconds(value: float) -> str:
    """Return a duration as people read it: `0.4 ms`, `47 ms`, `5.5 s`."""
    if value < 10:
        return f"{value:.1f} ms"
    return f"{value:.0f} ms" if value < 1000 else f"{value / 1e3:.1f} s"


def price(cost_ms: float, total_ms: float) -> str:
    """Return a cost and what it is part of: `5.5 of 47.6 s (12 %)`; the cost alone where the total is unknown."""
    if not known(total_ms) or total_ms <= 0 or cost_ms > total_ms:  # a wait before the calls is no part of them
        return milliseconds(cost_ms)
    share = f"({_digits(100 * cost_ms / total_ms)} %)"
    if total_ms < 1000:
        return f"{_digits(cost_ms)} of {_digits(total_ms)} ms {share}"
    if cost_ms < 100:
        return f"{_digits(cost_ms)} ms of {total_ms / 1e3:.1f} s {share}"
    return f"{cost_ms / 1e3:.1f} of {total_ms / 1e3:.1f} s {share}"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def number_of(learned: Learned) -> str:
    """Return a learned number without needless digits."""
    whole = learned.unit == "requests" or learned.value >= 1000
    return f"{learned.value:,.0f}" if whole else f"{learned.value:.3g}"


def finding(case: Case, seen: Seen) -> Finding:
    """Return the finding for what was seen."""
    entry = catalog()[seen.code]
    values = _values(case, seen)
    share = seen.cost_ms / case.total_ms if known(seen.cost_ms) and case.total_ms > 0 else NAN
    priced = known(seen.cost_ms) and not share < _WORTH_NAMING
    return Finding(
        code=seen.code,
        cause=seen.cause,
        severity=_severity(case, seen),
        confidence=round(seen.confidence, 2),
        title=entry.render(entry.title if priced else entry.plain, values),
        subject=subject(seen),
        count=seen.count,
        of=seen.of,
        cost_ms=round(seen.cost_ms, 3) if known(seen.cost_ms) else None,
        share_of_total=round(min(1.0, share), 4) if known(share) else None,
        what_if=seen.what_if,
        evidence=_evidence(seen, entry, values),
        learned=seen.learned,
        advice=entry.render_advice(
            seen.process.libraries if seen.process else (),
            values,
            guesses=seen.process.installed if seen.process else (),
        ),
        explain=f"netdiag explain {seen.code}",
    )


def subject(seen: Seen) -> Subject:
    """Return whom it is about: what all connections have in common."""
    pids = {link.pid for link in seen.links if known(link.pid)}
    if not seen.links and seen.process is not None and known(seen.process.pid):
        pids = {seen.process.pid}
    remotes = {link.remote for link in seen.links}
    return Subject(
        pid=int(next(iter(pids))) if len(pids) == 1 else None,
        exe=seen.process.exe if seen.process else None,
        remote=next(iter(remotes)) if len(remotes) == 1 else None,
        host=next((link.remote_name for link in seen.links if link.remote_name), None if seen.links else seen.host),
    )


def _severity(case: Case, seen: Seen) -> Severity:
    calls = seen.calls if known(seen.calls) else seen.of
    graded = seen.severity or grade(
        cost_ms=seen.cost_ms, total_ms=case.total_ms, calls=calls, structural=seen.structural, breaks=seen.breaks
    )
    order = list(Severity)
    return graded if seen.ceiling is None else max(graded, seen.ceiling, key=order.index)


def _values(case: Case, seen: Seen) -> dict[str, str]:
    host = seen.host or (seen.links[0].remote if seen.links else "the server")
    values = {"count": f"{seen.count:,}", "of": f"{seen.of:,}", "host": host, "cost": "", "price": ""}
    values["connections"] = f"{seen.count:,} connection" + ("s" if seen.count != 1 else "")
    if known(seen.cost_ms):
        values |= {"cost": milliseconds(seen.cost_ms), "price": price(seen.cost_ms, case.total_ms)}
    if seen.learned and known(seen.learned.low) and known(seen.learned.high):
        values |= {
            "learned": number_of(seen.learned),
            "unit": seen.learned.unit,
            "low": f"{seen.learned.low:.3g}",
            "high": f"{seen.learned.high:.3g}",
            "above": f"{_round_up(seen.learned.high)}",
            "below": f"{max(0.1, 0.8 * seen.learned.low):.2g}",
        }
    return values | dict(seen.words)


def _round_up(value: float) -> int:
    return int(value * 1.2) + 1


def _evidence(seen: Seen, entry: Entry, values: Mapping[str, str]) -> tuple[Evidence, ...]:
    proof = entry.render(entry.proof_line, values)
    said = f"{proof}: {seen.note}" if seen.note else proof
    if seen.examples is not None:
        kind = seen.examples[0].kind if seen.examples else "request"
        return (Evidence(kind=kind, id=None, note=said), *seen.examples, *seen.evidence)
    lines = [Evidence(kind="connection", id=None, note=said)]
    lines += [Evidence(kind="connection", id=link.id, note=_note(link)) for link in seen.links[:_SHOWN]]
    if len(seen.links) > _SHOWN:
        lines.append(Evidence(kind="connection", id=None, note=f"and {len(seen.links) - _SHOWN} more like these"))
    return (*lines, *seen.evidence)


def _note(link: Link) -> str:
    """Return one connection's story in a line."""
    if link.outcome not in (None, "established"):
        parts: Sequence[str] = [f"{link.outcome}" + (f" ({link.error})" if link.error else "")]
    else:
        requests = f"{link.app:.0f} request{'s' if link.app != 1 else ''}" if known(link.app) else "requests unknown"
        parts = [requests if link.exact or not known(link.app) else f"about {requests}"]
        if known(link.setup_ms):
            parts = [*parts, f"set up in {milliseconds(link.setup_ms)}"]
        if link.closed_by:
            who = "program" if link.closed_by == "local" else "server"
            idle = f" after {milliseconds(link.idle_before_close_ms)} idle" if known(link.idle_before_close_ms) else ""
            parts = [*parts, f"closed first by the {who}{idle}"]
    return f"{link.remote}, " + ", ".join(parts)
