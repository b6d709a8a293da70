# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.findings import Severity


def side_by_side(calls, offers, *, at=0.0):
    for offer in offers:
        row = calls.connection(opened_at=0.0, outcome="established")
        calls.call(row, at, 100.0, source="records")
        calls.rows["handshakes"].append(
            {"connection": row, "outcome": "completed", "alpn_offered": offer, "version": "TLSv1.3", "resumed": None}
        )


@pytest.mark.parametrize("offer", [["http/1.1"], []])
def test_connections_side_by_side_without_an_offer_of_h2(calls, offer):
    side_by_side(calls, [offer] * 3)
    finding = calls.only("http2.not-negotiated")
    assert (finding.severity, finding.count) == (Severity.INFO, 3)


@pytest.mark.parametrize("offers", [[["h2", "http/1.1"]] * 3, [["http/1.1"]], [None, None], [["http/1.1"], None]])
def test_an_offer_one_connection_or_an_unknown_offer_says_nothing(calls, offers):
    side_by_side(calls, offers)
    assert calls.codes() == []


def test_connections_one_after_the_other_need_no_h2(calls):
    side_by_side(calls, [["http/1.1"]])
    side_by_side(calls, [["http/1.1"]], at=500.0)
    assert calls.codes() == []


def waves(calls, *, limit, count, rest=2.0, wait=300.0, row=None, apart=0.2, **columns):
    row = calls.connection() if row is None else row
    for index in range(count):
        wave = index // limit
        at = wave * (wait + rest) + (index % limit) * apart
        calls.call(row, at, wait, protocol="h2", stream_id=float(2 * index + 1), **columns)


def test_streams_that_go_in_waves(calls):
    waves(calls, limit=4, count=20)
    finding = calls.only("http2.stream-limit")
    assert finding.learned is not None
    assert (finding.learned.value, finding.count) == (4, 16)


def test_waves_as_the_settings_of_the_server_allow(calls):
    waves(calls, limit=4, count=20, concurrent=4.0)
    assert calls.only("http2.stream-limit").confidence == 0.9


def test_waves_of_a_program_that_stays_below_what_the_server_allows(calls):
    waves(calls, limit=4, count=20, concurrent=100.0)
    assert calls.codes() == []


def test_waves_of_a_program_that_shares_its_processor(calls):
    waves(calls, limit=4, count=20, wait=150.0, rest=18.0, apart=7.0)
    assert calls.only("http2.stream-limit").count == 16


def test_calls_that_come_one_by_one_are_healthy(calls):
    row = calls.connection()
    for index in range(40):
        calls.call(row, index * 20.0, 150.0, protocol="h2", stream_id=float(2 * index + 1))
    assert "http2.stream-limit" not in calls.codes()


@pytest.mark.parametrize("shape", [{"limit": 20, "count": 20}, {"limit": 4, "count": 20, "rest": 80.0}])
def test_a_single_wave_and_waves_with_rests_are_healthy(calls, shape):
    waves(calls, **shape)
    assert "http2.stream-limit" not in calls.codes()


def goaway(calls, *counts):
    for number, count in enumerate(counts):
        at = number * 10_000.0
        row = calls.connection(closed_by="remote", close="fin", closing_at=at + count * 200.0, outcome="established")
        for index in range(count):
            last = index == count - 1
            gone = {"complete": False, "status": float("nan")} if last else {}
            calls.call(row, at + index * 200.0, 50.0, protocol="h2", stream_id=float(2 * index + 1), **gone)


def test_the_kth_request_is_lost_each_time(calls):
    goaway(calls, 3, 3, 3)
    finding = next(f for f in calls.findings() if f.code == "http2.goaway-lost")
    assert finding.learned is not None
    assert (finding.learned.value, finding.count, finding.confidence) == (3, 3, 0.85)
    assert finding.severity in (Severity.WARNING, Severity.CRITICAL)


def test_lost_after_different_counts_has_no_number(calls):
    goaway(calls, 3, 5)
    finding = next(f for f in calls.findings() if f.code == "http2.goaway-lost")
    assert (finding.learned, finding.confidence) == (None, 0.6)


def test_connections_that_end_after_their_answers_lose_nothing(calls):
    row = calls.connection(closed_by="remote", close="fin", closing_at=700.0)
    for index in range(3):
        calls.call(row, index * 200.0, 50.0, protocol="h2")
    assert "http2.goaway-lost" not in calls.codes()


STALLED = [20.0] * 20 + [900.0] + [20.0] * 20


def test_streams_that_stall_together_for_one_loss(calls):
    row = calls.connection()
    for number in (1, 3, 5):
        calls.stream(row, 0.0, STALLED, protocol="h2", stream_id=float(number))
    calls.rows["retransmits"].append({"connection": row, "at_ns": 900e6, "bytes": 40.0})
    finding = calls.only("http2.head-of-line")
    assert (finding.count, finding.of) == (3, 3)
    assert "stream.network-stall" in {line.id for line in finding.evidence}


def test_streams_of_two_connections_that_stall_are_no_head_of_line(calls):
    for _ in range(2):
        row = calls.connection()
        calls.stream(row, 0.0, STALLED, protocol="h2", stream_id=1.0)
        calls.rows["retransmits"].append({"connection": row, "at_ns": 900e6, "bytes": 40.0})
    assert calls.codes() == ["stream.network-stall"]


def test_streams_that_their_server_stops_together_are_no_head_of_line(calls):
    row = calls.connection()
    for number in (1, 3):
        calls.stream(row, 0.0, STALLED, protocol="h2", stream_id=float(number))
    assert calls.codes() == ["stream.server-stall"]
