# SPDX-License-Identifier: Apache-2.0
"""Keeps probes on the libraries of the traced processes, and on nobody else's, from their first call on.

A thread of its own does it, because the kernel takes some 10 ms to put probes on and 50 ms to take them away, while the
rings have to be read. Libraries under their usual names are probed before a process loads them: the kernel then writes
the breakpoints when it maps the file. Others are found in the process's map, soon after it began and again later.
"""

from __future__ import annotations

import heapq
import os
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from netdiag.ebpf import uprobe
from netdiag.errors import NetdiagError
from netdiag.recorder.functions import NAMES, PLAIN
from netdiag.recorder.objects import Objects, Probed
from netdiag.recording.format import StreamLayout

__all__ = ["FunctionProbes"]

_SEEN, _FORK, _EXEC, _EXIT = 1, 2, 3, 4
"""Of `enum nd_process_kind`."""
_LOOKS_S = (0.01, 0.02, 0.03, 0.045, 0.06, 0.08, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3, 0.4, 0.5)
"""When a map is looked at after its process was met or ran a program, which is when modules with libraries of their own
are loaded; then with every tick. Where nothing was mapped since, a look takes some microseconds."""
_TICK_S = 1.0
_SWITCH_S = 0.001
"""How long one thread may keep the other waiting."""
_MOST_LOOKS = 64
"""Per tick; the others have their turn with the next one."""
_MOST_PROCESSES = 1024
_EARLY = 64
"""So many new processes are probed before it is known what they run; later ones with what their like have used."""
_GENERATIONS = 4
_MOST_MAPS_BYTES = 4 << 20
_MOST_REASONS = 8
_MOST_RAN = 8


@dataclass(slots=True)
class _Process:
    """What is probed of a process."""

    links: list[int] = field(default_factory=list)
    probed: dict[int, Probed] = field(default_factory=dict)
    """By the descriptor of the file."""
    mapped: list[Probed] = field(default_factory=list)
    """Those that it has in its memory."""
    parent: _Process | None = None
    ran: dict[int, Probed] = field(default_factory=dict)
    """Programs with a library inside that children of it ran."""
    size: bytes = b""
    """Of its memory when its map was last looked at: a library that was loaded since makes it larger."""


