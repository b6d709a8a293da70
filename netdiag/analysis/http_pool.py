# SPDX-License-Identifier: Apache-2.0
"""Calls that waited inside the program until a connection of its pool was free.

Nothing of such a wait is on the wire. It is seen where the program's own clock was read (`queue_ms`), and where
threads hand a full pool's connections on to each other the moment they are free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from netdiag.analysis.build import Seen, finding, milliseconds
from netdiag.analysis.case import Case, Group, Process
from netdiag.analysis.http_calls import Asked, examples
from netdiag.analysis.links import Link, known
from netdiag.analysis.whatif import what_if
from netdiag.findings import Finding, Learned, Severity

__all__ = ["analyze"]

_MS = 1e6
_LONG_MS = 20.0
_AT_ONCE_MS = 15.0
"""A connection that goes on with another thread's call so soon after an answer was waited for."""
_PAUSE_NS = 100e6
"""All connections at rest for so long: the rush is over."""
_LEAST, _SHARE = 3, 0.3
_SIDE_BY_SIDE = 2


def analyze(case: Case) -> list[Finding]:
    """Return one finding per group."""
    found = []
    for group in case.groups:
        calls = case.asked_by(group)
        found.append(_told(group, calls) or _handed_on(group, calls))
    return [finding(case, seen) for seen in found if seen is not None]


def _told(group: Group, calls: Sequence[Asked]) -> Seen | None:
    """The program's own clock: it asked, and nothing was sent until a connection was free."""
    waits = {call.row: call.queue_ms for call in calls if call.queue_ms >= _LONG_MS}
    hit = [call for call in calls if call.row in waits]
    return _seen(group, calls, hit, waits, sure=0.9) if len(hit) >= _LEAST else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rush:
    """Calls with no rest between them on all connections."""

    calls: tuple[Asked, ...]

    @property
    def links(self) -> set[int]:
        return {call.link.row for call in self.calls}

    @property
    def threads(self) -> set[float]:
        return {call.tid for call in self.calls if known(call.tid)}


def _rushes(calls: Sequence[Asked]) -> list[_Rush]:
    found: list[list[Asked]] = []
    busy_until = float("-inf")
    for call in sorted((c for c in calls if known(c.began_ns) and known(c.until_ns)), key=lambda c: c.began_ns):
        if found and call.began_ns - busy_until < _PAUSE_NS:
            found[-1].append(call)
        else:
            found.append([call])
        busy_until = max(busy_until, call.until_ns)
    return [_Rush(calls=tuple(group)) for group in found]


def _handed_on(group: Group, calls: Sequence[Asked]) -> Seen | None:
    """More threads than connections, and each connection goes to another thread the moment that it is free.

    A runtime that moves tasks between its threads shows the same without any wait, and so does one call at a time.
    """
    if _moves_tasks(group.process) or _most_at_once(calls) < _SIDE_BY_SIDE:
        return None
    waits: dict[int, float] = {}
    hit: list[Asked] = []
    for rush in _rushes(calls):
        if len(rush.threads) <= len(rush.links):
            continue
        start = rush.calls[0].began_ns
        ready: dict[float, float] = {}
        before: dict[int, Asked] = {}
        for call in rush.calls:
            last = before.get(call.link.row)
            if last is not None and last.tid != call.tid and (call.began_ns - last.until_ns) / _MS <= _AT_ONCE_MS:
                waited = (call.began_ns - ready.get(call.tid, start)) / _MS
                if waited >= _LONG_MS:
                    waits[call.row] = waited
                    hit.append(call)
            before[call.link.row] = call
            ready[call.tid] = call.until_ns
    if len(hit) < _LEAST or len(hit) < _SHARE * len(calls):
        return None
    return _seen(group, calls, hit, waits, sure=0.65)


def _moves_tasks(process: Process | None) -> bool:
    """Tell whether its threads may be no callers: Go's, and those of a program none of whose libraries is known."""
    if process is None:
        return False
    names = {*process.libraries, *process.installed}
    return not names or "go" in names


def _seen(group: Group, calls: Sequence[Asked], hit: Sequence[Asked], waits: dict[int, float], *, sure: float) -> Seen:
    links: tuple[Link, ...] = tuple({call.link.row: call.link for call in hit}.values())
    most = _most_at_once(calls)
    times = [waits[call.row] for call in hit]
    counted = sure < 0.9
    # in what the connections show, the wait comes before the call: no part of its time holds it
    return Seen(
        code="http.pool-wait",
        links=links,
        count=len(hit),
        of=len(calls),
        confidence=sure,
        cost_ms=sum(times),
        note="more threads than connections, each connection went on with another thread's call at once: the waits are "
        "what the threads did not do otherwise, at most"
        if counted
        else "",
        learned=Learned(name="pool", value=most, low=most, high=most, unit="connections"),
        ceiling=Severity.WARNING if counted else None,
        what_if=None if counted else what_if(calls, waits),
        calls=len(calls),
        words={"wait": milliseconds(median(times)), "pool": f"{most:.0f}"},
        examples=examples((call, f"waited up to {milliseconds(waits[call.row])} for a connection") for call in hit),
        host=group.host,
        process=group.process,
    )


def _most_at_once(calls: Sequence[Asked]) -> float:
    """Return how many connections were busy at once, at most."""
    steps = sorted(
        step
        for call in calls
        if known(call.began_ns) and known(call.until_ns)
        for step in ((call.began_ns, 1), (call.until_ns, -1))
    )
    busy = most = 0
    for _, step in sorted(steps, key=lambda step: (step[0], step[1])):
        busy += step
        most = max(most, busy)
    return float(most)
