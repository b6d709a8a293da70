# SPDX-License-Identifier: Apache-2.0
"""Sampling where it cannot work; that it does is shown by tests/kernel/test_weights.py."""

from __future__ import annotations

import builtins
import io
import os
import sys
from pathlib import Path

import pytest

from netdiag.ebpf import sampling
from netdiag.ebpf.sampling import PERIOD_NS, Sampling

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="perf_event_open(2) is Linux's")


def descriptors():
    return {int(one.name) for one in Path("/proc/self/fd").iterdir() if one.exists()}


@pytest.mark.parametrize(("text", "cpus"), [("0\n", [0]), ("0-3\n", [0, 1, 2, 3]), ("0-1,4,6-7\n", [0, 1, 4, 6, 7])])
def test_the_processors_that_are_on(monkeypatch, text, cpus):
    monkeypatch.setattr(builtins, "open", lambda *_args, **_more: io.StringIO(text))
    assert sampling._online() == cpus


def test_this_machines_processors():
    assert set(os.sched_getaffinity(0)) <= set(sampling._online())


def test_a_program_that_is_none_is_told_and_leaves_nothing_open():
    with Path("/dev/null").open("rb") as no_program:
        before = descriptors()
        clock = Sampling(no_program.fileno())
        clock.start()
        assert clock.reason is not None
        assert clock.reason.startswith(("a clock on each processor: ", "a program on the clock of each processor: "))
        assert descriptors() == before


def test_processors_that_cannot_be_counted_are_told(monkeypatch):
    def missing(*_args, **_more):
        raise FileNotFoundError

    clock = Sampling(-1)
    with monkeypatch.context() as patch:
        patch.setattr(builtins, "open", missing)
        clock.start()
    assert clock.reason == "which processors there are cannot be read"


def test_a_processor_that_is_not_there_is_told(monkeypatch):
    monkeypatch.setattr(sampling, "_online", lambda: [1 << 20])
    before = descriptors()
    clock = Sampling(-1)
    clock.start()
    assert clock.reason is not None
    assert clock.reason.startswith("a clock on each processor: ")
    assert descriptors() == before


def test_the_end_can_come_twice_and_after_a_descriptor_is_gone():
    clock = Sampling(-1)
    gone = os.open("/dev/null", os.O_RDONLY)
    os.close(gone)
    clock._fds = [gone]
    clock.close()
    clock.close()
    assert clock._fds == []


def test_the_period_beats_with_no_clock_of_the_kernel():
    for hz in (100, 250, 300, 1000):
        assert (10**9 // hz) % PERIOD_NS
        assert PERIOD_NS % (10**9 // hz)
