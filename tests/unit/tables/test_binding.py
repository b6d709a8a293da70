# SPDX-License-Identifier: Apache-2.0
"""Offsets of plaintext find the records that hold them; bindings are tested with whole recordings in test_dialogue."""

from __future__ import annotations

import numpy as np
import pytest

from netdiag.tables import build
from netdiag.tables.binding import Clock
from tests.fakes.dialogue import Said, Script


def test_a_byte_passed_when_its_record_did():
    clock = Clock(np.array([100, 150, 400]), np.array([1.0, 2.0, 3.0]))
    assert clock.at([0, 99, 100, 149, 150, 399]).tolist() == [1, 1, 2, 2, 3, 3]
    assert np.isnan(clock.at([-1, 400, 10**12])).all()


def test_without_records_nothing_is_known():
    assert np.isnan(Clock(np.zeros(0, np.int64), np.zeros(0)).at([0, 5])).all()


@pytest.mark.parametrize("count", [40])
def test_many_connections_at_once_are_not_mixed_up(count):
    """Many connections with requests of one size at nearly the same time: bound by cookie, checked by bytes."""
    script, expected = Script(), {}
    for number in range(count):
        said = [Said(at=10 + 0.1 * number), Said(at=200 + 0.1 * number, wait=30 + number)]
        cookie = script.connection(said)
        expected[script.conversation(cookie, said)] = cookie - 1
    requests = build(script.recording()).requests
    assert len(requests) == 2 * count
    assert set(requests["source"]) == {"plaintext"}
    later = requests[requests["sequence"] == 2]
    assert later["wait_ms"].to_numpy() == pytest.approx(30 + later["connection"].to_numpy())


def test_connections_that_only_sizes_tell_apart_are_found():
    script = Script()
    talks = [[Said(at=10, asked=300 + 7 * number, head=80 + number)] for number in range(10)]
    for said in talks:
        script.connection(said)
    for said in talks:
        script.conversation(0, said, how=None)
    requests = build(script.recording()).requests
    assert requests["source"].tolist() == ["plaintext"] * 10
    assert (requests["request_bytes"] == 300 + 7 * requests["connection"]).all()


@pytest.mark.parametrize("lag", [0.6, 30.0])
def test_an_answer_cut_off_begins_with_the_first_record(lag):
    """No end is known of an answer that the program left: how late it read must not decide where it began."""
    chunks = [(60.2, 120, 7, 1), (80, 130, 7, 1), (100, 140, 7, 1)]
    said = [Said(at=10, chunks=chunks, lag=lag, members={"result": 2})]
    script = Script()
    script.conversation(script.connection(said), said)
    made = build(script.recording())
    assert made.chunks["at_ns"].to_numpy() / 1e6 == pytest.approx([60.2, 80, 100])
    assert made.chunks["token_ns"].to_numpy() / 1e6 == pytest.approx([60.2, 80, 100])
    assert made.requests["wait_ms"].tolist() == pytest.approx([50])


@pytest.mark.parametrize("length", [1, 2, 3])
def test_an_answer_may_end_with_a_record_of_an_alerts_size(length):
    said = [Said(at=10, chunks=[(60.0, length, 7, 1)])]
    script = Script()
    script.conversation(script.connection(said), said, how="handshake")
    requests = build(script.recording()).requests
    assert requests["source"].tolist() == ["plaintext"]
    assert requests["connection"].tolist() == [0]
