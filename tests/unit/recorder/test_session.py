# SPDX-License-Identifier: Apache-2.0
"""A trace in the recorder from start to end, with probes that a test made up: what is said and what is written."""

from __future__ import annotations

import itertools
import os
import socket
import struct
from dataclasses import dataclass, field
from typing import Any

import pytest

from netdiag.recorder import facts, session
from netdiag.recorder.link import Link
from netdiag.recorder.session import Session
from netdiag.recording.format import Field, FieldKind, StreamLayout
from netdiag.recording.reader import read

LAYOUT = StreamLayout.of_ring(
    stream=1,
    name="tcp",
    struct="tcp_event",
    size=8,
    fields=(Field(name="time", type="nd_ktime_ns", offset=0, size=8, kind=FieldKind.UINT),),
)
COVERAGE = {"probes": [{"name": "tcp", "state": "attached", "reason": None, "remedy": None}]}


@dataclass
class Stream:
    name: str = "tcp"
    number: int = 1
    recorded: bool = True
    to_front: bool = False
    layout: StreamLayout = LAYOUT


@dataclass
class Ring:
    """Gives one record a take."""

    fd: int
    waiting: list[int] = field(default_factory=list)
    turns: int = 9
    released: int = 0

    def take(self):
        if not self.waiting:
            return [], 0
        time = self.waiting.pop(0)
        return [memoryview(struct.pack("=IIQ", 8, 0, time))], 16

    def release(self, count):
        self.released += count


class Probes:
    """Stands for the kernel."""

    def __init__(self, **_: Any):
        self.ring = Ring(os.pipe()[0], waiting=[1, 2, 3])
        self.looks: list[str] = []
        self.counts = {"tcp": (3, 0)}
        self.found: list[dict[str, Any]] = []

    def load(self):
        self.looks.append("load")

    def streams(self):
        return [(Stream(), self.ring)]

    def rings(self):
        return [self.ring]

    def seed(self, drain, _about_to_run=None):
        self.looks.append("seed")
        drain()

    def tick(self, _drain):
        self.looks.append("tick")

    def final_look(self, drain):
        self.ring.waiting += [8, 9]
        self.looks.append("final")
        drain()

    def meet(self, pid):
        raise AssertionError(f"no process {pid} was seen")

    def libraries(self):
        return self.found

    def stop(self):
        self.looks.append("stop")

    def close(self):
        self.looks.append("close")

    def coverage(self):
        return COVERAGE

    def losses(self):
        return self.counts

    def hz(self):
        return 250

    def cost(self):
        return [{"name": "hook", "runs": 10, "ns": 5000}]


class Front:
    """The other end of the link, and the file."""

    def __init__(self, tmp_path, monkeypatch):
        monkeypatch.setattr(session, "ProbeSet", Probes)
        monkeypatch.setattr("netdiag.recorder.cost.enable_stats", lambda: None)
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.link, self.recorder = Link(here), Link(there)
        self.path = tmp_path / "x.ndrec"
        self.file = self.path.open("w+b")

    def session(self, **start):
        made = Session(self.recorder, self.file.fileno(), {"do": "start", "options": {"cost": False}, **start})
        self.probes: Any = made._probes
        return made

    def close(self):
        os.close(self.probes.ring.fd)
        self.link.close()
        self.recorder.close()
        self.file.close()


@pytest.fixture
def front(tmp_path, monkeypatch):
    made = Front(tmp_path, monkeypatch)
    yield made
    made.close()


def test_a_trace_that_is_stopped(front):
    made = front.session(target={"pids": [7]}, command={"pid": 7, "argv": ["curl", "{…}"]})
    front.link.send({"do": "stop", "reason": "command-exited", "exit_status": 3})
    made.run()
    armed, ended = front.link.receive(1)[0], front.link.receive(1)[0]
    assert (armed["say"], armed["coverage"], ended) == ("armed", COVERAGE, {"say": "ended"})
    recording = read(front.path)
    assert recording.end is not None
    assert recording.end["exit_reason"] == "command-exited"
    assert recording.header["target"] == {"pids": [7]}
    assert recording.header["command"] == {"argv": ["curl", "{…}"]}
    assert [fact["exit_status"] for fact in recording.facts_of("command")] == [None, 3]
    assert recording.header["clock"]["monotonic_ns"] < recording.facts_of("command")[0]["armed_ns"] < recording.end_ns
    assert recording.facts_of("coverage")[0]["probes"] == COVERAGE["probes"]
    assert recording.facts_of("kernel") == [{"kind": "kernel", "hz": 250}]
    assert recording.truncated_at is None
    assert front.probes.looks == ["load", "seed", "final", "stop", "close"]