class FunctionProbes:
    """The probes on functions of one trace. One thread starts, feeds and stops it, another does the work."""

    def __init__(self, programs: Mapping[str, tuple[int, int]]) -> None:
        """`programs`: name of a probe → descriptors of its programs for entries and for returns."""
        self._programs = dict(programs)
        self._multi = uprobe.has_multi(next(iter(self._programs.values()))[0])
        self._objects = Objects(probes=frozenset(self._programs))
        self._processes: dict[int, _Process] = {}
        self._orders: deque[tuple[int, int, int]] = deque()
        self._wake = threading.Event()
        self._news: deque[dict[str, Any]] = deque()
        self._untold: deque[tuple[int, Probed, _Process]] = deque()
        self._reasons: dict[str, None] = {}
        self._due: list[tuple[float, int, int]] = []
        self._numbers = count()
        self._closing: list[int] = []
        self._early = _EARLY
        self._ended = False
        self._thread: threading.Thread | None = None

    # --- for the thread that records ------------------------------------------------------------------------------

    def start(self, pids: Iterable[int], about_to_run: tuple[int, int] | None = None) -> None:
        """Probe the processes that are there already, then start to follow.

        `about_to_run`: a process that waits, and a descriptor of the program that it will run, which is taken over.
        """
        if about_to_run is not None:
            program = self._objects.opened(about_to_run[1])
            if program is not None:
                self._probe(about_to_run[0], program)
        for pid in pids:
            self._usual(pid)
            self._meet(pid)
        sys.setswitchinterval(_SWITCH_S)
        self._thread = threading.Thread(target=self._run, name="uprobes", daemon=True)
        self._thread.start()

    def follow(self, layout: StreamLayout, runs: Iterable[memoryview]) -> None:
        """Take note of new records about processes."""
        places = {field.name: layout.offset + field.offset for field in layout.fields}
        tgid, parent, kind = places["tgid"], places["parent"], places["kind"]
        for run in runs:
            for at in range(0, len(run), layout.stride):
                (pid,) = struct.unpack_from("=I", run, at + tgid)
                if pid:
                    self._orders.append((run[at + kind], pid, struct.unpack_from("=I", run, at + parent)[0]))
                    self._wake.set()

    def news(self) -> Iterable[dict[str, Any]]:
        """Yield facts `tls_library` that are new."""
        while self._news:
            yield self._news.popleft()

    def reasons(self) -> list[str]:
        """Return why something could not be probed; nothing when all could."""
        denied = [f"{path} may not be opened" for path in sorted(self._objects.denied)[:_MOST_REASONS]]
        full = ["more programs and libraries than are looked at: the TLS libraries of the last ones are not probed"]
        return [*self._reasons, *denied, *(full if self._objects.full else ())]

    def stop(self) -> None:
        """Follow no longer, and say what was not said yet."""
        self._ended = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        while self._untold:
            self._tell(*self._untold.popleft())

    def close(self) -> None:
        """Take all probes away."""
        uprobe.close_all(self._closing + [fd for process in self._processes.values() for fd in process.links])

    # --- the thread that probes -----------------------------------------------------------------------------------

    def _run(self) -> None:
        next_tick = time.monotonic() + _TICK_S
        while not self._ended:
            due = min(self._due[0][0] if self._due else next_tick, next_tick)
            self._wake.wait(max(due - time.monotonic(), 0.0))
            self._wake.clear()
            while self._orders and not self._ended:
                self._obey(*self._orders.popleft())
            now = time.monotonic()
            while self._due and self._due[0][0] <= now and not self._ended:
                self._look(heapq.heappop(self._due)[2])
            if now >= next_tick:
                self._tick()
                next_tick = time.monotonic() + _TICK_S
            if self._untold and not self._orders:
                self._tell(*self._untold.popleft())
                self._wake.set()  # one at a time: to look for a version takes milliseconds

    def _obey(self, kind: int, pid: int, parent: int) -> None:
        if kind == _EXIT:
            self._forget(pid)
        elif kind == _FORK:
            self._forget(pid)
            self._inherit(pid, self._processes.get(parent))
            if self._early:  # to wait for what it runs is too late for a program that is gone in 20 ms
                self._early -= 1
                self._usual(pid)
        elif kind == _EXEC:
            self._ran(pid)
            if self._objects.loads_others(pid):
                self._usual(pid)
            self._meet(pid)
        elif kind == _SEEN:
            if len(self._processes) < _MOST_PROCESSES:
                self._processes.setdefault(pid, _Process())
            self._meet(pid)

    def _inherit(self, pid: int, parent: _Process | None) -> None:
        """A child has what its parent has; one that runs a program at once gets what matters most in time."""
        for probed in list(parent.probed.values()) if parent else ():
            mapped = parent is not None and probed in parent.mapped
            if probed.shakes or probed.plaintext or mapped:
                self._probe(pid, probed)
            if mapped:
                self._note(pid, probed)
        for probed in list(parent.ran.values()) if parent else ():
            self._probe(pid, probed)
        if parent is not None:
            process = self._processes.setdefault(pid, _Process())
            process.parent, process.ran = parent, dict(parent.ran)

    def _ran(self, pid: int) -> None:
        """Probe a program that has a library inside at once; the next child of its parent gets that before it runs."""
        program = self._objects.program(pid)
        if program is None:
            return
        self._probe(pid, program)
        process = self._processes.get(pid)
        if process is not None and process.parent is not None and len(process.parent.ran) < _MOST_RAN:
            process.parent.ran[program.fd] = program

    def _forget(self, pid: int) -> None:
        process = self._processes.pop(pid, None)
        if process is not None:
            process.parent = None
            self._closing += process.links

    def _usual(self, pid: int) -> None:
        for probed in self._objects.usual(pid):
            self._probe(pid, probed)

    def _meet(self, pid: int) -> None:
        """Look at its program and its map now, and at the map a few times later."""
        program = self._objects.program(pid)
        if program is not None:
            self._probe(pid, program)
            self._note(pid, program)
        self._look(pid)
        now = time.monotonic()
        for after in _LOOKS_S:
            heapq.heappush(self._due, (now + after, next(self._numbers), pid))

    def _tick(self) -> None:
        fds, self._closing = self._closing, []
        uprobe.close_all(fds)
        for pid in list(self._processes)[:_MOST_LOOKS]:
            process = self._processes.pop(pid)
            self._processes[pid] = process  # to the end of the line
            self._look(pid)

    def _look(self, pid: int) -> None:
        """Probe what the process has mapped by now."""
        size = _first_word(f"/proc/{pid}/statm")
        if size in (b"", b"0"):
            return  # gone, or a zombie
        process = self._processes.get(pid)
        if process is not None and process.size == size:
            return
        try:
            mapped = list(_mapped(pid))
        except PermissionError:
            self._reasons["the memory map of a process may not be read: its TLS libraries are not known"] = None
            return
        loads = self._objects.loads_others(pid)
        for places, path in mapped:
            probed = self._objects.library(places, path)
            if probed is not None and (loads or probed.table.probe != NAMES):  # every program has a C library
                self._probe(pid, probed)
                self._note(pid, probed)
        process = self._processes.get(pid)
        if process is not None:
            process.size = size

    def _probe(self, pid: int, probed: Probed) -> None:
        process = self._processes.get(pid)
        if process is None:
            if len(self._processes) >= _MOST_PROCESSES:
                self._reasons[f"more than {_MOST_PROCESSES} processes: TLS libraries of the others are not probed"] = (
                    None
                )
                return
            process = self._processes[pid] = _Process()
        if probed.fd in process.probed:
            return
        process.probed[probed.fd] = probed
        try:
            # plaintext first: of a handshake that is seen no byte is missed. An entry that is seen has its return
            for name in sorted(probed.sites, key=lambda each: each != PLAIN):
                (entries, returns), (enter, leave) = probed.sites[name], self._programs[name]
                for program, sites, on_return in ((leave, returns, True), (enter, entries, False)):
                    if sites:
                        process.links += uprobe.attach(
                            program, probed.attach_path, sites, pid=pid, returns=on_return, multi=self._multi
                        )
        except NetdiagError as error:
            if _first_word(f"/proc/{pid}/statm") and len(self._reasons) < _MOST_REASONS:  # not just gone
                self._reasons[error.message.replace(probed.attach_path, probed.path)] = None

    def _note(self, pid: int, probed: Probed) -> None:
        """The process has this library: say so once, when there is time."""
        process = self._processes.get(pid)
        if process is None or probed in process.mapped or (probed.sites and not process.links):
            return
        process.mapped.append(probed)
        ancestor = process.parent if probed.shakes else None
        for _ in range(_GENERATIONS):  # what they start next gets it before it runs
            if ancestor is None or len(ancestor.ran) >= _MOST_RAN:
                break
            ancestor.ran.setdefault(probed.fd, probed)
            ancestor = ancestor.parent
        if probed.shakes or probed.plaintext or probed.table.unprobed:
            self._untold.append((pid, probed, process))

    def _tell(self, pid: int, probed: Probed, process: _Process) -> None:
        if not probed.is_sure:
            return
        siblings = [probed, *(other for other in process.probed.values() if other.table is probed.table)]
        versions = [version for each in siblings if (version := each.find_version())]
        named = next((version for version in versions if not version.startswith("build ")), None)
        self._news.append(
            {
                "pid": pid,
                "path": probed.path,
                "library": probed.table.library,
                "version": named or (None if probed.table.unprobed else next(iter(versions), None)),
                "how": "wire-only" if probed.table.unprobed else "symbols",
                "cheap": probed.cheap,
                "plaintext": probed.plaintext,
                "plaintext_cheap": probed.plain_cheap,
            }
        )


def _first_word(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(64).split(b" ", 1)[0]
    except OSError:
        return b""


def _mapped(pid: int) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the files whose code a process has mapped: paths that lead to each from here, and its own path."""
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            lines = file.read(_MOST_MAPS_BYTES).splitlines()
    except PermissionError:
        raise
    except OSError:
        return
    for line in lines:
        cells = line.split(None, 5)
        if len(cells) == 6 and cells[1][2:3] == b"x" and cells[5][:1] == b"/":
            low, _, high = cells[0].decode("ascii").partition("-")
            path = os.fsdecode(cells[5])
            place = f"/proc/{pid}/map_files/{low.lstrip('0')}-{high.lstrip('0')}"
            yield (place, f"/proc/{pid}/root{path}"), path.removesuffix(" (deleted)")
