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
_SEEN, _EXEC = 1, 3
"""Of `enum nd_process_kind`."""


class ProcessFacts:
    """Writes one fact per process and program that it runs."""

    def __init__(self, writer: RecordingWriter, *, keep_argv: bool) -> None:
        self._writer = writer
        self._keep_argv = keep_argv
        # once, so that the same process always has the same start
        self._asleep_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - monotonic_ns()

    def meet(self, layout: StreamLayout, runs: Iterable[memoryview]) -> list[int]:
        """Look at the processes of new records: those with a first socket, and those that just ran a program.

        Returns their numbers.
        """
        places = {field.name: layout.offset + field.offset for field in layout.fields}
        tgid, kind = places["tgid"], places["kind"]
        data = b"".join(runs)
        met = []
        for at in range(0, len(data), layout.stride):
            (pid,) = struct.unpack_from("=I", data, at + tgid)
            if data[at + kind] in (_SEEN, _EXEC) and pid:
                self.look_at(pid)
                met.append(pid)
        return met

    def look_at(self, pid: int) -> None:
        """Write what /proc says of a process; nothing when it is gone."""
        fact = describe(pid, keep_argv=self._keep_argv, asleep_ns=self._asleep_ns)
        if fact is not None:
            self._writer.fact("process", fact)


def describe(pid: int, *, keep_argv: bool, asleep_ns: int = 0) -> dict[str, Any] | None:
    """Return the fact `process`, or None when the process is gone. What can't be read is None.

    `asleep_ns`: by how much CLOCK_BOOTTIME, which /proc counts in, is ahead of CLOCK_MONOTONIC.
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
        "libraries": _libraries(pid, exe, argv[0] if argv else None),
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
