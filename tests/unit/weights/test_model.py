# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import pytest

from netdiag.assets import data_dir
from netdiag.weights.model import CLASSES
from tests.fakes import loads


def test_the_classes_have_the_order_of_the_kernel_program():
    text = (data_dir("bpf") / "include" / "netdiag" / "weights.h").read_text()
    named = sorted((int(number), name.lower()) for name, number in re.findall(r"ND_IN_(\w+) = (\d),", text))
    assert tuple(name for _, name in named) == CLASSES


def test_means_of_requests_are_unknown_without_one():
    some = loads.requests(4, 1024, answered=2, latency_ms=6.0)
    assert (some.mean_bytes, some.mean_ms) == (1024.0, 3.0)
    none = loads.requests(0, 1024)
    assert (none.mean_bytes, none.mean_ms) == (None, None)


def test_what_was_asked_of_some_sources():
    file = loads.file(requests=(loads.requests(1, 1), loads.requests(2, 1, "fuse"), loads.requests(3, 1, "direct")))
    assert [one.count for one in file.asked("direct", "device")] == [1, 3]
    assert file.asked() == ()


def test_a_thread_lives_from_its_first_sight_to_its_end():
    assert loads.thread(began_ms=250.0, ended_ms=1000.0).wall_ms == pytest.approx(750.0)
