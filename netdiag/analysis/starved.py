# SPDX-License-Identifier: Apache-2.0
"""Programs that waited for a processor while their data lay ready: a full run queue, or a limit of their cgroup."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from netdiag.analysis.build import Seen, finding, milliseconds
from netdiag.analysis.case import Case, Group
from netdiag.analysis.http_calls import Asked, examples
from netdiag.analysis.http_rows import Rows
from netdiag.analysis.links import NAN, known, number
from netdiag.analysis.whatif import what_if
from netdiag.findings import Finding, Learned

__all__ = ["Scheduling", "analyze", "scheduling_of"]

_MS = 1e6
_LATE_MS = 5.0
"""A shorter wait of data for its reader is a wake-up."""
_LEAST_MS = 100.0
_SHARE = 0.3
"""From this share of the look's time on, waiting for a processor explains late reads in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """What processes did between looks: (until_ns, ran_ms, waited_ms, throttled_ms) since the look before, by pid."""

    looks: dict[float, list[tuple[float, float, float, float]]] = field(default_factory=dict)
    since: dict[float, float] = field(default_factory=dict)
    """When each process was looked at first."""

    def ran_ms(self, pid: float, start: float, end: float) -> float:
        """Return how long the process ran in a span, spread evenly over each look; NaN where nobody looked."""
        return self._share(pid, start, end)[0]

    def waited_ms(self, pid: float, start: float, end: float) -> tuple[float, float]:
        """Return how long it waited for a processor, and how long of that its cgroup was stopped."""
        _, waited, throttled = self._share(pid, start, end)
        return waited, throttled

    def _share(self, pid: float, start: float, end: float) -> tuple[float, float, float]:
        looks = self.looks.get(pid, ())
        before = self.since.get(pid, NAN)
        if not looks or not known(before) or not end >= start:
            return NAN, NAN, NAN
        totals = [0.0, 0.0, 0.0]
        for until, *parts in looks:
            inside = min(until, end) - max(before, start)
            if inside > 0 and until > before:
                totals = [sum_ + part * inside / (until - before) for sum_, part in zip(totals, parts, strict=True)]
            before = until
        return totals[0], totals[1], totals[2]


def scheduling_of(case: Case) -> Scheduling:
    """Return what was sampled, as differences."""
    found = Scheduling()
    rows = case.rows["scheduling"]
    for pid in rows.numbers():
        looks = rows.of(pid, "at_ns", "run_ms", "wait_ms", "throttled_ms")
        ordered = sorted((number(at), number(run), number(wait), number(stop)) for at, run, wait, stop in looks)
        steps = []
        for before, now in pairwise(ordered):
            parts = [max(0.0, b - a) if known(b - a) else 0.0 for a, b in zip(before[1:], now[1:], strict=True)]
            steps.append((now[0], parts[0], parts[1], parts[2]))
        if steps:
            found.looks[pid], found.since[pid] = steps, ordered[0][0]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Late:
    call: Asked
    from_ns: float
    to_ns: float

    @property
    def ms(self) -> float:
        return (self.to_ns - self.from_ns) / _MS


def analyze(case: Case) -> list[Finding]:
    """Return one finding per group."""
    work = scheduling_of(case)
    if not work.looks:
        return []
    found = [_starved(case, group, work, case.rows["bursts"]) for group in case.groups]
    return [finding(case, seen) for seen in found if seen is not None]


def _starved(case: Case, group: Group, work: Scheduling, reads: Rows) -> Seen | None:
    calls = case.asked_by(group)
    late = [
        lag for call in calls for lag in _late(call, reads.of(call.link.row, "direction", "arrived_ns", "began_ns"))
    ]
    looks = work.looks.get(group.pid, [])
    if len(late) < 3 or not looks:
        return None
    ends = [look[0] for look in looks]
    cost, stopped, hit = 0.0, 0.0, []
    for lag in late:
        first, last = bisect_left(ends, lag.from_ns), min(bisect_right(ends, lag.to_ns), len(looks) - 1)
        span = looks[first : last + 1]
        begin = ends[first - 1] if first else work.since[group.pid]
        length = (span[-1][0] - begin) / _MS if span else 0.0
        waited, throttled = (sum(look[part] for look in span) for part in (2, 3))
        if length > 0 and waited + throttled >= _SHARE * min(length, lag.ms) and waited + throttled >= 0.5 * lag.ms:
            hit.append(lag)
            cost += min(lag.ms, waited + throttled)
            stopped += throttled > waited
    if len(hit) < 3 or cost < _LEAST_MS:
        return None
    saved: dict[int, float] = {}
    for lag in hit:
        saved[lag.call.row] = saved.get(lag.call.row, 0.0) + lag.ms
    waits = [lag.ms for lag in hit]
    throttled = 2 * stopped > len(hit)
    return Seen(
        code="client.cpu-starved",
        links=tuple({lag.call.link.row: lag.call.link for lag in hit}.values()),
        count=len(hit),
        of=len(late),
        confidence=0.8,
        cost_ms=cost,
        cause="cgroup-limit" if throttled else "run-queue",
        note=_note(looks),
        learned=Learned(name="late_read", value=median(waits), low=min(waits), high=max(waits), unit="ms"),
        what_if=what_if(calls, saved),
        calls=len(calls),
        words={"why": "its cgroup's CPU limit stopped it" if throttled else "other programs had the processors"},
        examples=examples((lag.call, f"data lay ready for {milliseconds(lag.ms)}") for lag in _longest(hit)),
        host=group.host,
        process=group.process,
    )


def _late(call: Asked, rows: Sequence[tuple[object, ...]]) -> list[_Late]:
    """Return when data of the answer lay ready for its reader longer than a wake-up takes."""
    if not call.answered:
        return []
    found = []
    for direction, arrived, began in rows:
        start, end = number(arrived), number(began)
        if direction == "receive" and known(start) and call.first_byte_ns - _MS <= end <= call.until_ns + _MS:
            found.append(_Late(call=call, from_ns=start, to_ns=end))
    return [lag for lag in found if lag.ms >= _LATE_MS]


def _longest(late: Sequence[_Late]) -> list[_Late]:
    return sorted(late, key=lambda lag: -lag.ms)


def _note(looks: Sequence[tuple[float, float, float, float]]) -> str:
    ran, waited, stopped = (sum(look[part] for look in looks) for part in (1, 2, 3))
    limit = f", and its cgroup was stopped for {milliseconds(stopped)}" if stopped else ""
    return f"in this trace it ran for {milliseconds(ran)} and waited {milliseconds(waited)} for a processor{limit}"