def test_everything_that_was_in_the_rings_is_written(front):
    front.link.send({"do": "stop"})
    made = front.session()
    made.run()
    records = read(front.path).records("tcp")
    assert records is not None
    assert sorted(records["time"].tolist()) == [1, 2, 3, 8, 9]
    assert front.probes.ring.released == 5 * 16


def test_a_front_that_is_gone_ends_the_trace_in_good_order(front):
    made = front.session()
    front.link.close()
    with pytest.raises(BrokenPipeError):  # it cannot even be told that the trace is armed
        made.run()


def test_a_front_that_goes_later_ends_the_trace_in_good_order(front, monkeypatch):
    made = front.session()
    monkeypatch.setattr(front.probes, "coverage", lambda: (front.link.close(), COVERAGE)[1])
    monkeypatch.setattr(front.recorder, "send", lambda _message: None)
    made.run()
    recording = read(front.path)
    assert recording.end is not None
    assert recording.end["exit_reason"] == "front-gone"


def test_losses_are_written_when_they_change_and_at_the_end(front):
    made = front.session()
    front.probes.counts = {"tcp": (3, 4), "tcp_io": (0, 0)}
    made._tick()
    made._tick()
    front.probes.counts = {"tcp": (5, 4), "tcp_io": (0, 0)}
    front.link.send({"do": "stop"})
    made.run()
    told = [(fact["probe"], fact["seen"], fact["lost"]) for fact in read(front.path).facts_of("loss")]
    assert told == [("tcp", 3, 4), ("tcp_io", 0, 0), ("tcp", 5, 4)]


def test_a_step_of_the_clock_is_written_once(front, monkeypatch):
    """Set forward by 5 s after the second look; a drift of 100 us is none."""
    second = 1_000_000_000
    ahead = [0, 0, 100_000, 5 * second, 5 * second, 5 * second]
    clocks = (
        {"monotonic_ns": at * second, "realtime_ns": 50 * second + at * second + more, "boottime_ns": at * second}
        for at, more in zip(itertools.count(1), ahead, strict=False)
    )
    monkeypatch.setattr(facts, "clock_pair", lambda: next(clocks))
    made = front.session()
    for _ in range(4):
        made._tick()
    front.link.send({"do": "stop"})
    made.run()
    recording = read(front.path)
    written = [fact["realtime_ns"] - fact["monotonic_ns"] for fact in recording.facts_of("clock")]
    assert written == [55 * second, 55 * second], "the step, and the pair at the end"
    assert recording.header["clock"]["realtime_ns"] == 51 * second


def test_the_looks_come_about_once_a_second(front, monkeypatch):
    monkeypatch.setattr(session, "_TICK_S", 0.01)
    made = front.session()

    def poll():
        return ({"do": "stop"}, ()) if front.probes.looks.count("tick") == 3 else None

    front.link.send({"do": "nothing"})  # never taken, so that the link stays readable
    monkeypatch.setattr(front.recorder, "poll", poll)
    made.run()
    assert front.probes.looks == ["load", "seed", "tick", "tick", "tick", "final", "stop", "close"]


def test_refused_accepts_of_the_trace_alone_are_written(front, monkeypatch):
    counts = iter([{"overflows": 10, "drops": 12}, {"overflows": 13, "drops": 17}])
    monkeypatch.setattr(facts, "overflows", lambda: next(counts))
    made = front.session()
    front.link.send({"do": "stop"})
    made.run()
    (fact,) = read(front.path).facts_of("listener_overflow")
    assert (fact["overflows"], fact["drops"]) == (3, 5)


def test_a_reason_that_is_too_long_is_cut(front):
    made = front.session()
    front.link.send({"do": "stop", "reason": "x" * 1000})
    made.run()
    end = read(front.path).end
    assert end is not None
    assert len(end["exit_reason"]) == 64
