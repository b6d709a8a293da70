# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag import testing

RECORDS = [16_410] * 3 + [16_400]
"""A window of 65,535 bytes: four DATA frames with their headers, each in a record of TLS 1.3."""


def download(calls, *, runs, pause, sizes=None, update=17 + 26):
    row = calls.connection(bytes_received=1e6, outcome="established", rtt_ms=40.0, min_rtt_ms=40.0)
    at = 0.0
    for _ in range(runs):
        for size in sizes or RECORDS:
            calls.rows["records"].append(testing.record(row, "receive", at, size))
            at += 0.1
        calls.rows["records"].append(testing.record(row, "send", at, update))
        at += pause
    calls.rows["records"].append(testing.record(row, "receive", at, 1000))


def test_data_that_stops_at_the_window(calls):
    download(calls, runs=6, pause=40.0)
    finding = calls.only("http2.flow-control")
    assert finding.learned is not None
    assert finding.learned.value == pytest.approx(65_535, abs=60)
    assert (finding.count, finding.cause, finding.confidence) == (6, "answers", 0.6)
    assert finding.cost_ms == pytest.approx(6 * 40, rel=0.02)


@pytest.mark.parametrize(
    "other",
    [
        {"runs": 6, "pause": 1.0},
        {"runs": 2, "pause": 40.0},
        {"runs": 6, "pause": 40.0, "sizes": [16_410] * 6},
        {"runs": 6, "pause": 300.0},
        {"runs": 6, "pause": 40.0, "update": 900},
    ],
)
def test_other_pauses_are_no_window(calls, other):
    download(calls, **other)
    assert "http2.flow-control" not in calls.codes()


def test_updates_at_half_a_window_stop_data_as_well(calls):
    download(calls, runs=8, pause=45.0, sizes=[16_410, 16_410, 4_100])
    finding = calls.only("http2.flow-control")
    assert finding.learned is not None
    assert finding.learned.value == pytest.approx(36_869, abs=60)


def test_a_congestion_window_that_opens_is_none(calls):
    for step in (14_000, 28_000, 52_000):
        download(calls, runs=1, pause=40.0, sizes=[step // 2] * 2)
    assert "http2.flow-control" not in calls.codes()


def test_frames_that_say_so(calls):
    row = calls.connection()
    for index in range(4):
        calls.call(row, index * 1000.0, 50.0, protocol="h2", blocked_ms=120.0, receive_ms=300.0, total_ms=350.0)
    finding = calls.only("http2.flow-control")
    assert (finding.cost_ms, finding.confidence) == (pytest.approx(480), 0.9)
