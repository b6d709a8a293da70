# SPDX-License-Identifier: Apache-2.0
"""How long traced processes ran and waited for a processor, read from /proc once a second. Standard library only.

Of each thread `/proc/PID/task/TID/schedstat` has the time on a processor and the time in the run queue
(Documentation/scheduler/sched-stats.rst); `cpu.stat` of its cgroup has the time that a CPU limit stopped it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from netdiag.recorder.facts import monotonic_ns
from netdiag.recording.writer import RecordingWriter

__all__ = ["Scheduling"]

_MAX_PROCESSES = 64
_MAX_THREADS = 256
"""Of one process; further ones are left out."""
_MAX_WAITS = 32
"""Threads of a process that are named in one look, those that waited most."""
_LEAST_WAIT_NS = 1_000_000
_MAX_DEPTH = 16
_CPU_STAT_BYTES = 4096


@dataclass(slots=True, kw_only=True)
class _Watched:
    threads: dict[str, tuple[int, int]] = field(default_factory=dict)
    """What each thread's counters said last, ns."""
    run_ns: int = 0
    wait_ns: int = 0
    limits: tuple[str, ...] = ()
    """The cpu.stat files of its cgroup and those above it."""
    said: dict[str, Any] = field(default_factory=dict)


class Scheduling:
    """Writes a fact `scheduling` for each process and second in which something changed."""

    def __init__(
        self,
        writer: RecordingWriter,
        *,
        proc: str = "/proc",
        cgroups: str = "/sys/fs/cgroup",
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        self._writer, self._proc, self._cgroups, self._clock = writer, proc, cgroups, clock
        self._watched: dict[int, _Watched] = {}

    def meet(self, pids: Iterable[int]) -> None:
        """Look at these processes from now on, as far as there is room; the first look is their zero.

        One that is met again runs another program, maybe in another cgroup.
        """
        for pid in pids:
            if pid in self._watched:
                self._watched[pid].limits = self._limits(pid)
            if pid in self._watched or len(self._watched) >= _MAX_PROCESSES:
                continue
            watched = self._watched[pid] = _Watched(limits=self._limits(pid))
            self._look(pid, watched)

    def tick(self) -> None:
        """Look at all of them; those that are gone are forgotten."""
        for pid, watched in list(self._watched.items()):
            if not self._look(pid, watched):
                del self._watched[pid]

    def _look(self, pid: int, watched: _Watched) -> bool:
        folder = f"{self._proc}/{pid}/task"
        try:
            names = os.listdir(folder)[:_MAX_THREADS]
        except OSError:
            return False
        now: dict[str, tuple[int, int]] = {}
        waits: list[tuple[int, int]] = []
        for name in names:
            counters = _numbers(_read(f"{folder}/{name}/schedstat", 128))
            if counters is None:
                continue
            run, wait = now[name] = counters
            run_before, wait_before = watched.threads.get(name, (0, 0))
            if run < run_before:  # another thread got the number
                run_before = wait_before = 0
            watched.run_ns += run - run_before
            waited = max(0, wait - wait_before)
            watched.wait_ns += waited
            if waited >= _LEAST_WAIT_NS:
                waits.append((waited, int(name)))
        watched.threads = now
        throttled, periods = _throttled(watched.limits)
        fact = {
            "run_ms": round(watched.run_ns / 1e6, 3),
            "wait_ms": round(watched.wait_ns / 1e6, 3),
            "throttled_ms": throttled,
            "periods": periods,
        }
        if fact != watched.said and now:
            most = [[tid, round(ns / 1e6, 3)] for ns, tid in sorted(waits, reverse=True)[:_MAX_WAITS]]
            self._writer.fact("scheduling", {"pid": pid, "at_ns": self._clock(), **fact, "waits": most})
            watched.said = fact
        return bool(now)

    def _limits(self, pid: int) -> tuple[str, ...]:
        """Return the cpu.stat files that count for a process: of its cgroup and of all above it, both versions."""
        found: list[str] = []
        for line in (_read(f"{self._proc}/{pid}/cgroup", 65536) or b"").decode("utf-8", "replace").splitlines():
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            if ".." in path.split("/"):
                continue
            names = controllers.split(",")
            roots = [self._cgroups, f"{self._cgroups}/unified"] if controllers == "" else []
            roots += [f"{self._cgroups}/{controllers}", f"{self._cgroups}/cpu"] if "cpu" in names else []
            for root in dict.fromkeys(roots):
                found += _upward(root, path)
        return tuple(dict.fromkeys(found))


def _upward(root: str, path: str) -> list[str]:
    """Return the cpu.stat files from a cgroup up to below its root, those that can be read."""
    parts = [part for part in path.split("/") if part][:_MAX_DEPTH]
    names = ["/".join((root, *parts[:depth], "cpu.stat")) for depth in range(len(parts), 0, -1)]
    return [name for name in names if os.access(name, os.R_OK)]


def _throttled(files: Iterable[str]) -> tuple[float | None, int | None]:
    """Return how long limits stopped the cgroup (ms) and in how many periods; None where there is no limit.

    The kernel adds up the time of all processors. Of several limits above each other the one that stopped it longest
    counts: who is stopped by two at once is stopped once.
    """
    found: tuple[int, int] | None = None
    for name in files:
        lines = (_read(name, _CPU_STAT_BYTES) or b"").split(b"\n")
        stat = dict(pair for line in lines if len(pair := line.split(b" ", 1)) == 2)
        try:
            if not int(stat.get(b"nr_periods", b"0")):
                continue
            periods = int(stat.get(b"nr_throttled", b"0"))
            time_ns = int(stat.get(b"throttled_time", b"0")) + 1000 * int(stat.get(b"throttled_usec", b"0"))
        except ValueError:
            continue
        found = max(found or (0, 0), (time_ns, periods))
    return (None, None) if found is None else (round(found[0] / 1e6, 3), found[1])


def _numbers(raw: bytes | None) -> tuple[int, int] | None:
    try:
        run, wait = (raw or b"").split()[:2]
        return int(run), int(wait)
    except ValueError:
        return None


def _read(path: str, most: int) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read(most)
    except OSError:
        return None
