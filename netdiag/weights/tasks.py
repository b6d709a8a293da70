# SPDX-License-Identifier: Apache-2.0
"""Processes and their threads by /proc: counters, states, and what a thread that does not run is in the middle of."""

from __future__ import annotations

import contextlib
import os
import platform
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Process", "Task", "counters", "memory_of_pid"]

_ARM = platform.machine() == "aarch64"
_READS = {63, 65, 67, 69, 71, 286, 426, 4} if _ARM else {0, 17, 19, 40, 208, 295, 327, 426}
"""read, readv, pread, preadv, sendfile, preadv2, io_uring_enter, io_getevents."""
_POPULATES = {222, 228, 230, 233, 284} if _ARM else {9, 28, 149, 151, 325}
"""mmap, mlock, mlockall, madvise, mlock2."""
_IOCTL = 29 if _ARM else 16
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_IO = {"rchar": "rchar", "syscr": "syscr", "read_bytes": "read_bytes"}
_MOST_ASKED = 8
"""Threads that sleep and are asked in which call: the ones that brought most."""
_LEAST_RSS = 64 << 20


def counters(folder: Path) -> tuple[dict[str, int], str, str] | None:
    """Return the counters of a thread, its state and name; None where it is gone."""
    try:
        text = (folder / "stat").read_bytes()
    except OSError:
        return None
    name, _, rest = text[text.find(b"(") + 1 :].rpartition(b")")
    fields = rest.split()
    if len(fields) < 40:
        return None
    found = {"minor": int(fields[7]), "major": int(fields[9]), "user": int(fields[11]), "system": int(fields[12])}
    with contextlib.suppress(OSError, ValueError, IndexError):
        run, ready = (folder / "schedstat").read_bytes().split()[:2]
        found |= {"run": int(run), "ready": int(ready)}
    with contextlib.suppress(OSError, ValueError):
        for line in (folder / "io").read_bytes().splitlines():
            key, _, value = line.partition(b": ")
            if key.decode() in _IO:
                found[key.decode()] = int(value)
    return found, fields[0].decode(), name.decode("utf-8", "backslashreplace")


@dataclass(slots=True)
class Task:
    """One thread: its counters when it was first seen and last, and in which states it was found, by time."""

    tid: int
    comm: str
    began_ns: int
    seen_ns: int
    first: Mapping[str, int]
    last: Mapping[str, int]
    off: dict[str, int] = field(default_factory=dict)
    """What it was in when it did not run → time since the look before, nanoseconds."""
    looks: int = 0

    def grown(self, name: str) -> int:
        """Return by how much a counter grew; 0 where the kernel does not tell it."""
        return self.last.get(name, 0) - self.first.get(name, 0)

    @property
    def brought(self) -> int:
        """Bytes that it brought, roughly."""
        return self.grown("rchar") + 4096 * (self.grown("minor") + self.grown("major"))


