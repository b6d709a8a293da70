# SPDX-License-Identifier: Apache-2.0
"""The set of probes of a trace, over objects that a test made up instead of the kernel."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from netdiag.ebpf.handover import Loaded
from netdiag.errors import NotPermitted, Unsupported
from netdiag.recorder import probes
from netdiag.recorder.probes import ProbeSet
from netdiag.recording.format import Field, FieldKind, StreamLayout

SEED, TICK, FINAL = 1, 2, 3


class FakeVariables(dict[str, int]):
    """The global variables of an object: a dictionary."""

    def __init__(self, places, _sizes):
        super().__init__(places)

    def set(self, name, value):
        self[name] = value


class FakeRing:
    """A ring of which only the size matters here."""

    def __init__(self, fd, size, record_bytes):
        self.fd, self.size, self.record_bytes = fd, size, record_bytes


def layout(number, name):
    field = Field(name="time", type="nd_ktime_ns", offset=0, size=8, kind=FieldKind.UINT)
    return StreamLayout.of_ring(stream=number, name=name, struct=f"{name}_event", size=8, fields=(field,)).to_json()


def stream(number, name, ring):
    return {"map": ring, "recorded": True, "to_front": False, "layout": layout(number, name)}


def item(name, streams=(), *, failed=None, variables=None, iterators=None, required=()):
    """Return a loaded object; `variables` stand where their places would be."""
    return Loaded(
        name=name,
        maps={about["map"]: (10 + at, 4096) for at, about in enumerate(streams)},
        places=variables or {},
        iterators=iterators or {},
        failed=failed or {},
        about={
            "streams": list(streams),
            "gives": {"hook": "the times", "other": "the names"},
            "required": list(required),
        },
    )


TCP_VARIABLES = {
    "nd_look_began": 0, "nd_look_mode": 0, "nd_look_time": 0, "nd_look_jiffies": 0, "nd_pidns_level": 0,
    "events_seen": 5, "events_lost": 2, "process_events_seen": 1, "process_events_lost": 0,
}  # fmt: skip


@pytest.fixture
def loads(monkeypatch):
    """Return a function that makes a set of probes from loaded objects, and what was walked in it."""
    walks: list[Any] = []

    def make(*items, walk=None):
        monkeypatch.setattr(probes, "load", lambda _prepare: list(items))
        monkeypatch.setattr(probes, "Variables", FakeVariables)
        monkeypatch.setattr(probes, "Ring", FakeRing)
        monkeypatch.setattr(probes, "walk", walk or (lambda fd, _drain: walks.append(fd)))
        made = ProbeSet(names=[], target={"pids": [1]}, options={})
        monkeypatch.setattr(made._namespaces, "note_all", lambda _pids: None)
        made.load()
        return made, walks

    return make


def drain():
    """Empty no ring."""


def test_streams_have_their_rings(loads):
    made, _ = loads(item("tcp", [stream(1, "tcp", "events"), stream(2, "tcp_io", "io_events")]))
    assert [(s.name, s.number, ring.fd, ring.record_bytes) for s, ring in made.streams()] == [
        ("tcp", 1, 10, 8), ("tcp_io", 2, 11, 8),
    ]  # fmt: skip
    assert len(made.rings()) == 2


def test_a_probe_that_could_not_be_loaded_has_no_stream(loads):
    failed = {"": Unsupported("no BTF", hint="another kernel")}
    made, _ = loads(item("tcp", [stream(1, "tcp", "events")], failed=failed), item("process"))
    assert made.streams() == []
    states = {state["name"]: state for state in made.coverage()["probes"]}
    assert states["process"]["state"] == "attached"
    assert states["tcp"] == {
        "name": "tcp", "state": "unavailable", "reason": "no BTF", "remedy": "another kernel",
    }  # fmt: skip


@pytest.mark.parametrize(("required", "state"), [((), "partial"), (("hook",), "unavailable"), (("other",), "partial")])
def test_a_program_that_is_missing_is_told_with_what_it_would_give(required, state, loads):
    failed = {"hook": NotPermitted("hook: denied", hint="sudo")}
    made, _ = loads(item("tcp", failed=failed, required=required))
    (said,) = made.coverage()["probes"]
    assert (said["state"], said["remedy"]) == (state, "sudo")
    assert said["reason"] == "hook: denied (missing: the times)"


def test_losses_of_a_shared_ring_are_added_up(loads):
    tcp = item("tcp", [stream(1, "tcp", "events")], variables=TCP_VARIABLES)
    process = item(
        "process", [stream(3, "process", "process_events")],
        variables={"process_events_seen": 7, "process_events_lost": 3},
    )  # fmt: skip
    made, _ = loads(tcp, process)
    assert made.losses() == {"tcp": (5, 2), "process": (8, 3)}


def with_walks():
    return item("tcp", variables=TCP_VARIABLES, iterators={"holders": 20, "look": 21})


def test_holders_are_found_before_the_first_and_the_last_look(loads):
    made, walks = loads(with_walks())
    made.seed(drain)
    assert walks == [20, 21]
    made.tick(drain)
    assert walks == [20, 21, 21]
    made.final_look(drain)
    assert walks == [20, 21, 21, 20, 21]


def test_the_programs_are_told_which_look_it_is(loads):
    modes = []
    made, _ = loads(with_walks(), walk=lambda _fd, _drain: modes.append(variables()["nd_look_mode"]))

    def variables():
        return made._variables["tcp"]

    for look in (made.seed, made.tick, made.final_look):
        look(drain)
    assert modes == [SEED, SEED, TICK, FINAL, FINAL]
    assert variables()["nd_look_began"] > 0


def test_every_namespace_is_looked_at_once(loads, monkeypatch):
    made, walks = loads(with_walks())
    monkeypatch.setattr(made._namespaces, "paths", lambda: iter(["/proc/5/ns/net", "/proc/6/ns/net"]))
    entered = []

    @contextlib.contextmanager
    def in_netns(path):
        entered.append(path)
        yield path.startswith("/proc/5")

    monkeypatch.setattr(probes, "in_netns", in_netns)
    made.tick(drain)
    assert entered == ["/proc/5/ns/net", "/proc/6/ns/net"]
    assert walks == [21, 21], "one here, one where it could be entered"


def test_in_a_container_all_objects_learn_how_deep_it_lies(loads):
    walks = []

    def walk(fd, _drain):
        walks.append(fd)
        made._variables["tcp"]["nd_pidns_level"] = 2

    made, _ = loads(with_walks(), item("process", variables={"nd_pidns_level": 0}), item("tls"), walk=walk)
    made.seed(drain)
    assert made._variables["process"]["nd_pidns_level"] == 2
    assert "nd_pidns_level" not in made._variables["tls"]
    assert walks == [20, 20, 21], "who holds what is asked again, by the numbers that are right"


def test_without_the_tcp_probe_nothing_is_walked(loads):
    made, walks = loads(item("process"))
    made.seed(drain)
    made.final_look(drain)
    assert walks == []
    assert made.hz() is None


@pytest.mark.parametrize(
    ("elapsed_s", "jiffies", "hz"),
    [(1.0, 250, 250), (1.0, 251, 250), (2.0, 2000, 1000), (0.5, 49, 100), (0.01, 3, None)],
)
def test_the_length_of_a_jiffy(elapsed_s, jiffies, hz, loads):
    made, _ = loads(with_walks())
    made.seed(drain)
    made._variables["tcp"].update(nd_look_time=int(elapsed_s * 1e9), nd_look_jiffies=jiffies)
    assert made.hz() == hz


def test_a_new_process_is_remembered_for_its_namespace(loads, monkeypatch):
    made, _ = loads(with_walks())
    met: list[int] = []
    monkeypatch.setattr(made._namespaces, "note", met.append)
    made.meet(4711)
    assert met == [4711]
