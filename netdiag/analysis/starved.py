# SPDX-License-Identifier: Apache-2.0
"""Programs that waited for a processor while their data lay ready: a full run queue, or a limit of their cgroup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from netdiag.analysis.build import Seen, finding, milliseconds
from netdiag.analysis.case import Case, Group
from netdiag.analysis.http_calls import Asked, examples
from netdiag.analysis.http_rows import Rows
from netdiag.analysis.links import NAN, known, number
from netdiag.analysis.whatif import what_if
from netdiag.findings import Finding, Learned, Severity

__all__ = ["Scheduling", "Starved", "analyze", "covered", "scheduling_of"]

_MS = 1e6
_LATE_MS = 5.0
"""A shorter wait of data for its reader is a wake-up."""
_LEAST_MS, _LONG_MS = 100.0, 300.0
_OFTEN = 3
_LONG_WAKE_MS = 40.0
"""One late read in ten is this late: no mere wake-up on a busy machine."""
_STOPPED, _STOPPED_OF = 0.3, 0.1
_SHARE = 0.8
"""Data lay ready in a look for so long at most, as a share, as its reader waited for a processor in it."""
_NOBODY = -1.0


class Look(NamedTuple):
    """What a process did since the look before."""

    until_ns: float
    ran_ms: float
    waited_ms: float
    """All threads together."""
    throttled_ms: float
    """All processors together."""
    threads: Mapping[int, float] | None
    """How long the threads that waited most did, ms; None where that was not recorded."""

    def waited_by(self, tid: float) -> float:
        """Return how long one thread waited; where that is not known, the most that one thread can have."""
        if self.threads is None:
            return self.waited_ms
        if not known(tid):
            return max(self.threads.values(), default=0.0)
        return self.threads.get(int(tid), 0.0)


class Starved(NamedTuple):
    """A look in which waiting for a processor explains nearly all the time that data lay ready for one thread."""

    from_ns: float
    until_ns: float
    ready_ms: float
    stopped_ms: float
    """For how long of it the cgroup was stopped."""
    tid: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """What processes did between looks, by pid."""

    looks: dict[float, list[Look]] = field(default_factory=dict)
    since: dict[float, float] = field(default_factory=dict)
    """When each process was looked at first."""

    def ran_ms(self, pid: float, start: float, end: float) -> float:
        """Return how long the process ran in a span, spread evenly over each look; NaN where nobody looked."""
        looks = self.looks.get(pid, ())
        before = self.since.get(pid, NAN)
        if not looks or not known(before) or not end >= start:
            return NAN
        total = 0.0
        for look in looks:
            inside = min(look.until_ns, end) - max(before, start)
            if inside > 0 and look.until_ns > before:
                total += look.ran_ms * inside / (look.until_ns - before)
            before = look.until_ns
        return total

    def starved(self, pid: float, lags: Iterable[tuple[float, float, float]]) -> list[Starved]:
        """Return the looks in which a thread that reads had no processor.

        `lags` are when data lay ready and for which thread (NaN = not known), of all connections of the process; what
        overlaps counts once. Waiting is what the kernel calls so of this very thread: others of a large pool may wait
        at any time, and that a cgroup was stopped is in it.
        """
        by_thread: dict[float, list[tuple[float, float]]] = {}
        for start, end, tid in lags:
            by_thread.setdefault(tid if known(tid) else _NOBODY, []).append((start, end))
        joined = {tid: _joined(spans) for tid, spans in by_thread.items()}
        found = []
        before = self.since.get(pid, NAN)
        for look in self.looks.get(pid, ()):
            until = look.until_ns
            for tid, spans in joined.items():
                ready = sum(max(0.0, min(end, until) - max(start, before)) for start, end in spans) / _MS
                waited = min(look.waited_by(NAN if tid == _NOBODY else tid), (until - before) / _MS)
                if ready > 0 and waited >= _SHARE * ready:
                    found.append(Starved(before, until, ready, min(look.throttled_ms, ready), tid))
            before = until
        return found


def scheduling_of(case: Case) -> Scheduling:
    """Return what was sampled, as differences."""
    found = Scheduling()
    rows = case.rows["scheduling"]
    for pid in rows.numbers():
        looks = rows.of(pid, "at_ns", "run_ms", "wait_ms", "throttled_ms", "waits")
        ordered = sorted((([number(each) for each in look[:4]], look[4]) for look in looks), key=lambda each: each[0])
        steps = []
        for (before, _), (now, waits) in pairwise(ordered):
            ran, waited, stopped = (
                max(0.0, b - a) if known(b - a) else 0.0 for a, b in zip(before[1:], now[1:], strict=True)
            )
            steps.append(Look(now[0], ran, waited, stopped, waits if isinstance(waits, dict) else None))
        if steps:
            found.looks[pid], found.since[pid] = steps, ordered[0][0][0]
    return found


def covered(spans: Iterable[Starved], start: float, end: float, tid: float) -> bool:
    """Tell whether most of a time in which data lay ready for a thread lies in these looks."""
    thread = tid if known(tid) else _NOBODY
    inside = sum(max(0.0, min(one.until_ns, end) - max(one.from_ns, start)) for one in spans if one.tid == thread)
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
    tid: float

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
        lag
        for call in calls
        for lag in _late(call, reads.of(call.link.row, "direction", "arrived_ns", "began_ns", "tid"))
    ]
    starved = work.starved(group.pid, [(lag.from_ns, lag.to_ns, lag.tid) for lag in late])
    hit = [lag for lag in late if covered(starved, lag.from_ns, lag.to_ns, lag.tid)]
    ready = sum(one.ready_ms for one in starved)
    stopped = sum(one.stopped_ms for one in starved)
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
    spans = sorted({(one.from_ns, one.until_ns) for one in starved})
    watched = sum(until - since for since, until in spans) / _MS
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
        words={"why": "its cgroup's CPU limit stopped it" if throttled else _who_had_them(work, group.pid, spans)},
        examples=examples((lag.call, f"data lay ready for {milliseconds(lag.ms)}") for lag in _longest(hit)),
        host=group.host,
        process=group.process,
    )


def _who_had_them(work: Scheduling, pid: float, spans: Sequence[tuple[float, float]]) -> str:
    """Say who had the processors: a program that ran on more than one of them may have taken them from itself."""
    ran = sum(work.ran_ms(pid, since, until) for since, until in spans)
    alone = ran < sum(until - since for since, until in spans) / _MS
    return "other programs had the processors" if alone else "its own threads, or other programs, had the processors"


def _late(call: Asked, rows: Sequence[tuple[object, ...]]) -> list[_Late]:
    """Return when data of the answer lay ready for its reader longer than a wake-up takes."""
    if not call.answered:
        return []
    found = []
    for direction, arrived, began, tid in rows:
        start, end = number(arrived), number(began)
        if direction == "receive" and known(start) and call.first_byte_ns - _MS <= end <= call.until_ns + _MS:
            found.append(_Late(call=call, from_ns=start, to_ns=end, tid=number(tid)))
    return [lag for lag in found if lag.ms >= _LATE_MS]


def _longest(late: Sequence[_Late]) -> list[_Late]:
    return sorted(late, key=lambda lag: -lag.ms)


def _note(looks: Sequence[Look]) -> str:
    ran, waited, stopped = (
        sum(values)
        for values in zip(*((look.ran_ms, look.waited_ms, look.throttled_ms) for look in looks), strict=True)
    )
    limit = f"; its cgroup was stopped for {milliseconds(stopped)}, all processors together" if stopped else ""
    return (
        f"in this trace its threads together ran for {milliseconds(ran)} and waited {milliseconds(waited)} "
        f"for a processor{limit}"
    )
