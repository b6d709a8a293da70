# SPDX-License-Identifier: Apache-2.0
"""The tracers that are compared: how each is started, when it said something, how it ends."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from netdiag.recorder.link import Link
from netdiag.recording.format import BLOCK_HEADER, FILE_HEADER, BlockType
from scripts._bench.kernel import MemoryWatch

__all__ = ["CannotRun", "Netdiag", "Peer", "Running", "Tool"]

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 20.0
_TRACEFS = 'mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null; exec "$@"'


class CannotRun(Exception):  # noqa: N818 - a result, told in the table
    """A tracer that does not run on this machine, and what it said."""


class Running(Protocol):
    """A tracer that runs."""

    pid: int
    ready_s: float
    """From its start until it said that it traces."""
    memory: MemoryWatch | None

    def first_event_s(self) -> float:
        """Wait for the first event; return seconds from the start."""

    def records(self) -> int:
        """Return how many records it gave so far."""

    def stop(self) -> None:
        """End it and wait until it is gone."""

    def close(self) -> None:
        """Forget what it said."""


class Tool(Protocol):
    """A tracer that can be started."""

    name: str
    records: str
    """What it records, in words."""

    def start(self, pid: int | None = None, *, watch: bool = False) -> Running:
        """Start it, for one process or the whole machine; return once it traces. Raises CannotRun.

        `watch`: look at its memory from the first moment on.
        """


@dataclass(slots=True, kw_only=True)
class Netdiag:
    """netdiag's own recorder, started as `netdiag trace` starts it."""

    name: str = "netdiag"
    probes: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    records: str = (
        "both ends: established, closing and closed, owner, bytes, RTT, who closed; runs of reads and writes with the"
        " reader's delay; TLS record headers; processes"
    )

    def start(self, pid: int | None = None, *, watch: bool = False) -> NetdiagRunning:
        """Start it, for one process or the whole machine; return once it is armed."""
        return NetdiagRunning(self, [pid] if pid else [], watch=watch)


class NetdiagRunning:
    """A recorder that records into a temporary file."""

    def __init__(self, tool: Netdiag, pids: list[int], *, watch: bool) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="netdiag-bench-")
        path = f"{self._folder.name}/s"
        self._file = Path(self._folder.name, "recording").open("w+b")  # noqa: SIM115 - closed by stop
        launch = ROOT / "netdiag" / "recorder" / "launch.py"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(path)
            listener.listen(1)
            self._started = time.monotonic()
            self._process = subprocess.Popen(
                [Path(sys.executable).resolve(), "-I", "-S", "-B", launch, "--socket", path, "--uid", str(os.geteuid())]
            )
            self.pid = self._process.pid
            self.memory = MemoryWatch(self.pid) if watch else None
            self._link = Link(listener.accept()[0])
        start = {"do": "start", "target": {"pids": pids}, "command": None, "probes": list(tool.probes)}
        self._link.send({**start, "options": dict(tool.options)}, fds=[self._file.fileno()])
        message, _ = self._link.receive(WAIT_S)
        self.ready_s = time.monotonic() - self._started
        if message.get("say") != "armed":
            raise CannotRun(message.get("message", "not armed"))

    @property
    def file_bytes(self) -> int:
        """Size of the recording."""
        return os.fstat(self._file.fileno()).st_size

    def first_event_s(self) -> float:
        """Wait until a record stands in the file; return seconds from the start."""
        while time.monotonic() < self._started + WAIT_S:
            if self.records():
                return time.monotonic() - self._started
            time.sleep(0.001)
        raise CannotRun("no event")

    def records(self) -> int:
        """Return how many records of connections stand in the file, reads and writes included."""
        return sum(count for count, _ in self.streams().values())

    def streams(self) -> dict[str, tuple[int, int]]:
        """Return records and their bytes, by the name of the stream."""
        names: dict[int, tuple[str, int]] = {}
        found: dict[str, tuple[int, int]] = {}
        at, end = FILE_HEADER.size, self.file_bytes
        while at + BLOCK_HEADER.size <= end:
            kind, _, stream, length, _ = BLOCK_HEADER.unpack(os.pread(self._file.fileno(), BLOCK_HEADER.size, at))
            at += BLOCK_HEADER.size
            if kind == BlockType.LAYOUT:
                layout = json.loads(os.pread(self._file.fileno(), length, at))
                names[stream] = layout["name"], layout["stride"]
            elif kind == BlockType.RECORDS:
                name, stride = names[stream]
                count, size = found.get(name, (0, 0))
                found[name] = count + length // stride, size + length
            at += length
        return found

    def fact_bytes(self, kind: str) -> int:
        """Return the bytes that facts of one kind take, their headers included."""
        at, end, found = FILE_HEADER.size, self.file_bytes, 0
        while at + BLOCK_HEADER.size <= end:
            block, _, _, length, _ = BLOCK_HEADER.unpack(os.pread(self._file.fileno(), BLOCK_HEADER.size, at))
            at += BLOCK_HEADER.size
            if block == BlockType.FACT and json.loads(os.pread(self._file.fileno(), length, at))["kind"] == kind:
                found += BLOCK_HEADER.size + length
            at += length
        return found

    def stop(self) -> None:
        """End the trace as the front does."""
        if self.memory:
            self.memory.close()
        self._link.send({"do": "stop", "reason": "bench"})
        self._link.receive(WAIT_S)
        self._link.close()
        self._process.wait()

    def close(self) -> None:
        """Remove the recording."""
        self._file.close()
        self._folder.cleanup()


