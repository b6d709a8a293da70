# SPDX-License-Identifier: Apache-2.0
"""Requests of encrypted connections from record sizes, on HTTP/1 only."""

from __future__ import annotations

import numpy as np
import pytest

from netdiag.tables import build
from netdiag.testing import RecordingBuilder

HELLO = [
    (1, "send", 22, 512, 1), (2, "receive", 22, 122, 2), (2, "receive", 23, 1200, 0), (3, "send", 20, 1, 1),
    (3, "send", 23, 69, 0), (3.5, "receive", 23, 250, 0), (3.5, "receive", 23, 250, 0),
]  # fmt: skip
SETUP = [("send", 1.01, 517), ("receive", 2.01, 1340), ("send", 3.01, 80)]


def built(records, calls=(), hello=HELLO, **members):
    builder = RecordingBuilder().connection([*SETUP, *calls], **members)
    for at, side, kind, length, first in [*hello, *((*record, 0) for record in records)]:
        builder.wire(1, side, at, kind, length, first)
    return build(builder.recording())


def requests(records, **kwargs):
    return built(records, **kwargs).requests


TWO = [
    (4, "send", 23, 217), (4.1, "send", 23, 117), (54, "receive", 23, 117), (56, "receive", 23, 1017),
    (100, "send", 23, 217), (180, "receive", 23, 517),
]  # fmt: skip


def test_each_question_with_its_answer():
    made = built(TWO)
    assert made.connections["requests"].tolist() == [2]
    assert made.connections["handshake"].tolist() == ["h1"]
    first, second = made.requests.to_dict("records")
    assert (first["source"], first["request_bytes"], first["response_bytes"]) == ("records", 300, 1100)
    assert (first["send_ms"], first["wait_ms"]) == (pytest.approx(0.1), pytest.approx(49.9))
    assert (second["wait_ms"], second["reused"], second["sequence"]) == (pytest.approx(80), True, 2)
    assert (first["tls_ms"], first["client_setup_ms"]) == (pytest.approx(2), pytest.approx(0.9))
    assert (second["tls_ms"], second["connect_ms"]) == (0, 0)


def test_a_late_reader_is_told_from_a_slow_server():
    builder = RecordingBuilder().connection([*SETUP, ("send", 4.01, 222)])
    for at, side, kind, length, first in HELLO:
        builder.wire(1, side, at, kind, length, first)
    builder.wire(1, "send", 4, 23, 217).wire(1, "receive", 54, 23, 517)
    builder.call(1, "receive", 354, 522, arrived=1_000_054_000_000, max_lag=300_000, tid=105)
    row = build(builder.recording()).requests.iloc[0]
    assert (row["wait_ms"], row["reader_lag_ms"], row["receive_ms"]) == (50, 300, 0)
    assert (row["last_lag_ms"], row["ended_ns"], row["tid"]) == (300, 354e6, 100)


def test_a_hundred_continue_is_no_answer():
    records = [(4, "send", 23, 217), (5, "receive", 23, 42), (6, "send", 23, 9017), (90, "receive", 23, 517)]
    made = requests(records)
    assert made[["request_bytes", "response_bytes"]].to_numpy().tolist() == [[9200, 500]]


def test_small_records_of_the_client_ask_for_nothing():
    made = requests([*TWO, (200, "send", 23, 60), (210, "receive", 23, 60)])
    assert len(made) == 2


def test_small_requests_count_where_the_first_was_small():
    tiny = [(4, "send", 23, 70), (54, "receive", 23, 517), (100, "send", 23, 71), (150, "receive", 23, 517)]
    assert len(requests(tiny)) == 2


def test_http2_is_not_counted():
    made = built([(4, "send", 23, 99), (4.2, "send", 23, 26), (4.3, "send", 23, 234), (54, "receive", 23, 392)])
    assert len(made.requests) == 0
    assert np.isnan(made.connections["requests"]).all()
    assert made.connections["encrypted"].tolist() == [True]


@pytest.mark.parametrize(("closed", "complete"), [(("remote", 9), False), (None, None)])
def test_a_question_without_an_answer(closed, complete):
    row = requests([(4, "send", 23, 217)], closed=closed).iloc[0]
    assert row["complete"] is complete
    assert np.isnan([row["wait_ms"], row["total_ms"], row["response_bytes"]]).all()


def test_from_the_middle_requests_are_listed_but_the_count_is_not_known():
    made = built(TWO, hello=[], flags=1)
    assert len(made.requests) == 2
    assert np.isnan(made.connections["requests"]).all()
    assert made.requests["reused"].tolist() == [None, True]


STREAMS = [
    (54, "send", 23, 250), (55, "send", 23, 251), (60, "receive", 23, 300), (61, "receive", 23, 5017),
    (62, "receive", 23, 5017), (62.1, "send", 23, 43), (70, "receive", 23, 300), (90, "send", 23, 180),
]  # fmt: skip


@pytest.mark.parametrize("frame", [43, 30, 34, 26, 37])
def test_of_an_older_connection_small_frames_tell_that_it_is_http2(frame):
    records = [(at, side, kind, frame if length == 43 else length) for at, side, kind, length in STREAMS]
    assert len(built(records, hello=[], flags=1).requests) == 0


def test_an_older_connection_speaks_what_a_newer_one_of_the_same_program_does():
    new = [*HELLO, (4, "send", 23, 99, 0), (4.2, "send", 23, 26, 0), (4.3, "send", 23, 234, 0)]
    for other in (0, 1):
        builder = RecordingBuilder().connection(SETUP, flags=1).connection(SETUP, tgid=100 + other)
        for at, side, kind, length in TWO:
            builder.wire(1, side, at, kind, length, 0)
        for at, side, kind, length, first in new:
            builder.wire(2, side, at, kind, length, first)
        assert len(build(builder.recording()).requests) == 2 * other


def test_what_was_under_way_when_the_trace_began_tells_nothing():
    middle = [(1, "receive", 23, 34), *TWO]
    assert len(built(middle, hello=[], flags=1).requests) == 2


def test_plain_and_encrypted_connections_share_one_table_in_order_of_time():
    builder = RecordingBuilder().connection([("send", 30, 200), ("receive", 40, 300)]).connection(SETUP, dport=443)
    for at, side, kind, length, first in [*HELLO, *((*record, 0) for record in TWO)]:
        builder.wire(2, side, at, kind, length, first)
    made = build(builder.recording()).requests
    assert made["source"].tolist() == ["records", "sockets", "records"]
    assert made["id"].tolist() == ["r1", "r2", "r3"]
