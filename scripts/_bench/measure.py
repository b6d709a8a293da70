# SPDX-License-Identifier: Apache-2.0
"""The measurements: each compares tracers in pairs that follow each other at once."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from netdiag.ebpf.syscall import enable_stats
from scripts._bench import kernel
from scripts._bench.build import Programs
from scripts._bench.estimate import Estimate, added, estimate
from scripts._bench.tools import CannotRun, Netdiag, Running, Tool

__all__ = [
    "Costs",
    "Footprint",
    "Request",
    "Throughput",
    "command_start",
    "costs",
    "footprint",
    "requests",
    "serving",
    "throughput",
    "timed",
    "tracing",
]

_SETTLE_S = 0.15
_TIMED_S = 1.2
"""The recorder's first second, and then one in ten, is dearer: the kernel times its programs."""
_CLEAN = 0.1
"""The quantile of costs that is compared: pieces in which little else ran on the machine."""
_WALKS = frozenset({"look", "holders"})
"""Programs that run in the recorder's own time, not in the traced program's."""


@contextlib.contextmanager
def serving(programs: Programs) -> Iterator[int]:
    """Run the server of the workload; yields its port."""
    server = subprocess.Popen([programs.workload, "serve"], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield int(server.stdout.readline())
    finally:
        server.kill()
        server.wait()


@contextlib.contextmanager
def tracing(tool: Tool, pid: int | None = None, *, watch: bool = False) -> Iterator[Running]:
    """Run a tracer; yields it once it traces."""
    running = tool.start(pid, watch=watch)
    try:
        yield running
    except BaseException:
        with contextlib.suppress(OSError, EOFError):
            running.stop()
        running.close()
        raise
    try:
        running.stop()
    except (OSError, EOFError) as error:
        raise CannotRun(f"it was gone before it was stopped ({error})") from error
    finally:
        running.close()


def _load(programs: Programs, mode: str, port: int, amount: float) -> tuple[int, float]:
    """Run the workload; return how often it did its thing, and in how many seconds."""
    done = subprocess.run([programs.workload, mode, str(port), str(amount)], capture_output=True, text=True, check=True)
    count, nanoseconds = done.stdout.split()
    return int(count), int(nanoseconds) / 1e9


@dataclass(slots=True, kw_only=True)
class Footprint:
    """Start and memory of one tracer."""

    tool: str
    ready_ms: Estimate | None = None
    first_event_ms: Estimate | None = None
    rss: int = 0
    """VmHWM of the process, bytes."""
    tree: int = 0
    """Peak of the sum over the process and its children, bytes (PSS)."""
    kernel: int = 0
    """Maps and programs in the kernel, bytes."""
    error: str | None = None


def footprint(tool: Tool, programs: Programs, port: int, *, repeats: int, connections: int) -> Footprint:
    """Start the tracer several times while 200 connections a second come and go; then let it see many at once."""
    found = Footprint(tool=tool.name)
    ready, first = [], []
    drip = subprocess.Popen([programs.workload, "drip", str(port), "200"], stdout=subprocess.DEVNULL)
    try:
        for _ in range(repeats):
            with tracing(tool) as running:
                ready.append(running.ready_s * 1000)
                first.append(running.first_event_s() * 1000)
        with tracing(tool, watch=True) as running:
            _load(programs, "connect", port, connections)
            time.sleep(1.2)
            found.rss = kernel.peak_rss(running.pid)
            found.kernel = kernel.kernel_memory(running.pid)
        found.tree = running.memory.peak if running.memory else 0
    except CannotRun as error:
        found.error = str(error)
        return found
    finally:
        drip.kill()
        drip.wait()
    found.ready_ms, found.first_event_ms = estimate(ready), estimate(first)
    return found


def command_start(programs: Programs, *, repeats: int) -> Estimate:
    """Return milliseconds from the start of `netdiag trace -- CMD` to CMD's first instruction."""
    values = []
    with tempfile.TemporaryDirectory(prefix="netdiag-bench-") as folder:
        said = Path(folder, "now")
        command = [sys.executable, "-m", "netdiag", "trace", "--as-root", "--save", f"{folder}/recording", "--"]
        for _ in range(repeats):
            Path(folder, "recording").unlink(missing_ok=True)
            started = time.monotonic_ns()
            subprocess.run([*command, programs.workload, "now", said], check=True, capture_output=True)
            values.append((int(said.read_text()) - started) / 1e6)
    return estimate(values)


@dataclass(slots=True, kw_only=True)
class Costs:
    """What one tracer's programs cost for a connection of which both ends are on this machine."""

    tool: str
    ns: list[float] = field(default_factory=list)
    runs: list[float] = field(default_factory=list)
    records: list[float] = field(default_factory=list)
    error: str | None = None


def costs(tools: Sequence[Tool], programs: Programs, port: int, *, rounds: int, connections: int) -> list[Costs]:
    """Let every tracer in turn see the same connections, and ask the kernel how long its programs ran."""
    found = {tool.name: Costs(tool=tool.name) for tool in tools}
    with timed():
        for _ in range(rounds):
            for tool in tools:
                if found[tool.name].error is None:
                    _cost(tool, found[tool.name], programs, port, connections)
    return list(found.values())


@contextlib.contextmanager
def timed() -> Iterator[None]:
    """Let the kernel time all programs meanwhile."""
    fd = enable_stats()
    if fd is None:
        raise PermissionError("the kernel's statistics of programs cannot be switched on")
    try:
        yield
    finally:
        os.close(fd)


def _cost(tool: Tool, found: Costs, programs: Programs, port: int, connections: int) -> None:
    try:
        with tracing(tool) as running:
            time.sleep(_SETTLE_S)
            ids = kernel.program_ids(running.pid)
            records, before = running.records(), kernel.program_times(ids)
            _load(programs, "connect", port, connections)
            after = kernel.program_times(ids)
            time.sleep(_SETTLE_S)
            found.ns.append((after.ns - before.ns) / connections)
            found.runs.append((after.runs - before.runs) / connections)
            found.records.append((running.records() - records) / connections)
    except CannotRun as error:
        found.error = str(error)


@dataclass(slots=True, kw_only=True)
class Throughput:
    """What a client at full speed loses, in percent, per kind of work."""

    tool: str
    lost: dict[str, list[float]] = field(default_factory=dict)
    error: str | None = None


def throughput(
    tools: Sequence[Tool], programs: Programs, port: int, *, rounds: int, seconds: float, connections: int
) -> list[Throughput]:
    """Measure without and with each tracer in turn; a measurement with one is compared with those before and after."""
    found = {tool.name: Throughput(tool=tool.name) for tool in tools}
    work: dict[str, Callable[[], tuple[int, float]]] = {
        "connections": lambda: _load(programs, "connect", port, connections),
        "requests": lambda: _load(programs, "full", port, seconds),
    }

    def rates() -> dict[str, float]:
        return {name: count / took for name, (count, took) in ((name, run()) for name, run in work.items())}

    before = rates()
    for turn in range(rounds):
        for tool in tools if turn % 2 == 0 else tools[::-1]:
            result = found[tool.name]
            if result.error is not None:
                continue
            try:
                with tracing(tool):
                    time.sleep(_SETTLE_S)
                    during = rates()
            except CannotRun as error:
                result.error = str(error)
                continue
            time.sleep(_SETTLE_S)
            after = rates()
            for name in work:
                lost = 1 - during[name] / ((before[name] + after[name]) / 2)
                result.lost.setdefault(name, []).append(lost * 100)
            before = after
    return list(found.values())


@dataclass(slots=True, kw_only=True)
class Request:
    """What tracing adds to a client's CPU time per request."""

    client: str
    alone_us: float
    added_percent: Estimate
    """From spells without and with, in turn."""
    programs_percent: float
    """The run time of all programs for one request, its server's side included, as part of the client's own."""
    programs_us: float


def requests(
    tool: Netdiag,
    programs: Programs,
    port: int,
    client: str,
    *,
    rounds: int,
    seconds: float,
    python: Path | None = None,
    per_second: int = 1000,
) -> Request:
    """Let one client ask steadily; trace it and leave it alone in turn."""
    command = [str(programs.workload), "rate"]
    if client != "C":
        command = [str(python or sys.executable), str(programs.client), client]
    process = subprocess.Popen([*command, str(port), str(per_second)], stdout=subprocess.PIPE, text=True)
    os.sched_setaffinity(process.pid, {max(os.sched_getaffinity(0))})
    counters = _Counters(process)
    alone, traced = [], []
    try:
        time.sleep(1.0)
        if process.poll() is not None:
            raise CannotRun(f"the client {client} does not run")
        for _ in range(rounds):
            before = counters.spell(seconds / 2)
            with tracing(tool, process.pid):
                time.sleep(_TIMED_S)
                traced.append(counters.spell(seconds))
            time.sleep(_SETTLE_S)
            alone.append(before + counters.spell(seconds / 2))
        ns = _programs_per_request(tool, process.pid, counters, seconds)
    finally:
        process.kill()
        process.wait()
        counters.close()
    costs = sorted(cost / 1000 for spell in alone for cost in spell)
    usual = costs[int(len(costs) * _CLEAN)]
    return Request(
        client=client,
        alone_us=usual,
        added_percent=added(alone, traced, _CLEAN),
        programs_percent=ns / 10 / usual,
        programs_us=ns / 1000,
    )


def _programs_per_request(tool: Netdiag, pid: int, counters: _Counters, seconds: float) -> float:
    with tracing(tool, pid) as running, timed():
        ids = kernel.program_ids(running.pid)
        time.sleep(_SETTLE_S)
        before, count = kernel.program_times(ids, without=_WALKS), counters.count()
        time.sleep(seconds)
        return (kernel.program_times(ids, without=_WALKS).ns - before.ns) / (counters.count() - count)


class _Counters:
    """Reads the counters that a client prints."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: list[tuple[int, int, int]] = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            at, count, cpu = line.split()
            self._lines.append((int(at), int(count), int(cpu)))

    def count(self) -> float:
        """Return the requests up to now, as far as the rate goes on."""
        return self._lines[-1][1]

    def spell(self, seconds: float) -> list[float]:
        """Wait; return the CPU nanoseconds per request in that time, one for each piece of 50 ms."""
        first = len(self._lines)
        time.sleep(seconds)
        return [(b[2] - a[2]) / (b[1] - a[1]) for a, b in itertools.pairwise(self._lines[first:])]

    def close(self) -> None:
        """Stop reading."""
        self._thread.join()