@dataclass(slots=True, kw_only=True)
class Peer:
    """Another tracer, which prints a title and then a line per event on its terminal."""

    name: str
    command: Sequence[str]
    records: str
    environment: Mapping[str, str] = field(default_factory=dict)

    def start(self, pid: int | None = None, *, watch: bool = False) -> PeerRunning:
        """Start it for the whole machine; return once it printed its title."""
        if not self.command or shutil.which(self.command[0]) is None:
            raise CannotRun(f"{self.command[0] if self.command else self.name} is not installed")
        return PeerRunning(self, ["-p", str(pid)] if pid else [], watch=watch)


class PeerRunning:
    """Another tracer that runs, on a terminal of its own so that it does not hold its lines back."""

    def __init__(self, tool: Peer, arguments: list[str], *, watch: bool) -> None:
        self._master, slave = pty.openpty()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close
        command = [*tool.command, *arguments]
        if not Path("/sys/kernel/tracing/events").exists():  # in a mount namespace of its own, gone with it
            command = ["unshare", "--mount", "sh", "-c", _TRACEFS, "sh", *command]
        self._started = time.monotonic()
        self._process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=self._errors, env={**os.environ, **tool.environment}
        )
        os.close(slave)
        self.pid = self._process.pid
        self.memory = MemoryWatch(self.pid) if watch else None
        self._lines: list[float] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        try:
            self.ready_s = self._line(1)
        except CannotRun:
            self.stop()
            self.close()
            raise

    def _read(self) -> None:
        while True:
            try:
                if not select.select([self._master], [], [], 0.5)[0]:
                    if self._process.poll() is not None:
                        return
                    continue
                data = os.read(self._master, 65536)
            except OSError:  # the other side of the terminal is closed
                return
            self._lines += [time.monotonic()] * data.count(b"\n")

    def _line(self, count: int) -> float:
        deadline = self._started + WAIT_S
        while len(self._lines) < count:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise CannotRun(self._said())
            time.sleep(0.001)
        return self._lines[count - 1] - self._started

    def _said(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it gave no event"

    def first_event_s(self) -> float:
        """Wait for the line after the title; return seconds from the start."""
        return self._line(2)

    def records(self) -> int:
        """Return the lines after the title."""
        return len(self._lines) - 1

    def stop(self) -> None:
        """Interrupt it."""
        if self.memory:
            self.memory.close()
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        os.close(self._master)

    def close(self) -> None:
        """Forget what it said."""
        self._errors.close()
