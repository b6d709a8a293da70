# SPDX-License-Identifier: Apache-2.0
"""Requests that met a dead or dying connection: stale races, silent drops, shared sockets, resets, unguarded waits."""

from __future__ import annotations

from collections.abc import Sequence

from netdiag.analysis.build import Seen, finding, milliseconds
from netdiag.analysis.case import Case, Group
from netdiag.analysis.links import NAN, Link, column, known
from netdiag.analysis.pricing import setup_cost, successors
from netdiag.analysis.standstill import Standstill, standstills
from netdiag.findings import Finding, Learned, Severity

__all__ = ["analyze", "stale"]

_RACE_MS = 50.0
_REST_MS = 1000.0
_LONG_WAIT_MS = 60_000.0
_TICKETS = 1300
"""Bytes that the session tickets of TLS 1.3 may have: up to four records of 300 bytes and a margin."""


def analyze(case: Case) -> list[Finding]:
    """Return one finding per cause and group."""
    resent, stops = _resent(case), standstills(case)
    found: list[Seen | None] = []
    for group in case.groups:
        found += [_stale_race(group, stops), _silent_drop(case, group, resent), _fork_shared(group)]
        found += [_reset(group), _no_probes(case, group)]
    return [finding(case, seen) for seen in found if seen is not None]


def _resent(case: Case) -> dict[int, list[float]]:
    rows: dict[int, list[float]] = {}
    table = case.tables.retransmits
    for row, at in zip(column(table, "connection"), column(table, "at_ns"), strict=True):
        rows.setdefault(int(row), []).append(float(at))
    return rows


def _calls(group: Group) -> int:
    return round(max(group.calls, float(len(group.links))))


def _unanswered(link: Link) -> bool:
    return bool(link.calls) and not link.calls[-1].answered


def stale(link: Link) -> bool:
    """A request on a connection that had served before got the server's end instead of an answer."""
    if len(link.calls) < 2 or not _unanswered(link) or link.closed_by != "remote":
        return False
    return (link.closing_ns - link.calls[-1].sent_ns) / 1e6 <= _RACE_MS + (link.rtt_ms if known(link.rtt_ms) else 0.0)


def _rest_ms(link: Link) -> float:
    """Return how long the connection had rested before its last request: since an answer, or a request without one."""
    if len(link.calls) < 2:
        return NAN
    before, last = link.calls[-2], link.calls[-1]
    since = before.last_byte_ns if known(before.last_byte_ns) else before.sent_ns
    return (last.began_ns - since) / 1e6


def _stale_race(group: Group, stops: Standstill | None) -> Seen | None:
    """Where the program had been stopped meanwhile, that is another cause: reuse.frozen-process."""
    raced = [link for link in group.links if stale(link) and not (stops and stops.spoiled_ms(link))]
    if not raced:
        return None
    lost_ms = sum(max(0.0, (link.closing_ns - link.calls[-1].began_ns) / 1e6) for link in raced)
    renewed = setup_cost(successors(raced, group.links))
    rests = [_rest_ms(link) / 1e3 for link in raced]
    return Seen(
        code="reuse.stale-race",
        links=tuple(raced),
        count=len(raced),
        of=max(len(group.links), round(group.calls) + (0 if group.exact else len(raced))),
        confidence=0.9 if all(link.close == "rst" for link in raced) else 0.85,
        cost_ms=lost_ms + (renewed if known(renewed) else 0.0),
        cause="reset" if all(link.close == "rst" for link in raced) else "closed",
        learned=Learned(name="rest_before_failure", value=min(rests), low=min(rests), high=max(rests), unit="s"),
        note=f"after {min(rests):.2f} to {max(rests):.2f} s of rest",
        breaks=True,
        host=group.host,
        process=group.process,
    )


def _silent_drop(case: Case, group: Group, resent: dict[int, list[float]]) -> Seen | None:
    dropped = [link for link in group.links if _dropped(link, resent.get(link.row, []))]
    if not dropped:
        return None
    span_ns = case.tables.span_ms * 1e6
    waits = [(_until(link, span_ns) - link.calls[-1].began_ns) / 1e6 for link in dropped]
    rests = [_rest_ms(link) / 1e3 for link in dropped]
    return Seen(
        code="reuse.silent-drop",
        links=tuple(dropped),
        count=len(dropped),
        of=_calls(group),
        confidence=0.85,
        cost_ms=sum(waits),
        learned=Learned(name="rest_before_drop", value=min(rests), low=min(rests), high=max(rests), unit="s"),
        note=f"after {min(rests):.1f} to {max(rests):.1f} s of rest",
        breaks=True,
        host=group.host,
        process=group.process,
    )


