# SPDX-License-Identifier: Apache-2.0
"""Programs that waited for a processor while their data lay ready: a full run queue, or a limit of their cgroup."""

from __future__ import annotations

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
from netdiag.findings import Finding, Learned, Severity

__all__ = ["Scheduling", "analyze", "covered", "scheduling_of"]

_MS = 1e6
_LATE_MS = 5.0
"""A shorter wait of data for its reader is a wake-up."""
_LEAST_MS, _LONG_MS = 100.0, 300.0
_OFTEN = 3
_LONG_WAKE_MS = 40.0
"""One late read in ten is this late: no mere wake-up on a busy machine."""
_STOPPED, _STOPPED_OF = 0.3, 0.1
_SHARE = 0.8
"""Data lay ready in a look for so long at most, as a share, as the program waited for a processor in it."""


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

    def starved(self, pid: float, lags: Sequence[tuple[float, float]]) -> list[tuple[float, float, float, float]]:
        """Return the looks in which waiting for a processor explains nearly all the time that data lay ready.

        Each as (from_ns, until_ns, ms that data lay ready, ms that the cgroup was stopped). `lags` are when data lay
        ready, of all connections of the process; what overlaps counts once.
        """
        found = []
        before = self.since.get(pid, NAN)
        joined = _joined(lags)
        for until, _ran, waited, throttled in self.looks.get(pid, ()):
            ready = sum(max(0.0, min(end, until) - max(start, before)) for start, end in joined) / _MS
            if ready > 0 and waited + throttled >= _SHARE * ready:
                found.append((before, until, ready, throttled))
            before = until
        return found

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


def covered(spans: Sequence[tuple[float, float, float, float]], start: float, end: float) -> bool:
    """Tell whether most of a time lies in these looks."""
    inside = sum(max(0.0, min(until, end) - max(since, start)) for since, until, *_ in spans)
    return inside >= 0.5 * (end - start)


def _joined(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
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
    starved = work.starved(group.pid, [(lag.from_ns, lag.to_ns) for lag in late])
    hit = [lag for lag in late if covered(starved, lag.from_ns, lag.to_ns)]
    ready = sum(ms for _, _, ms, _ in starved)
    stopped = sum(throttled for *_, throttled in starved)
    if ready < _LEAST_MS or (len(hit) < _OFTEN and max((lag.ms for lag in hit), default=0.0) < _LONG_MS):
        return None
    # what comes a little late in the middle of a stream makes its end no later: a call pays for its last read
    saved: dict[int, float] = {}
    for lag in hit:
        if lag.to_ns >= lag.call.ended_ns - _MS or lag.ms >= _LONG_MS:
            saved[lag.call.row] = max(saved.get(lag.call.row, 0.0), lag.ms)
    cost = sum(saved.values())
    waits = [lag.ms for lag in hit]
    throttled = stopped > _STOPPED * ready
    watched = sum(until - since for since, until, *_ in starved) / _MS
    often = throttled and stopped > _STOPPED_OF * watched
    loud = often or sorted(waits)[int(0.9 * (len(waits) - 1))] >= _LONG_WAKE_MS
    return Seen(
        code="client.cpu-starved",
        links=tuple({lag.call.link.row: lag.call.link for lag in hit}.values()),
        count=len(hit),
        of=len(late),
        confidence=0.8,
        cost_ms=cost,
        cause="cgroup-limit" if throttled else "run-queue",
        note=_note(work.looks[group.pid]),
        learned=Learned(name="late_read", value=median(waits), low=min(waits), high=max(waits), unit="ms"),
        what_if=what_if(calls, saved),
        calls=len(calls),
        # a busy machine wakes everybody some milliseconds late: that alone is no warning
        ceiling=None if loud else Severity.INFO,
        structural=often,
        words={"why": "its cgroup's CPU limit stopped it" if throttled else _who_had_them(work, group.pid, starved)},
        examples=examples((lag.call, f"data lay ready for {milliseconds(lag.ms)}") for lag in _longest(hit)),
        host=group.host,
        process=group.process,
    )


def _who_had_them(work: Scheduling, pid: float, starved: Sequence[tuple[float, float, float, float]]) -> str:
    """Say who had the processors: a program that ran on more than one of them may have taken them from itself."""
    ran = sum(work.ran_ms(pid, since, until) for since, until, *_ in starved)
    alone = ran < sum(until - since for since, until, *_ in starved) / _MS
    return "other programs had the processors" if alone else "its own threads, or other programs, had the processors"


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
