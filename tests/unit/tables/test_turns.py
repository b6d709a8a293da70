# SPDX-License-Identifier: Apache-2.0
"""Turns: asked, answered, and the instants between."""

from __future__ import annotations

import numpy as np
import pytest

from netdiag.tables import build
from netdiag.tables.turns import changes, numbers_within, sums
from netdiag.testing import RecordingBuilder

CALLS = [("send", 1, 200), ("send", 3, 100), ("receive", 50, 10), ("receive", 60, 900), ("send", 100, 200)]


def turns(calls, **members):
    return build(RecordingBuilder().connection(calls, **members).recording()).turns


def test_a_client_asks_and_is_answered():
    made = turns(CALLS)
    assert made["number"].tolist() == [1, 2]
    assert made["answered"].tolist() == [True, False]
    first = made.iloc[0]
    assert (first["began_ns"], first["sent_ns"]) == (1e6, 3e6)
    assert (first["first_byte_ns"], first["last_byte_ns"]) == (pytest.approx(49.99e6), 60e6)
    assert (first["sent_bytes"], first["sent_calls"], first["first_call_bytes"]) == (300, 2, 200)
    assert (first["received_bytes"], first["received_calls"], first["received_bursts"]) == (910, 2, 2)
    assert first["lag_ms"] == pytest.approx(0.02)
    second = made.iloc[1]
    assert np.isnan(second["first_byte_ns"])
    assert second["received_bytes"] == 0


def test_a_server_is_asked_and_answers():
    calls = [("receive", 1, 200), ("send", 50, 900), ("receive", 100, 200), ("send", 130, 900)]
    made = turns(calls, role=2)
    assert made["sent_bytes"].tolist() == [200, 200]
    assert made["received_bytes"].tolist() == [900, 900]
    assert made["first_byte_ns"].tolist() == [50e6, 130e6]
    assert made["began_ns"].tolist() == pytest.approx([0.99e6, 99.99e6])


def test_a_greeting_belongs_to_no_turn():
    made = turns([("receive", 1, 80), ("send", 2, 20), ("receive", 3, 40)])
    assert made[["number", "sent_bytes", "received_bytes"]].to_numpy().tolist() == [[1, 20, 40]]


def test_turns_of_two_connections_do_not_mix():
    builder = RecordingBuilder().connection([("send", 1, 10)]).connection([("receive", 2, 20), ("send", 3, 30)])
    made = build(builder.recording()).turns
    assert made[["connection", "number", "answered"]].to_numpy().tolist() == [[0, 1, False], [1, 1, False]]


def test_an_arrival_after_the_read_is_not_believed():
    builder = RecordingBuilder().connection([("send", 1, 10)])
    builder.call(1, "receive", 5, 10, arrived=builder_ns(6))
    assert build(builder.recording()).turns["first_byte_ns"].tolist() == [5e6]


def builder_ns(ms):
    return 1_000_000_000_000 + round(ms * 1e6)


def test_helpers_on_nothing_and_something():
    empty = np.zeros(0, np.int64)
    assert len(changes(empty)) == len(numbers_within(empty)) == len(sums(empty, empty)) == 0
    assert numbers_within(np.array([4, 4, 7, 4])).tolist() == [1, 2, 1, 1]
    assert sums(np.array([1, 2, 3]), np.array([0, 2])).tolist() == [3, 3]
