# SPDX-License-Identifier: Apache-2.0
"""Looks at processes and the files that they load by /proc and cachestat(2), in a process of its own; needs no rights.

Run as `python -m netdiag.weights.watching FD [PATH…]`: `pid N` lines on standard input say whom to watch (with later
children), a byte to FD says that they are watched, JSON lines come out when it ends. It looks a hundred times a second
at first and, so that it stays cheap, less often the longer it lasts; what a look cost decides as well.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import select
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netdiag.weights.holding import Held, Holdings
from netdiag.weights.tasks import Process

__all__ = ["Watcher", "main", "period_s"]

_FASTEST_S, _SLOWEST_S = 0.01, 0.1
_BUDGET = 0.01
"""Share of one processor that looking may take."""
_POINT_NS = 100_000_000


def period_s(elapsed_s: float, look_s: float) -> float:
    """Return the time until the next look: a hundredth of what passed, and a hundred times what a look cost."""
    return min(max(_FASTEST_S, elapsed_s / 100, look_s / _BUDGET), 10 * _SLOWEST_S if look_s > 0.001 else _SLOWEST_S)


@dataclass(slots=True)
class Watcher:
    """What is seen of processes; `say` gets dictionaries."""

    say: Callable[[dict[str, Any]], None]
    proc: Path = Path("/proc")
    processes: dict[int, Process] = field(default_factory=dict)
    holdings: Holdings = field(default_factory=Holdings)
    _point_ns: int = 0
    _looks: int = 0
    _spent_ns: int | None = None
    """Time on a processor before anybody was watched."""

    def watch(self, pid: int) -> None:
        """Begin with a process; one that is gone is passed over."""
        if self._spent_ns is None:
            self._spent_ns = time.process_time_ns()
        if pid not in self.processes:
            self.processes[pid] = Process(pid=pid, proc=self.proc)

    def look(self) -> None:
        """Look at all processes once."""
        now = time.monotonic_ns()
        for pid, process in list(self.processes.items()):
            if process.ended:
                continue
            process.look(now)
            for child in process.children:
                self.watch(child)
            if process.ended:
                self.holdings.let_go(pid)
                continue
            self.holdings.look(process, now, thorough=self._looks % 5 == 0)
        if now - self._point_ns >= _POINT_NS:
            self._point_ns = now
            self.say({"kind": "point", "at_ns": now, **self._sums()})
        self._looks += 1

    def _sums(self) -> dict[str, int]:
        tasks = [task for process in self.processes.values() for task in process.tasks.values()]
        return {
            "device_bytes": sum(task.grown("read_bytes") for task in tasks),
            "read_bytes": sum(task.grown("rchar") for task in tasks),
            "faults": sum(task.grown("minor") + task.grown("major") for task in tasks),
        }

    def finish(self) -> None:
        """Say what was seen."""
        for process in self.processes.values():
            for row in process.rows():
                self.say(row)
        for held in self.holdings.all():
            self.say(_file_row(held))
        self.say({"kind": "cost", "cpu_ns": time.process_time_ns() - (self._spent_ns or 0), "looks": self._looks})


def _file_row(held: Held) -> dict[str, Any]:
    return {
        "kind": "file", "pid": held.pid, "path": held.path, "device": held.device, "inode": held.inode,
        "size": held.size, "began_ns": held.began_ns, "ended_ns": held.ended_ns, "cached_first": held.cached_first,
        "cached_last": held.cached_last, "evicted": held.evicted, "mapped": held.mapped, "opened": held.opened,
        "forward": held.forward, "backward": held.backward, "near": held.near,
    }  # fmt: skip


def _become_caller() -> None:
    """Under sudo become the user who called: files and processes are looked at with their rights."""
    try:
        uid, gid = int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"])
    except (KeyError, ValueError):
        return
    if os.geteuid() != 0 or uid <= 0:
        return
    with contextlib.suppress(KeyError):
        os.initgroups(pwd.getpwuid(uid).pw_name, gid)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def main() -> int:
    """Watch until standard input ends."""
    _become_caller()
    rows: list[dict[str, Any]] = []
    watcher = Watcher(rows.append)
    answers = int(sys.argv[1])
    for path in sys.argv[2:]:
        watcher.holdings.expect(path)
    began = time.monotonic()
    os.set_blocking(0, False)
    pending, wait, open_ = b"", 1.0, True
    while open_:
        ready, _, _ = select.select([0], [], [], wait)
        if ready:
            more = os.read(0, 65_536)
            open_ = bool(more)
            pending += more
            *lines, pending = pending.split(b"\n")
            for line in lines:
                if line.startswith(b"pid "):
                    watcher.watch(int(line[4:]))
            if lines and open_:
                watcher.look()
                os.write(answers, b"+")
        spent = time.process_time()
        watcher.look()
        wait = period_s(time.monotonic() - began, time.process_time() - spent)
    watcher.finish()
    sys.stdout.write("".join(json.dumps(row) + "\n" for row in rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
