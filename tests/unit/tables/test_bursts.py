# SPDX-License-Identifier: Apache-2.0
"""Bursts find their connections, and parts of one burst become one again."""

from __future__ import annotations

import numpy as np
import pytest

from netdiag.tables import build
from netdiag.tables.codes import IoFlags
from netdiag.testing import START_NS, RecordingBuilder

CONTINUED = 1


def builder():
    return RecordingBuilder().connection([]).connection([])


def test_bursts_are_sorted_by_connection_and_time():
    made = builder().call(2, "send", 5, 50).call(1, "receive", 9, 90).call(1, "send", 7, 70).call(99, "send", 1, 1)
    bursts = build(made.recording()).bursts
    assert bursts[["connection", "direction", "bytes"]].to_numpy().tolist() == [
        [0, "send", 70], [0, "receive", 90], [1, "send", 50],
    ]  # fmt: skip
    assert bursts["arrived_ns"].isna().tolist() == [True, False, True]
    assert bursts["max_lag_ms"].tolist()[1] == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("second", "joined"),
    [
        ({}, True),
        ({"tid": 101}, False),
        ({"direction": "receive"}, False),
        ({"at": 2.5}, False),
        ({"cookie": 2}, False),
    ],
)
def test_a_burst_that_was_written_in_parts_is_one(second, joined):
    members = {"cookie": 1, "direction": "send", "at": 1.4} | second
    made = builder().call(1, "send", 1, 100, flags=CONTINUED, max_lag=7)
    made.call(members["cookie"], members["direction"], members["at"], 50, tid=members.get("tid", 100))
    bursts = build(made.recording()).bursts
    assert len(bursts) == (1 if joined else 2)
    if joined:
        row = bursts.iloc[0]
        assert (row["bytes"], row["calls"], row["first_bytes"], row["ended_ns"]) == (150, 2, 100, 1.4e6)
        assert np.isnan(row["max_lag_ms"])


def test_bursts_without_the_flag_stay_apart():
    assert len(build(builder().call(1, "send", 1, 100).call(1, "send", 1.1, 50).recording()).bursts) == 2


def test_the_longest_wait_of_the_parts_counts():
    made = builder().call(1, "receive", 1, 10, flags=CONTINUED, max_lag=900).call(1, "receive", 1.5, 10, max_lag=100)
    assert build(made.recording()).bursts["max_lag_ms"].tolist() == [0.9]


def test_retransmissions_are_apart():
    made = builder()
    for cookie, at, size, flags in ((2, 3, 1448, IoFlags.PEER), (1, 2, 20, 0)):
        made.record("tcp_io", cookie=cookie, began=START_NS + at * 1_000_000, bytes=size, direction=3, flags=flags)
    tables = build(made.recording())
    assert len(tables.bursts) == 0
    assert tables.retransmits.to_numpy().tolist() == [[0, 2e6, 20, "local"], [1, 3e6, 1448, "remote"]]
