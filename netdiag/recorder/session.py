# SPDX-License-Identifier: Apache-2.0
"""One trace in the recorder: load, attach, seed, copy runs of records from rings to file until told to stop."""

from __future__ import annotations

import contextlib
import os
import select
import time
from typing import Any

from netdiag import __version__
from netdiag.ebpf.ring import Ring
from netdiag.recorder import facts
from netdiag.recorder.cost import KernelTime
from netdiag.recorder.hello import Hellos
from netdiag.recorder.link import FINISH_S, Link
from netdiag.recorder.packets import Packets
from netdiag.recorder.plain import PlainSocket
from netdiag.recorder.probes import ProbeSet, Stream
from netdiag.recorder.processes import ProcessFacts
from netdiag.recorder.scheduling import Scheduling
from netdiag.recording.writer import RecordingWriter

__all__ = ["Session"]

_DRAIN_S = 0.02
"""How long records may wait when no ring is a quarter full."""
_TICK_S = 1.0
_TICK_SHARE = 50
"""A look at all sockets may take one part in this many of the time; big machines get rarer looks."""
_CLOCK_STEP_NS = 1_000_000
_HAND_OVER_S = 2.0
"""How long the rest of the plaintext may take to be handed over."""


class Session:
    """A trace from the start message to the end block."""

    def __init__(
        self,
        link: Link,
        recording_fd: int,
        start: dict[str, Any],
        *,
        plain_fd: int | None = None,
        program_fd: int | None = None,
    ) -> None:
        """`plain_fd`: a socket to the process that takes plaintext apart; None leaves out the probes that need one.

        `program_fd`: the program that the command, which waits, will run.
        """
        self._program_fd = program_fd
        self._link = link
        self._start = start
        self._options: dict[str, Any] = {**(start.get("options") or {}), "plaintext": plain_fd is not None}
        self._plain_fd = plain_fd
        self._plain: PlainSocket | None = None
        self._dropped: dict[str, int] = {}
        self._probes = ProbeSet(
            names=start.get("probes") or [], target=start.get("target") or {}, options=self._options
        )
        self._first_clock = facts.clock_pair()
        self._last_clock = self._first_clock
        self._overflows = facts.overflows()
        self._cpu_at_start = time.process_time()
        self._coverage: dict[str, Any] = {}
        self._losses: dict[str, tuple[int, int]] = {}
        command = start.get("command")
        self._writer = RecordingWriter(
            recording_fd,
            {
                "version": __version__,
                "started": facts.rfc3339(self._first_clock["realtime_ns"]),
                "clock": self._first_clock,
                "host": facts.host(),
                "target": start.get("target") or {},
                "command": {"argv": command["argv"]} if command else None,
                "tier": "btf",
            },
            shared=plain_fd is not None,
        )
        self._hellos = Hellos(self._writer)
        self._processes = ProcessFacts(self._writer, keep_argv=bool(self._options.get("keep_argv")))
        self._scheduling = Scheduling(self._writer)
        self._packets: Packets | None = None

    def run(self) -> None:
        """Arm, say so, record until stopped or left alone, close the recording."""
        self._probes.load()
        if self._options.get("packets"):
            try:
                self._packets = Packets()
            except OSError as error:
                self._writer.fact("no_packets", {"reason": f"{error.strerror}: a packet socket needs CAP_NET_RAW"})
        self._kernel_time = KernelTime() if self._options.get("cost", True) else None
        if self._kernel_time:
            self._kernel_time.start(self._written())
        for stream, _ in self._probes.streams():
            if stream.recorded:
                self._writer.layout(stream.number, stream.layout)
        if self._plain_fd is not None:
            self._plain = PlainSocket(self._plain_fd, [s.layout for s, _ in self._probes.streams() if s.to_front])
        self._probes.seed(self._drain, self._about_to_run())
        coverage = self._coverage = self._probes.coverage()
        self._writer.fact("coverage", coverage)
        command = self._start.get("command")
        if command:
            said = {"pid": command["pid"], "argv": command["argv"], "armed_ns": facts.monotonic_ns()}
            self._writer.fact("command", {**said, "exit_status": None})
        self._link.send({"say": "armed", "at_ns": facts.monotonic_ns(), "coverage": coverage})
        stop = self._record()
        self._finish(stop)

    def _about_to_run(self) -> tuple[int, int] | None:
        command = self._start.get("command")
        if self._program_fd is None or not command:
            return None
        return command["pid"], self._program_fd

    def _record(self) -> dict[str, Any]:
        poll = select.epoll()
        poll.register(self._link.fileno(), select.EPOLLIN)
        for ring in self._probes.rings():
            poll.register(ring.fd, select.EPOLLIN | select.EPOLLET)
        next_tick = time.monotonic() + _TICK_S
        while True:
            ready = poll.poll(_DRAIN_S)
            if any(fd == self._link.fileno() for fd, _ in ready):
                try:
                    received = self._link.poll()
                except (EOFError, ValueError):
                    return {"reason": "front-gone"}
                if received is not None and received[0].get("do") == "stop":
                    return received[0]
            self._drain()
            now = time.monotonic()
            if now >= next_tick:
                self._tick()
                next_tick = now + max(_TICK_S, _TICK_SHARE * (time.monotonic() - now))

    def _drain(self) -> None:
        began_ns, emptied = facts.monotonic_ns(), True
        for stream, ring in self._probes.streams():
            for _ in range(ring.turns):  # a ring that fills as fast as it is read must not starve the others
                runs, count = ring.take()
                if not count:
                    break
                if stream.to_front:
                    if not self._hand_over(stream, ring, runs, count):
                        emptied = False
                        break  # the ring keeps them until there is room
                elif stream.recorded:
                    self._writer.records(stream.number, runs)
                else:
                    self._hellos.take(stream.layout, runs)
                self._meet(stream, runs)
                ring.release(count)
            else:
                emptied = emptied and not stream.to_front
        if self._plain is not None and emptied:
            self._plain.all_sent(began_ns)
        if self._packets is not None:
            self._packets.take()

    def _meet(self, stream: Stream, runs: list[memoryview]) -> None:
        """Learn of new processes, and of connections whose packets are wanted."""
        if stream.name == "tcp" and self._packets is not None:
            self._packets.meet(stream.layout, runs)
        if stream.name == "process":
            self._probes.follow(stream.layout, runs)  # first: probes on functions are in a hurry
            for pid in self._processes.meet(stream.layout, runs):
                self._probes.meet(pid)
                self._scheduling.meet([pid])

    def _hand_over(self, stream: Stream, ring: Ring, runs: list[memoryview], count: int) -> bool:
        """Return whether the records were sent, or nobody is there to take them: then they are lost."""
        if self._plain is not None and not self._plain.records(stream.number, runs):
            return False
        if self._plain is None or self._plain.gone:
            self._dropped[stream.name] = self._dropped.get(stream.name, 0) + count // ring.stride
        return True

    def _tick(self) -> None:
        self._probes.tick(self._drain)
        self._hellos.flush()
        self._scheduling.tick()
        self._note_libraries()
        self._note_losses()
        clock = facts.clock_pair()
        if facts.clock_step_ns(self._last_clock, clock) > _CLOCK_STEP_NS:
            self._writer.fact("clock", clock)
            self._last_clock = clock

    def _note_libraries(self) -> None:
        for fact in self._probes.libraries():
            self._writer.fact("tls_library", fact)

    def _written(self) -> int:
        return sum(seen for seen, _ in self._probes.losses().values())

    def _counts(self) -> dict[str, tuple[int, int]]:
        """Return records written and lost per stream, those included that nobody was there to take."""
        losses = self._probes.losses().items()
        return {name: (seen, lost + self._dropped.get(name, 0)) for name, (seen, lost) in losses}

    def _note_losses(self) -> None:
        for name, counts in self._counts().items():
            if self._losses.get(name) != counts:
                self._losses[name] = counts
                self._writer.fact("loss", {"probe": name, "seen": counts[0], "lost": counts[1]})

    def _finish(self, stop: dict[str, Any]) -> None:
        self._probes.final_look(self._drain)
        self._scheduling.tick()
        self._probes.stop()
        self._drain()
        self._note_libraries()
        self._hellos.flush(quiet_ns=0)
        self._finish_plain()
        if self._packets is not None:
            self._packets.finish(self._writer)
            self._packets.close()
        self._note_losses()
        hz = self._probes.hz()
        if hz is not None:
            self._writer.fact("kernel", {"hz": hz})
        self._note_overflows()
        if (coverage := self._probes.coverage()) != self._coverage:
            self._writer.fact("coverage", coverage)
        programs = self._probes.cost() if self._kernel_time else []
        measured_ns = sum(int(p["ns"]) for p in programs)
        kernel_ms = self._kernel_time.finish(self._written(), measured_ns) if self._kernel_time else None
        self._writer.fact(
            "cost",
            {
                "recorder_cpu_ms": round((time.process_time() - self._cpu_at_start) * 1000, 3),
                "kernel_ms": kernel_ms,
                "programs": programs,
            },
        )
        command = self._start.get("command")
        if command:
            status = stop.get("exit_status")
            self._writer.fact("command", {"pid": command["pid"], "argv": command["argv"], "exit_status": status})
        if self._plain is not None:
            self._await_finish()
        clock = facts.clock_pair()
        self._writer.fact("clock", clock)
        self._writer.end(str(stop.get("reason", "stopped"))[:64], clock["monotonic_ns"])
        with contextlib.suppress(OSError):  # the front may be gone: then that is why we end
            self._link.send({"say": "ended"})
        self._probes.close()

    def _finish_plain(self) -> None:
        """Hand over what is left, in bounded time, and say what was lost."""
        if self._plain is None:
            return
        deadline = time.monotonic() + _HAND_OVER_S
        rings = [(stream, ring) for stream, ring in self._probes.streams() if stream.to_front]
        while any(ring.unread for _, ring in rings) and self._plain.wait(deadline):
            self._drain()
        for stream, ring in rings:
            self._dropped[stream.name] = self._dropped.get(stream.name, 0) + ring.unread // ring.stride
        counts = self._counts()
        self._plain.finish({stream.name: counts[stream.name] for stream, _ in rings}, deadline)

    def _await_finish(self) -> None:
        """Wait until the other side has appended its last block; without its word the end block comes anyway."""
        deadline = time.monotonic() + FINISH_S
        with contextlib.suppress(EOFError, TimeoutError, ValueError):
            while self._link.receive(deadline - time.monotonic())[0].get("do") != "finish":
                pass

    def _note_overflows(self) -> None:
        now = facts.overflows()
        if now and self._overflows:
            delta = {name: now[name] - self._overflows[name] for name in now}
            self._writer.fact("listener_overflow", {"netns": os.stat("/proc/self/ns/net").st_ino, **delta})
