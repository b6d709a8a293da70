# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag import testing
from netdiag.findings import Severity


def expecting(calls, gap, *, count=3, head=200, body=1_500_000, heard=False, records=False):
    row = calls.connection()
    for index in range(count):
        at = index * 5000.0
        calls.call(row, at, 50.0, send=gap, request_bytes=float(head + body))
        sends = [(at, head), (at + gap, body)]
        for when, size in sends:
            if records:
                calls.rows["records"].append(testing.record(row, "send", when, size))
            else:
                calls.rows["bursts"].append(testing.burst(row, "send", when, size))
        if heard:
            calls.rows["bursts"].append(testing.burst(row, "receive", at + gap - 5, 25))


@pytest.mark.parametrize("records", [False, True])
@pytest.mark.parametrize(("gap", "seconds"), [(1003.0, 1.003), (352.0, 0.352)])
def test_a_wait_for_a_word_that_never_comes(calls, gap, seconds, records):
    expecting(calls, gap, records=records)
    finding = calls.only("http.expect-continue")
    assert finding.learned is not None
    assert finding.learned.value == pytest.approx(seconds)
    assert finding.cost_ms == pytest.approx(3 * gap)
    assert finding.severity is Severity.CRITICAL
    assert finding.what_if is not None


def test_once_is_a_remark(calls):
    expecting(calls, 1003.0, count=1)
    assert calls.only("http.expect-continue").severity is Severity.INFO


@pytest.mark.parametrize(
    "other", [{"gap": 1003.0, "heard": True}, {"gap": 700.0}, {"gap": 1003.0, "head": 60_000}, {"gap": 200.0}]
)
def test_other_pauses_are_no_wait_for_continue(calls, other):
    expecting(calls, **other)
    assert "http.expect-continue" not in calls.codes()


def test_large_requests_over_a_fast_line_are_a_remark(calls):
    uploads(calls, 800.0, 20_000_000)
    finding = calls.only("http.slow-upload")
    assert (finding.severity, finding.cause) == (Severity.INFO, "path")
    assert "the line is not slow" in finding.evidence[0].note


def test_a_request_that_goes_on_while_its_answer_comes_is_no_upload(calls):
    row = calls.connection()
    for index in range(4):
        at = index * 10_000.0
        calls.call(row, at, 50.0, send=5000.0, request_bytes=3000.0, first_byte_ns=(at + 100) * 1e6, wait_ms=0.0)
    assert "http.slow-upload" not in calls.codes()


def uploads(calls, send, size, *, count=4, **columns):
    row = calls.connection(**columns)
    for index in range(count):
        calls.call(row, index * 10_000.0, 50.0, send=send, request_bytes=float(size))


@pytest.mark.parametrize(
    ("size", "columns", "cause"),
    [
        (1_270_000, {}, "path"),
        (1_270_000, {"peer_window_ms": 3000.0, "outcome": "established"}, "server-reads-late"),
        (20_000, {}, "program-writes-slowly"),
    ],
)
def test_a_slow_upload_and_who_makes_it_slow(calls, size, columns, cause):
    uploads(calls, 1000.0, size, **columns)
    codes = calls.codes()
    if cause == "server-reads-late":  # the shut window is the cause, the upload its evidence
        assert codes == ["tcp.zero-window"]
        return
    finding = calls.only("http.slow-upload")
    assert (finding.cause, finding.count, finding.cost_ms) == (cause, 4, pytest.approx(4000))
    assert finding.learned is not None
    assert finding.learned.value == pytest.approx(size / 1000)


def test_a_quick_upload_is_healthy(calls):
    uploads(calls, 150.0, 1_270_000)
    assert calls.codes() == []


def test_two_slow_uploads_are_a_remark(calls):
    uploads(calls, 1000.0, 1_270_000, count=2)
    assert calls.only("http.slow-upload").severity is Severity.INFO


JSON = {"content-type": "application/json"}


def test_large_bodies_to_a_server_that_takes_gzip(calls):
    row = calls.connection()
    calls.call(row, 0, request_bytes=50_000.0, request_headers=JSON | {"content-encoding": "gzip"})
    for index in range(3):
        calls.call(row, 1000.0 + index * 1000, send=150.0, request_bytes=400_000.0, request_headers=JSON)
    finding = calls.only("http.uncompressed-upload")
    assert finding.cost_ms is None
    assert "gzip" in finding.title


@pytest.mark.parametrize(
    ("large", "taken"),
    [
        ({"request_bytes": 400_000.0, "request_headers": {"content-type": "image/png"}}, True),
        ({"request_bytes": 400_000.0}, True),
        ({"request_bytes": 40_000.0, "request_headers": JSON}, True),
        ({"request_bytes": 400_000.0, "request_headers": JSON}, False),
    ],
)
def test_small_or_compressed_bodies_and_servers_of_unknown_taste_are_no_matter(calls, large, taken):
    row = calls.connection()
    calls.call(row, 0, request_bytes=5000.0, request_headers=JSON | ({"content-encoding": "gzip"} if taken else {}))
    for index in range(3):
        calls.call(row, 1000.0 + index * 1000, send=150.0, **large)
    assert calls.codes() == []
