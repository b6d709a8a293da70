# SPDX-License-Identifier: Apache-2.0
"""Facts about the processes that the kernel programs met, read from /proc while they live."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterable
from typing import Any

from netdiag.libraries import detect
from netdiag.processes import mask_argv, placement
from netdiag.recorder.facts import monotonic_ns
from netdiag.recording.format import StreamLayout
from netdiag.recording.writer import RecordingWriter

__all__ = ["ProcessFacts"]

_MAX_MAPS_BYTES = 4 << 20
_MAX_ARGV_BYTES = 16384
_MAX_PROGRAMS = 4096
_SEEN, _EXEC = 1, 3
"""Of `enum nd_process_kind`."""


class ProcessFacts:
    """Writes one fact per process and program that it runs."""

    def __init__(self, writer: RecordingWriter, *, keep_argv: bool) -> None:
        self._writer = writer
        self._keep_argv = keep_argv
        # once, so that the same process always has the same start
        self._asleep_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - monotonic_ns()
        self._programs: dict[int, str] = {}

    def meet(self, layout: StreamLayout, runs: Iterable[memoryview]) -> list[int]:
        """Look at the processes of new records: those with a first socket, and those that just ran a program.

        Returns their numbers.
        """
        places = {field.name: layout.offset + field.offset for field in layout.fields}
        tgid, kind, filename = places["tgid"], places["kind"], places["filename"]
        size = next(field.size for field in layout.fields if field.name == "filename")
        data = b"".join(runs)
        met = []
        for at in range(0, len(data), layout.stride):
            (pid,) = struct.unpack_from("=I", data, at + tgid)
            if data[at + kind] == _EXEC:
                self._remember(pid, data[at + filename : at + filename + size].split(b"\0", 1)[0])
            if data[at + kind] in (_SEEN, _EXEC) and pid:
                self.look_at(pid)
                met.append(pid)
        return met

    def _remember(self, pid: int, program: bytes) -> None:
        """Keep by which path a program was run: `python` in a virtual environment's `bin` leads to its packages."""
        while len(self._programs) >= _MAX_PROGRAMS:
            del self._programs[next(iter(self._programs))]
        self._programs.pop(pid, None)
        self._programs[pid] = program.decode("utf-8", "backslashreplace")

    def look_at(self, pid: int) -> None:
        """Write what /proc says of a process; nothing when it is gone."""
        program = self._programs.get(pid)
        fact = describe(pid, keep_argv=self._keep_argv, asleep_ns=self._asleep_ns, program=program)
        if fact is not None:
            self._writer.fact("process", fact)


def describe(pid: int, *, keep_argv: bool, asleep_ns: int = 0, program: str | None = None) -> dict[str, Any] | None:
    """Return the fact `process`, or None when the process is gone. What can't be read is None.

    `asleep_ns`: by how much CLOCK_BOOTTIME, which /proc counts in, is ahead of CLOCK_MONOTONIC.
    `program`: the path that was run, where the kernel was seen to run it.
    """
    try:
        exe: str | None = os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")
    except OSError:
        exe = None
    stat = _read(f"/proc/{pid}/stat", 4096)
    if stat is None:
        return None
    comm, _, rest = stat.partition(b"(")[2].rpartition(b")")
    fields = rest.split()
    argv = _argv(pid)
    place = placement((_read(f"/proc/{pid}/cgroup", 65536) or b"").decode("utf-8", "backslashreplace"))
    return {
        "pid": pid,
        "ppid": int(fields[1]),
        "exe": exe,
        "comm": comm.decode("utf-8", "backslashreplace"),
        "argv": None if argv is None else mask_argv(argv, keep=keep_argv),
        "cgroup": place.cgroup,
        "container": place.container,
        "pod": place.pod,
        "started_ns": int(fields[19]) * (1_000_000_000 // os.sysconf("SC_CLK_TCK")) - asleep_ns,
        "libraries": _libraries(pid, exe, _invoked(argv, program)),
    }


def _read(path: str, most: int) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read(most)
    except OSError:
        return None


def _argv(pid: int) -> list[str] | None:
    raw = _read(f"/proc/{pid}/cmdline", _MAX_ARGV_BYTES)
    if not raw:
        return None
    return [part.decode("utf-8", "backslashreplace") for part in raw.rstrip(b"\0").split(b"\0")]


def _invoked(argv: list[str] | None, program: str | None) -> str | None:
    """Return the path by which the program was started; a bare name in its arguments was looked up by a shell."""
    named = argv[0] if argv else None
    return named if named is not None and named.startswith("/") else program or named


def _libraries(pid: int, exe: str | None, invoked: str | None) -> list[dict[str, Any]]:
    raw = _read(f"/proc/{pid}/maps", _MAX_MAPS_BYTES)
    if raw is None or exe is None:
        return []
    paths = {line.split(None, 5)[5] for line in raw.decode("utf-8", "backslashreplace").splitlines() if "/" in line}
    head = _read(f"/proc/{pid}/exe", 4096) or b""
    found = detect(exe, sorted(paths), lambda folder: _listdir(pid, folder), invoked=invoked, head=head)
    return [{"name": lib.name, "version": lib.version, "evidence": lib.evidence} for lib in found]


def _listdir(pid: int, folder: str) -> list[str]:
    try:  # as the process sees it: it may live in another root
        return os.listdir(f"/proc/{pid}/root/{folder.lstrip('/')}")
    except OSError:
        return []
