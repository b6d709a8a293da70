# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pytest

from netdiag import testing
from netdiag.analysis.case import Options, prepare
from netdiag.analysis.stream_pieces import streams_of


def streams(calls):
    case = prepare(calls.tables(), Options())
    (group,) = case.groups
    return streams_of(case, case.asked_by(group))


@pytest.mark.parametrize("exact", [True, False])
def test_pieces_of_chunks_and_of_records_come_at_the_same_times(calls, exact):
    calls.stream(calls.connection(), 0, [20.0] * 9, exact=exact)
    (stream,) = streams(calls)
    assert [piece.at_ns / 1e6 for piece in stream.pieces] == pytest.approx([100 + 20 * n for n in range(10)])
    assert stream.told is exact
    assert stream.first_token_ms == pytest.approx(100)


def test_a_head_that_came_alone_is_no_piece(calls):
    number = calls.stream(calls.connection(), 0, [20.0] * 9, exact=False)
    calls.rows["requests"][number]["stream"]["first_chunk_ms"] = None
    (stream,) = streams(calls)
    assert len(stream.pieces) == 9
    assert stream.first_token_ms == pytest.approx(120)


def test_a_role_and_heartbeats_are_no_token(calls):
    calls.stream(calls.connection(), 0, [50.0] * 4, kinds=["role", "heartbeat", "content", "content", "done"])
    (stream,) = streams(calls)
    assert stream.first_token_ms == pytest.approx(200)
    assert stream.gaps_ms == pytest.approx((50.0,))


def test_a_chunk_whose_arrival_was_not_seen_counts_by_its_read(calls):
    calls.stream(calls.connection(), 0, [20.0] * 4)
    calls.rows["chunks"][0] |= {"at_ns": math.nan, "read_ns": 107e6}
    (stream,) = streams(calls)
    assert stream.first_token_ms == pytest.approx(107)


def plain(calls, sizes, *, gap=20.0):
    row = calls.connection(encrypted=False)
    last = 100 + gap * (len(sizes) - 1)
    calls.call(row, 0, 100.0, source="sockets", ended_at=last)
    for index, size in enumerate(sizes):
        calls.rows["bursts"].append(testing.burst(row, "receive", 100 + gap * index, size))


@pytest.mark.parametrize(
    ("sizes", "gap", "count"),
    [([100] * 10, 20.0, 1), ([100] * 4, 20.0, 0), ([9000] * 10, 20.0, 0), ([100] * 10, 2.0, 0)],
)
def test_plain_reads_are_a_stream_only_where_they_look_like_one(calls, sizes, gap, count):
    plain(calls, sizes, gap=gap)
    assert len(streams(calls)) == count


def test_times_in_which_data_lay_unread_are_joined(calls):
    row = calls.connection()
    calls.stream(row, 0, [20.0] * 9)
    for burst, read in zip(calls.rows["bursts"], (100, 400, 410, 420, 180, 200, 220, 240, 260, 280), strict=True):
        burst |= {"began_ns": read * 1e6, "ended_ns": read * 1e6}
    (stream,) = streams(calls)
    (lag,) = stream.lags
    assert (lag.from_ns / 1e6, lag.to_ns / 1e6) == (120, 420)


def test_an_answer_that_is_no_stream_has_no_pieces(calls):
    calls.call(calls.connection(), 0, 100.0)
    assert streams(calls) == ()
