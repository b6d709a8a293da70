# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.errors import InputUnreadable
from netdiag.testing import START_NS, RecordingBuilder
from netdiag.weights.examine import examine
from netdiag.weights.model import Copies
from tests.fakes import loads
from tests.fakes.loads import MIB, NO_LIMIT, PID


def codes(examined):
    return [one.code for one in examined.findings]


def test_a_recording_becomes_a_load_and_its_findings():
    examined = examine(loads.builder().recording(end_at=2_000.0), memory=NO_LIMIT)
    assert examined.memory is NO_LIMIT
    assert [file.size for file in examined.load.files] == [64 * MIB]
    assert codes(examined) == ["weights.readahead-small"]
    awake = loads.builder().record(
        "weights_thread", time=START_NS + 2_100_000_000, began=START_NS, tgid=PID, tid=PID, run=2_100_000_000
    )
    assert codes(examine(awake.recording(end_at=2_200.0), memory=NO_LIMIT)) == []


def test_what_others_measured_is_judged_as_well():
    copies = Copies(count=10, bytes=MIB, took_ms=900.0, small=0, from_files=MIB, from_pinned=0, from_pageable=0)
    examined = examine(loads.builder().recording(end_at=2_000.0), memory=NO_LIMIT, copies=copies)
    assert codes(examined) == ["weights.readahead-small", "weights.pageable-copies"]
    assert examined.load.copies is copies


def test_without_an_own_memory_this_machines_is_taken():
    total = examine(loads.builder().recording()).memory.total
    assert total is not None
    assert total > 0


def test_a_recording_without_the_probe_is_refused():
    with pytest.raises(InputUnreadable):
        examine(RecordingBuilder().recording())
