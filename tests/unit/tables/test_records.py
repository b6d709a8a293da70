# SPDX-License-Identifier: Apache-2.0
"""Record headers find their connections; what a connection speaks, and where the thread was lost, is kept apart."""

from __future__ import annotations

import numpy as np

from netdiag.tables import build
from netdiag.tables.columns import Columns
from netdiag.tables.connections import sockets
from netdiag.tables.records import records, wire
from netdiag.testing import START_NS, RecordingBuilder, records_of


def parts(builder):
    recording = builder.recording()
    events = Columns(records_of(recording, "tls_record"), START_NS)
    return events, sockets(Columns(records_of(recording, "tcp"), START_NS))


def test_headers_are_sorted_by_connection_and_time_in_the_order_written():
    builder = RecordingBuilder().connection([]).connection([])
    builder.wire(2, "send", 5, 22, 512, 1).wire(1, "receive", 9, 23, 100).wire(1, "receive", 9, 23, 50)
    builder.wire(1, "send", 1, 22, 200, 1).wire(99, "send", 1, 22, 1)
    made = records(*parts(builder))
    assert made[["connection", "direction", "type", "length"]].to_numpy().tolist() == [
        [0, "send", 22, 200], [0, "receive", 23, 100], [0, "receive", 23, 50], [1, "send", 22, 512],
    ]  # fmt: skip
    assert made["first"].tolist() == [1, 0, 0, 1]


def test_classes_and_gaps_are_no_records():
    builder = RecordingBuilder().connection([]).connection([]).connection([])
    builder.wire(1, "send", 2, 0, first=1).wire(1, "send", 1, 0, first=4).wire(2, "receive", 3, 1)
    seen = wire(*parts(builder))
    assert seen.speaks.tolist() == [1, 0, 0]
    assert seen.gaps.tolist() == [False, True, False]
    assert len(build(builder.recording()).records) == 0


def test_a_connection_with_a_gap_has_no_certain_count():
    calls = [("send", 1, 517), ("receive", 2, 2100), ("send", 3, 380), ("receive", 50, 900)]
    builder = RecordingBuilder().connection(calls)
    builder.wire(1, "send", 1, 22, 512, 1).wire(1, "receive", 2, 22, 122, 2).wire(1, "receive", 2, 23, 1200)
    builder.wire(1, "send", 3, 23, 69).wire(1, "send", 3.1, 23, 300).wire(1, "receive", 50, 23, 870)
    assert build(builder.recording()).connections["requests"].tolist() == [1]
    builder.wire(1, "receive", 60, 1)
    made = build(builder.recording())
    assert np.isnan(made.connections["requests"]).all()
    assert len(made.requests) == 1
