# SPDX-License-Identifier: Apache-2.0
"""Clients that stop waiting: after a constant time, without a limit, while the server works on, with a second request.

Connections and their times alone show most of it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from netdiag.analysis.build import Seen, finding, milliseconds
from netdiag.analysis.case import Case, Group
from netdiag.analysis.claims import learned
from netdiag.analysis.http_calls import Asked, examples
from netdiag.analysis.links import NAN, Link, known
from netdiag.findings import Finding, Learned, Severity

__all__ = ["analyze"]

_HABIT = 3
_SHORTEST_MS = 40.0
_EVEN_MS, _EVEN = 30.0, 0.05
"""How far ends of one timer lie apart."""
_SILENCE_MS = 120_000.0
_SHORTEST_CONNECT_MS = 300.0
_HEDGE_MS = 20.0
_ONE_DELAY, _ALL = 0.7, 0.8
"""So many of the pairs have one delay, and so many of the requests are of pairs."""
_SAME_SIZE = 24.0
_ON_THE_WAY_MS = 20.0
"""And a round trip: for so long after a close comes what the server had sent before it could know."""


def analyze(case: Case) -> list[Finding]:
    """Return one finding per code and group."""
    found: list[Seen | None] = []
    for group in case.groups:
        asked = case.asked_by(group)
        found += [_client_timeout(case, group, asked), _abandoned(group, asked), _no_deadline(case, group, asked)]
        found += [_connect_timeout(group), _hedge(group, asked)]
    return [finding(case, seen) for seen in found if seen is not None]


def _exit_ns(case: Case, group: Group) -> float:
    return group.end_ns if known(group.end_ns) else case.tables.span_ms * 1e6


# --- the client's own timer -----------------------------------------------------------------------------------------


def _gave_up(case: Case, group: Group) -> list[tuple[Link, float]]:
    """Return connections that the program closed with a request unanswered, and for how long it had waited."""
    end = _exit_ns(case, group)
    found = []
    for link in group.links:
        last = link.calls[-1] if link.calls else None
        if last is None or last.answered or link.closed_by != "local" or not known(link.closing_ns):
            continue
        waited = (link.closing_ns - last.began_ns) / 1e6
        if waited >= _SHORTEST_MS and link.closing_ns < end - 5e6:
            found.append((link, waited))
    return found


def _client_timeout(case: Case, group: Group, asked: Sequence[Asked]) -> Seen | None:
    given_up = _gave_up(case, group)
    same = _even([waited for _, waited in given_up])
    if len(same) < _HABIT or len(same) < 0.6 * len(given_up):
        return None
    rows = {link.row for link, waited in given_up if same[0] <= waited <= same[-1]}
    links = tuple(link for link, _ in given_up if link.row in rows)
    value = learned("client_timeout", same)
    answered = [(call.first_byte_ns - call.began_ns) / 1e6 for call in asked if call.answered]
    slow = [took for took in answered if took > 0.5 * same[0]]
    again = sum(call.retry_of is not None for call in asked)
    return Seen(
        code="retry.client-timeout",
        links=links,
        count=len(links),
        of=max(len(asked), len(links)),
        confidence=min(0.95, 0.8 + 0.05 * (len(same) - _HABIT)),
        cost_ms=sum(same),
        learned=value,
        cause="retried" if again else "given-up",
        note=f"closed after {min(same) / 1e3:.2f} to {max(same) / 1e3:.2f} s without a byte of an answer"
        + (f"; others took up to {milliseconds(max(slow))}" if slow else ""),
        breaks=True,
        words={"timeout": milliseconds(median(same)), "then": "and asked again" if again else "and went on"},
        host=group.host,
        process=group.process,
    )


def _even(values: Sequence[float]) -> list[float]:
    """Return the largest set of values that one timer would give, ascending."""
    ordered = sorted(value for value in values if known(value))
    best: list[float] = []
    for number, value in enumerate(ordered):
        same = [other for other in ordered[number:] if other <= value + max(_EVEN_MS, _EVEN * value)]
        best = same if len(same) > len(best) else best
    return best


def _connect_timeout(group: Group) -> Seen | None:
    """Attempts to connect that the program gave up after one and the same time, one after the other."""
    tried = [
        (link, (link.ended_ns - link.opened_ns) / 1e6)
        for link in group.links
        if link.outcome in ("cancelled", "timeout") and link.syn_retransmits > 0 and known(link.ended_ns)
    ]
    same = [took for took in _even([took for _, took in tried]) if took >= _SHORTEST_CONNECT_MS]
    if len(same) < _HABIT:
        return None
    links = tuple(link for link, took in tried if same[0] <= took <= same[-1])
    pauses = [(later.opened_ns - earlier.ended_ns) / 1e6 for earlier, later in pairwise(links)]
    return Seen(
        code="retry.connect-timeout",
        links=links,
        count=len(links),
        of=len(group.links),
        confidence=0.85,
        cost_ms=sum(same),
        learned=learned("connect_timeout", same),
        note=f"pauses of {milliseconds(max(0.0, median(pauses)))} between them" if pauses else "",
        words={"timeout": milliseconds(median(same))},
        ceiling=Severity.INFO,  # that nobody answers is tcp.connect-timeout's word
        host=group.host,
        process=group.process,
    )


# --- work for nobody ------------------------------------------------------------------------------------------------


def _abandoned(group: Group, asked: Sequence[Asked]) -> Seen | None:
    """The server still sent its answer when the program had gone."""
    last = {call.link.row: call for call in asked}
    left = [
        link
        for link in group.links
        if link.closed_by == "local" and _worked_on(link) and not _whole(last.get(link.row), link)
    ]
    if len(left) < _HABIT:
        return None
    late = sum(link.late_bytes for link in left)
    return Seen(
        code="retry.abandoned-work",
        links=tuple(left),
        count=len(left),
        of=max(len(asked), len(left)),
        confidence=0.8,
        note=f"{late:,.0f} bytes came after the program had closed, "
        f"up to {milliseconds(max(link.late_ms for link in left))} later",
        words={"bytes": f"{late:,.0f}"},
        severity=Severity.WARNING,
        host=group.host,
        process=group.process,
    )


def _worked_on(link: Link) -> bool:
    """More than what had been on the way came after the close."""
    round_trip = link.rtt_ms if known(link.rtt_ms) else 0.0
    return link.late_bytes > 0 and link.late_ms > round_trip + _ON_THE_WAY_MS


def _whole(call: Asked | None, link: Link) -> bool:
    """The answer had come to its end before the program closed."""
    if call is not None and call.complete is True:
        return True
    return call is not None and call.answered and known(call.ended_ns) and call.ended_ns >= link.closing_ns - 3e6


# --- no limit -------------------------------------------------------------------------------------------------------


def _no_deadline(case: Case, group: Group, asked: Sequence[Asked]) -> Seen | None:
    """A silence of minutes that the program sat out."""
    end = case.tables.span_ms * 1e6
    silent = [(call, silence) for call in asked if (silence := _silence_ms(call, end)) >= _SILENCE_MS]
    if not silent:
        return None
    longest = max(silence for _, silence in silent)
    return Seen(
        code="retry.no-deadline",
        links=tuple({call.link.row: call.link for call, _ in silent}.values()),
        count=len(silent),
        of=len(asked),
        confidence=0.7,
        cost_ms=sum(silence for _, silence in silent),
        note=f"the longest silence lasted {milliseconds(longest)}",
        words={"silence": milliseconds(longest), "calls": f"{len(silent):,} call{'s' if len(silent) > 1 else ''}"},
        learned=Learned(name="silence", value=longest / 1e3, low=longest / 1e3, high=longest / 1e3, unit="s"),
        examples=examples((call, f"silent for {milliseconds(silence)}") for call, silence in silent),
        host=group.host,
        process=group.process,
    )


def _silence_ms(call: Asked, end_ns: float) -> float:
    """Return the longest silence while the program waited: until the first byte, and between chunks of a stream."""
    if not call.answered and not call.unanswered:
        return NAN
    until = call.first_byte_ns if call.answered else call.until_ns if known(call.until_ns) else end_ns
    wait = (until - call.sent_ns) / 1e6 if known(call.sent_ns) else NAN
    gap = call.fact("gap_max_ms")
    return max((value for value in (wait, gap) if known(value)), default=NAN)


# --- a second request beside the first ------------------------------------------------------------------------------


def _hedge(group: Group, asked: Sequence[Asked]) -> Seen | None:
    """Pairs of equal requests, the second begun a constant time after the first while that had no answer; both end."""
    every = _pairs(asked)
    pairs = [pair for pair in every if all(call.reused for call in pair)]
    if len(pairs) < _HABIT:  # the first byte of a new connection is late by what that took: those tell less
        pairs = every
    delays = [(second.began_ns - first.began_ns) / 1e6 for first, second in pairs]
    same = _even(delays)
    if len(same) < _HABIT or len(same) < _ONE_DELAY * len(pairs) or 2 * len(every) < _ALL * len(asked):
        return None
    both = [pair for pair, delay in zip(pairs, delays, strict=True) if same[0] <= delay <= same[-1]]
    if not all(first.complete is not False and second.complete is not False for first, second in both):
        return None
    doubt = _callers(both, asked)
    beside = "; callers that each make their own calls would look the same" if doubt else ""
    return Seen(
        code="retry.hedge-uncancelled",
        links=tuple({call.link.row: call.link for pair in both for call in pair}.values()),
        count=len(both),
        of=len(asked),
        confidence=0.4 if doubt else 0.6,
        learned=learned("hedge_delay", same),
        note=f"the second began {milliseconds(median(same))} after the first, and both were answered to the end"
        + beside,
        words={"delay": milliseconds(median(same))},
        severity=Severity.INFO if doubt else Severity.WARNING,
        examples=examples((second, f"beside {first.id}") for first, second in both),
        host=group.host,
        process=group.process,
    )


def _callers(pairs: Sequence[tuple[Asked, Asked]], asked: Sequence[Asked]) -> bool:
    """Tell whether the pairs may as well be callers side by side, as far as times and threads show.

    Several threads call, and each half has one of its own all along, or no pair is over before the next call begins.
    """
    halves = [{call.tid for call in half if known(call.tid)} for half in zip(*pairs, strict=True)]
    if len(halves[0] | halves[1]) < 2:
        return False
    apart = all(len(half) == 1 for half in halves)
    begins = sorted(call.began_ns for call in asked)
    alone = 0
    for first, second in pairs:
        over = max(first.until_ns, second.until_ns)
        alone += bisect_left(begins, over) - bisect_right(begins, second.began_ns) == 0
    return apart or 2 * alone < len(pairs)


def _pairs(asked: Sequence[Asked]) -> list[tuple[Asked, Asked]]:
    ordered = sorted((call for call in asked if call.answered), key=lambda call: call.began_ns)
    found: list[tuple[Asked, Asked]] = []
    used: set[str] = set()
    for first, second in pairwise(ordered):
        if first.id in used or second.id in used or first.link.row == second.link.row:
            continue
        alike = first.path == second.path and abs(first.request_bytes - second.request_bytes) <= _SAME_SIZE
        delay = (second.began_ns - first.began_ns) / 1e6
        if alike and delay >= _HEDGE_MS and second.began_ns < first.first_byte_ns:
            found.append((first, second))
            used |= {first.id, second.id}
    return found
