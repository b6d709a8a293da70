# SPDX-License-Identifier: Apache-2.0
"""From the loading child to its parent: descriptors, words and errors; nothing is loaded here."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from netdiag.ebpf import handover
from netdiag.ebpf.handover import Job, Loaded, Plan, load
from netdiag.errors import NetdiagError, NotPermitted, Unsupported, UsageError


@pytest.fixture
def fds():
    """Return a function that opens so many descriptors of files whose content is their number."""
    opened = []

    def make(count):
        for number in range(count):
            fd = os.memfd_create(f"ndk-{number}")
            os.write(fd, str(number).encode())
            opened.append(fd)
        return opened[-count:]

    yield make
    for fd in opened:
        os.close(fd)


def content(fd):
    return int(os.pread(fd, 20, 0))


def sent_over(reply, sent):
    """Send a reply with descriptors through a socket; return what arrives."""
    here, there = socket.socketpair()
    with here, there:
        child = os.fork()
        if child == 0:
            try:
                handover._send(there, reply, sent)
            finally:
                os._exit(0)
        received = handover._receive(here)
        os.waitpid(child, 0)
    return received


def loaded(fds):
    rings, program, link, iterator, section = fds
    return Loaded(
        name="tcp",
        maps={"events": (rings, 4096)},
        programs={"hook": program},
        links=[link],
        iterators={"look": iterator},
        places={"events_seen": (section, 8, 4)},
        sizes={section: 64},
        failed={"other": NotPermitted("denied", hint="sudo")},
        about={"streams": [1, 2], "gives": {"other": "names"}},
    )


def test_an_object_arrives_as_it_was(fds):
    sent: list[int] = []
    reply, received = sent_over([handover._to_json(loaded(fds(5)), sent)], sent)
    assert isinstance(reply, list)
    arrived = handover._from_json(reply[0], received)
    try:
        assert (content(arrived.maps["events"][0]), arrived.maps["events"][1]) == (0, 4096)
        assert content(arrived.programs["hook"]) == 1
        assert [content(fd) for fd in arrived.links] == [2]
        assert content(arrived.iterators["look"]) == 3
        fd, offset, width = arrived.places["events_seen"]
        assert (content(fd), offset, width) == (4, 8, 4)
        assert arrived.sizes == {fd: 64}
        error = arrived.failed["other"]
        assert (type(error), error.message, error.hint) == (NotPermitted, "denied", "sudo")
        assert arrived.about == {"streams": [1, 2], "gives": {"other": "names"}}
        assert not any(os.get_inheritable(fd) for fd in received)
    finally:
        for fd in received:
            os.close(fd)


def test_a_descriptor_that_is_named_twice_travels_once(fds):
    (fd,) = fds(1)
    sent: list[int] = []
    handover._to_json(loaded([fd] * 5), sent)
    assert sent == [fd]


@pytest.mark.parametrize("count", [0, 1, 100, 101, 250])
def test_any_number_of_descriptors_travels_in_order(count, fds):
    reply, received = sent_over([], fds(count))
    numbers = [content(fd) for fd in received]
    for fd in received:
        os.close(fd)
    assert (reply, numbers) == ([], list(range(count)))


@pytest.mark.parametrize("error", [UsageError("no probe", hint="tcp"), NotPermitted("denied"), Unsupported("no BTF")])
def test_what_the_preparation_refuses_is_raised_here(error):
    def prepare() -> Job:
        raise error

    with pytest.raises(type(error), match=error.message) as raised:
        load(prepare)
    assert raised.value.hint == error.hint


def test_a_child_that_dies_is_an_error(capfd):
    def prepare() -> Job:
        os._exit(9)

    with pytest.raises(Unsupported, match="ended early"):
        load(prepare)
    assert capfd.readouterr().err == ""


def test_nonsense_is_not_believed():
    here, there = socket.socketpair()
    with here, there:
        there.sendall((1 << 30).to_bytes(4, "little") + bytes(4))
        with pytest.raises(Unsupported, match="nonsense"):
            handover._receive(here)


def test_an_unknown_kind_of_error_is_still_one():
    error = handover._error("Strange", "something", None)
    assert (type(error), error.message) == (NetdiagError, "something")


class FakeObject:
    """Stands for an object of libbpf: loads, or not, by its file's name."""

    def __init__(self, path):
        self.path, self.disabled, self.links, self.multi = path, {"odd": "the kernel has no such hook"}, [], True
        self.maps: dict[str, object] = {}

    def load(self, *_args, **_kwargs):
        if "bad" in self.path.name:
            raise Unsupported(f"{self.path.name} was refused")

    def attach(self, _cgroup_fd):
        return {"denied": NotPermitted("denied")}

    def iterator(self, name):
        if name == "broken":
            raise Unsupported("no iterators")
        return 0

    def programs(self):
        return {}

    def variables(self):
        return {}, {}


def job(*names, iterators=()):
    plans = [Plan(name=n, path=Path(n), optional=frozenset(), iterators=iterators, about={}) for n in names]
    return Job(plans=plans, knobs={}, entries={"targets": [b"1234"]}, cgroup=None)


@pytest.fixture
def _fake(monkeypatch):
    monkeypatch.setattr("netdiag.ebpf.object.BpfObject", FakeObject)


@pytest.mark.usefixtures("_fake")
def test_one_object_that_is_refused_leaves_the_others_be():
    bad, good = load(lambda: job("bad", "good"))
    assert list(bad.failed) == [""]
    assert set(good.failed) == {"odd", "denied"}
    assert good.failed["odd"].message == "the kernel has no such hook"


@pytest.mark.usefixtures("_fake")
def test_when_all_are_refused_the_first_reason_is_raised():
    with pytest.raises(Unsupported, match="bad1 was refused"):
        load(lambda: job("bad1", "bad2"))


@pytest.mark.usefixtures("_fake")
def test_a_walk_that_cannot_be_had_fails_alone():
    (item,) = load(lambda: job("good", iterators=("look", "broken", "odd")))
    for fd in item.iterators.values():
        os.close(fd)
    assert set(item.iterators) == {"look"}
    assert item.failed["broken"].message == "no iterators"