def _until(link: Link, span_ns: float) -> float:
    return min([at for at in (link.closing_ns, link.ended_ns, span_ns) if known(at)])


def _dropped(link: Link, resent: Sequence[float]) -> bool:
    if len(link.calls) < 2 or not _unanswered(link) or link.closed_by == "remote" or not _rest_ms(link) >= _REST_MS:
        return False
    return sum(at >= link.calls[-1].began_ns for at in resent) >= 2 or link.close == "timeout"


def _fork_shared(group: Group) -> Seen | None:
    mixed = [link for link in group.links if link.shared and (link.close == "rst" or link.error or stale(link))]
    if not mixed:
        return None
    return Seen(
        code="reuse.fork-shared",
        links=tuple(mixed),
        count=len(mixed),
        of=len(group.links),
        confidence=0.85,
        note="written or read by more than one process, then broken",
        breaks=True,
        host=group.host,
        process=group.process,
    )


def _reset(group: Group) -> Seen | None:
    broken = [link for link in group.links if _broken(link) and not stale(link) and not link.shared]
    if not broken:
        return None
    silent = [link for link in broken if _unanswered(link)]
    calls = _calls(group)
    return Seen(
        code="tcp.reset",
        links=tuple(broken),
        count=len(broken),
        of=calls,
        confidence=0.9 if len(silent) == len(broken) else 0.7,
        cost_ms=_wasted(broken),
        cause=_reset_cause(broken),
        note=f"{len(silent)} without a byte received after the request, {len(broken) - len(silent)} after some bytes",
        severity=Severity.CRITICAL if len(broken) >= 0.05 * calls else Severity.WARNING,
        host=group.host,
        process=group.process,
    )


def _reset_cause(broken: Sequence[Link]) -> str | None:
    """Return whether an answer had begun; None where the bytes received may have been session tickets."""
    tickets = [
        link for link in broken if not _unanswered(link) and link.encrypted and not link.exact and _maybe_tickets(link)
    ]
    if tickets:
        return None
    return "before-answer" if sum(map(_unanswered, broken)) > len(broken) / 2 else "mid-answer"


def _maybe_tickets(link: Link) -> bool:
    return len(link.calls) == 1 and link.calls[-1].received_bytes <= _TICKETS


def _wasted(links: Sequence[Link]) -> float:
    ends = [(link.calls[-1], link.closing_ns) for link in links if link.calls]
    spent = [((call.last_byte_ns if call.answered else end) - call.began_ns) / 1e6 for call, end in ends]
    return float(sum(spent)) if spent else NAN


def _broken(link: Link) -> bool:
    """The peer's reset met a request without answer, an answer that was still coming, or the connect itself."""
    return link.cut_off or link.outcome == "reset"


def _no_probes(case: Case, group: Group) -> Seen | None:
    span_ns = case.tables.span_ms * 1e6
    waits = {link.row: _longest_wait(link, span_ns) for link in group.links if link.keepalive_probes is False}
    long = [link for link in group.links if waits.get(link.row, 0.0) >= _LONG_WAIT_MS]
    if not long:
        return None
    hung = [link for link in long if _unanswered(link)]
    return Seen(
        code="reuse.no-keepalive-probes",
        links=tuple(long),
        count=len(long),
        of=_calls(group),
        confidence=0.9,
        note=f"{len(hung)} of them without an answer" if hung else "all were answered in the end",
        severity=Severity.WARNING if hung else Severity.INFO,
        words={"longest": milliseconds(max(waits[link.row] for link in long))},
        host=group.host,
        process=group.process,
    )


def _longest_wait(link: Link, span_ns: float) -> float:
    until = _until(link, span_ns)
    ends = [call.first_byte_ns if call.answered else until for call in link.calls]
    return max(((end - call.sent_ns) / 1e6 for end, call in zip(ends, link.calls, strict=True)), default=0.0)
