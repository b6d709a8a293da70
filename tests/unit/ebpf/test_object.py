# SPDX-License-Identifier: Apache-2.0
"""Kernel objects before they are loaded, which needs no rights; and loading, with a libbpf that the test answers."""

from __future__ import annotations

import ctypes

import pytest

from netdiag import assets
from netdiag.ebpf import _libbpf
from netdiag.ebpf import object as module
from netdiag.ebpf._libbpf import libbpf
from netdiag.ebpf.object import BpfObject, Map
from netdiag.errors import NetdiagError, Unsupported

ESRCH = 3


@pytest.fixture(scope="module", autouse=True)
def _library():
    try:
        libbpf()
    except Unsupported as error:
        pytest.skip(f"needs libbpf: {error.message}")


@pytest.fixture
def opened():
    made = BpfObject(assets.bpf_object("tcp"))
    made._open(set())
    yield made
    made.close()


def rodata(made, name):
    """Return the bytes of a `const volatile` variable as they would be loaded."""
    size = ctypes.c_size_t()
    start = libbpf().bpf_map__initial_value(made._map_handle(".rodata"), ctypes.byref(size))
    offset, width = made._variables(".rodata")[name]
    return ctypes.string_at(start + offset, width)


def test_variables_have_their_places(opened):
    knobs = opened._variables(".rodata")
    assert {"nd_filter_port", "nd_filter_comm", "nd_burst_gap_ns"} <= set(knobs)
    assert (knobs["nd_filter_port"][1], knobs["nd_filter_comm"][1]) == (2, 16)
    places = [range(offset, offset + width) for offset, width in knobs.values()]
    assert sum(map(len, places)) == len({at for place in places for at in place}), "they do not overlap"
    assert opened._variables(".no_such_section") == {}


def test_knobs_are_set_and_the_others_left(opened):
    before = rodata(opened, "nd_burst_gap_ns")
    opened._set_knobs({"nd_filter_port": 443, "nd_filter_comm": b"curl".ljust(16, b"\0"), "no_such_knob": 1})
    assert rodata(opened, "nd_filter_port") == (443).to_bytes(2, "little")
    assert rodata(opened, "nd_filter_comm") == b"curl".ljust(16, b"\0")
    assert rodata(opened, "nd_burst_gap_ns") == before


@pytest.mark.parametrize("value", [b"curl", 1 << 16])
def test_a_knob_of_another_width_is_refused(opened, value):
    with pytest.raises((ValueError, OverflowError)):
        opened._set_knobs({"nd_filter_comm": value, "nd_filter_port": value})


def test_a_program_that_is_left_out_is_not_loaded(opened):
    every = set(opened.programs())
    other = BpfObject(assets.bpf_object("tcp"))
    other._open({"connect4"})
    assert every - set(other.programs()) == {"connect4"}
    other.close()


def test_bytes_that_are_no_object_are_an_error(tmp_path):
    path = tmp_path / "tcp.bpf.o"
    path.write_bytes(b"\x7fELF" + bytes(100))
    with pytest.raises(NetdiagError, match="'tcp'"):
        BpfObject(path)._open(set())


class Library:
    """libbpf, but for loading, which ends as the test says."""

    def __init__(self, results, log):
        self.results, self.log, self.loads = list(results), log, 0

    def __getattr__(self, name):
        return getattr(libbpf(), name)

    def bpf_object__load(self, _handle):
        self.loads += 1
        _libbpf._log.extend(self.log if self.results[0] else ())
        return self.results.pop(0)


REFUSED = ["libbpf: prog 'tcp_receive_reset': failed to load: -3", "libbpf: failed to load object 'tcp'"]


@pytest.fixture
def loading(monkeypatch):
    """Return a function that loads with the given results."""
    made = []

    def do(*results, optional=(), log=REFUSED):
        library = Library(results, log)
        monkeypatch.setattr(module, "libbpf", lambda: library)
        made.append(BpfObject(assets.bpf_object("tcp")))
        made[-1].load({}, {}, optional=frozenset(optional), without=frozenset())
        return made[-1], library

    yield do
    for one in made:
        one.close()


def test_a_program_that_this_kernel_refuses_is_left_out_and_named(loading):
    made, library = loading(-ESRCH, 0, optional=["tcp_receive_reset"])
    assert library.loads == 2
    assert set(made.disabled) == {"tcp_receive_reset"}
    assert "tcp_receive_reset" in made.disabled["tcp_receive_reset"]
    assert "tcp_receive_reset" not in made.programs()


def test_a_program_that_is_needed_ends_it(loading):
    with pytest.raises(Unsupported, match="No such process"):
        loading(-ESRCH)


def test_the_same_program_is_not_left_out_twice(loading):
    with pytest.raises(Unsupported):
        loading(-ESRCH, -ESRCH, -ESRCH, optional=["tcp_receive_reset"])


def test_an_entry_of_a_map_that_cannot_be_set_is_an_error():
    with pytest.raises(NetdiagError, match="targets"):
        Map("targets", -1, 1).update(b"1234", b"1")