@dataclass(slots=True)
class Process:
    """A process with its threads."""

    pid: int
    proc: Path = Path("/proc")
    tasks: dict[int, Task] = field(default_factory=dict)
    children: list[int] = field(default_factory=list)
    ended: bool = False
    memory: dict[str, Any] | None = None
    """At its largest."""
    denied: bool = False
    """Its counters of input may not be read."""
    _gone: list[Task] = field(default_factory=list)
    _looked_rss: int = 0

    def look(self, now: int) -> None:
        """Look at all threads once."""
        folder = self.proc / str(self.pid) / "task"
        try:
            tids = [int(path.name) for path in folder.iterdir() if path.name.isdigit()]
        except OSError:
            self.ended = True
            return
        busy = sorted(self.tasks.values(), key=lambda task: task.brought, reverse=True)[:_MOST_ASKED]
        asked = {task.tid for task in busy}
        self.children = []
        alive = 0
        for tid in tids:
            alive += self._look_at(folder / str(tid), tid, now, ask=tid in asked)
        self.ended = not alive
        if alive:
            self._look_at_memory()

    def _look_at(self, folder: Path, tid: int, now: int, *, ask: bool) -> bool:
        found = counters(folder)
        if found is None or found[1] in "ZX":
            return False
        values, state, comm = found
        self.denied = self.denied or "rchar" not in values
        task = self.tasks.get(tid)
        if task is None:
            new = self.tasks and tid != self.pid  # of a new thread all is its own
            first = dict.fromkeys(values, 0) if new else values
            self.tasks[tid] = Task(tid=tid, comm=comm, began_ns=now, seen_ns=now, first=first, last=values)
        else:
            if state != "R":
                into = self._into(folder, state) if state == "D" or ask else "asleep"
                task.off[into] = task.off.get(into, 0) + now - task.seen_ns
                task.looks += 1
            task.comm, task.last, task.seen_ns = comm, values, now
        with contextlib.suppress(OSError, ValueError):
            self.children += [int(pid) for pid in (folder / "children").read_bytes().split()]
        return True

    def _into(self, folder: Path, state: str) -> str:
        """Return what a thread that does not run is in: fault, read, populate, ioctl, other, unknown, asleep."""
        try:
            words = (folder / "syscall").read_bytes().split()
        except OSError:
            words = []
        if not words or words[0] == b"running":
            return "unknown" if state == "D" else "asleep"
        number = int(words[0])
        if number < 0:
            return "fault"
        if number in _READS:
            return "read" if state == "D" or self._of_a_file(int(words[1], 16)) else "asleep"
        if number in _POPULATES:
            return "populate"
        if number == _IOCTL:
            return "ioctl"
        return "other" if state == "D" else "asleep"

    def _of_a_file(self, fd: int) -> bool:
        with contextlib.suppress(OSError):
            return stat.S_ISREG((self.proc / str(self.pid) / "fd" / str(fd)).stat().st_mode)
        return False

    def _look_at_memory(self) -> None:
        """Ask for the pages of a process that grew by a quarter since: the answer takes milliseconds."""
        try:
            rss = int((self.proc / str(self.pid) / "statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError, IndexError):
            return
        if rss < _LEAST_RSS or rss < 1.25 * self._looked_rss:
            return
        self._looked_rss = rss
        found = memory_of_pid(self.proc / str(self.pid))
        if found is not None and (self.memory is None or found["anonymous"] >= self.memory["anonymous"]):
            self.memory = found

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield what was seen."""
        for task in self.tasks.values():
            grown = {name: task.grown(name) if name in task.last else None for name in
                     ("run", "ready", "user", "system", "minor", "major", "rchar", "syscr", "read_bytes")}  # fmt: skip
            for name in ("user", "system"):
                grown[name] = (grown[name] or 0) * _TICK_NS
            yield {
                "kind": "thread", "pid": self.pid, "tid": task.tid, "comm": task.comm, "began_ns": task.began_ns,
                "ended_ns": task.seen_ns, "looks": task.looks, "off": task.off, **grown,
            }  # fmt: skip
        if self.memory is not None:
            yield {"kind": "memory", "pid": self.pid, **self.memory}
        if self.denied:
            yield {"kind": "denied", "pid": self.pid}


def memory_of_pid(folder: Path) -> dict[str, Any] | None:
    """Return a process's memory: anonymous, in huge pages, by node, bytes; None where it may not be read."""
    values = {}
    try:
        for line in (folder / "smaps_rollup").read_bytes().splitlines():
            words = line.split()
            if len(words) == 3 and words[2] == b"kB":
                values[words[0].decode().rstrip(":")] = int(words[1]) * 1024
    except (OSError, ValueError):
        return None
    if "Anonymous" not in values:
        return None
    return {
        "anonymous": values["Anonymous"],
        "anonymous_huge": values.get("AnonHugePages", 0),
        "file_huge": values.get("FilePmdMapped", 0),
        **_nodes(folder),
    }


def _nodes(folder: Path) -> dict[str, Any]:
    """Return pages by node and the node of the processor that the process was on; nothing where there is one node."""
    nodes = {int(path.name[4:]): path for path in Path("/sys/devices/system/node").glob("node[0-9]*")}
    if len(nodes) < 2:
        return {}
    pages: dict[str, int] = {}
    try:
        for line in (folder / "numa_maps").read_bytes().splitlines():
            words = line.decode("ascii", "replace").split()
            size = next((int(w[17:]) for w in words if w.startswith("kernelpagesize_kB=")), 4) * 1024
            for word in words:
                name, _, count = word.partition("=")
                if name[:1] == "N" and name[1:].isdigit() and count.isdigit():
                    pages[name[1:]] = pages.get(name[1:], 0) + int(count) * size
        cpu = int((folder / "stat").read_bytes().rpartition(b")")[2].split()[36])
    except (OSError, ValueError, IndexError):
        return {}
    home = next((number for number, path in nodes.items() if (path / f"cpu{cpu}").exists()), None)
    return {"nodes": pages, "node": home}
