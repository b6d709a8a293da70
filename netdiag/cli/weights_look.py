# SPDX-License-Identifier: Apache-2.0
"""What looks at a load beside the kernel programs: /proc, GPUs, and what ends a trace of a server."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netdiag.tracing.request import TraceRequest, TraceResult
    from netdiag.weights.ending import Until
    from netdiag.weights.examine import Examined
    from netdiag.weights.procfs import Child

__all__ = ["Looks", "Seen"]

_DRIVER = "/dev/nvidiactl"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What stands for a recording where none was made."""

    header: Mapping[str, Any]
    end: Mapping[str, Any] | None
    start_ns: int
    command: Mapping[str, Any] | None

    def facts_of(self, kind: str) -> list[dict[str, Any]]:
        """Return the fact about the command; there are no others."""
        return [dict(self.command)] if kind == "command" and self.command is not None else []


class Looks:
    """Everything that is started before a trace and stopped after it, and what it saw."""

    def __init__(self, request: TraceRequest, *, until: str | None, gpu: str) -> None:
        from netdiag.weights.ending import Until
        from netdiag.weights.procfs import Child

        self.gpu_rows: Sequence[Mapping[str, Any]] | None = None
        self.rows: list[dict[str, Any]] = []
        self.alone = False
        self._gpu = None
        if gpu == "on" or (gpu == "auto" and Path(_DRIVER).exists()):
            from netdiag.weights.gpus import Child as Gpus

            self._gpu = Gpus()
        self._child: Child = Child([word for word in request.command[1:] if not word.startswith("-")])
        self._until: Until | None = Until(until) if until else None
        self._ready_ns: int | None = None
        self._pids = _pids(request)
        self._start_ns, self._wall_ns = time.monotonic_ns(), time.time_ns()
        self.request = dataclasses.replace(
            request, on_command=self._meet, until_fd=self._until.fd if self._until is not None else None
        )
        if not request.command:
            for pid in self._pids:
                self._meet(pid)

    def _meet(self, pid: int) -> None:
        self._child.watch(pid)
        if self._until is not None:
            self._until.watch(pid)
        if self.request.command:
            self._start_ns, self._wall_ns = time.monotonic_ns(), time.time_ns()

    def stop(self) -> None:
        """Stop looking."""
        self._end_ns = time.monotonic_ns()
        if self._until is not None:
            self._ready_ns = self._until.stop()
        self.rows = self._child.stop()
        if self._gpu is not None:
            self.gpu_rows = self._gpu.stop()
        self.alone = any(row["kind"] == "thread" for row in self.rows)

    def examined(self, result: TraceResult) -> tuple[Any, Examined]:
        """Return the recording, or what stands for it, and what the load shows."""
        from netdiag.recording import reader
        from netdiag.weights.examine import examine, examine_load
        from netdiag.weights.procfs import cost_of_rows, load_of_rows, memory_of_rows

        if result.recording is not None:
            read = reader.read(result.recording)
            more: dict[str, Any] = {
                "made_of": memory_of_rows(self.rows),
                "ready_ms": self._ready_ms(read.start_ns),
                "looks_ms": cost_of_rows(self.rows),
            }
            return read, examine(read, candidates=self.request.command, **more)
        load = load_of_rows(self.rows, self._start_ns, self._end_ns)
        load = dataclasses.replace(load, ready_ms=self._ready_ms(self._start_ns))
        return self._seen(result), examine_load(load, candidates=self.request.command)

    def _ready_ms(self, start_ns: int) -> float | None:
        return None if self._ready_ns is None else (self._ready_ns - start_ns) / 1e6

    def _seen(self, result: TraceResult) -> Seen:
        from netdiag.processes import mask_argv

        argv = mask_argv(list(self.request.command), keep=self.request.keep_argv)
        command = {"argv": argv} if argv else None
        clock = {"monotonic_ns": self._start_ns, "realtime_ns": self._wall_ns}
        return Seen(
            header={"clock": clock, "host": _host(), "target": {}, "command": command},
            end={"exit_reason": str(result.exit_reason)},
            start_ns=self._start_ns,
            command={**command, "exit_status": result.command_status} if command else None,
        )

    def missing(self) -> Iterator[tuple[str, str]]:
        """Yield what /proc did not tell, with the reason."""
        denied = {row["pid"] for row in self.rows if row["kind"] == "denied"}
        if denied:
            named = ", ".join(map(str, sorted(denied)[:4]))
            yield "bytes read", f"/proc/PID/io of {named} may be read by its user and root alone"
        if any(row["kind"] == "file" and row["cached_last"] is None for row in self.rows):
            yield "what of the files is in memory", "cachestat(2) needs Linux 6.5, and files that one owns or may write"


def _host() -> dict[str, Any]:
    import os
    import platform

    return {"kernel": platform.release(), "arch": platform.machine(), "btf": None, "cpus": os.cpu_count()}


def _pids(request: TraceRequest) -> list[int]:
    """Return whom to watch by /proc: processes that are named, by number, program or thread name."""
    target = request.target
    found = list(target.pids)
    if target.exe or target.comm:
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                exe = str((folder / "exe").readlink())
                comm = (folder / "comm").read_text(encoding="utf-8", errors="replace").strip()
                if {exe, exe.rsplit("/", 1)[-1]} & set(target.exe) or comm in target.comm:
                    found.append(int(folder.name))
    return found
