# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.findings import Severity


def repeated(calls, count, wait, **columns):
    row = calls.connection()
    for index in range(count):
        calls.call(row, index * 10_000.0, wait, **columns)
    return row


@pytest.mark.parametrize(("source", "sure"), [("plaintext", 0.9), ("records", 0.8), ("sockets", 0.8)])
def test_a_server_that_takes_long(calls, source, sure):
    repeated(calls, 5, 900.0, source=source)
    finding = calls.only("http.slow-server")
    assert (finding.severity, finding.confidence) == (Severity.CRITICAL, sure)
    assert (finding.count, finding.of, finding.cost_ms) == (5, 5, pytest.approx(2000))
    assert finding.title.startswith("2.0 of 4.5 s (44 %)")
    assert finding.what_if == "time a call p50 900 → 500 ms, p95 900 → 500 ms (an estimate from this run's parts)"


def test_one_slow_call_is_a_remark(calls):
    repeated(calls, 1, 9000.0)
    assert calls.only("http.slow-server").severity is Severity.INFO


@pytest.mark.parametrize("waits", [[5000.0] * 6, [30_000.0, 7000.0, 30_010.0, 30_004.0]])
def test_calls_that_wait_for_news_are_a_remark(calls, waits):
    row = calls.connection()
    for index, wait in enumerate(waits):
        calls.call(row, index * 40_000.0, wait, method="GET", path="/news")
    finding = calls.only("http.slow-server")
    assert (finding.severity, finding.confidence) == (Severity.INFO, 0.5)


@pytest.mark.parametrize(("method", "waits"), [("POST", [5000.0] * 6), ("GET", [900.0] * 6), ("GET", [5e3, 6e3, 9e3])])
def test_calls_that_wait_for_no_timer_are_slow(calls, method, waits):
    row = calls.connection()
    for index, wait in enumerate(waits):
        calls.call(row, index * 40_000.0, wait, method=method)
    assert calls.only("http.slow-server").severity is Severity.CRITICAL


def test_the_limit_is_the_users(calls):
    repeated(calls, 5, 450.0)
    assert calls.findings() == []
    assert [finding.code for finding in calls.findings(slow_ms=200.0)] == ["http.slow-server"]


def test_a_few_slow_calls_among_many_are_no_slow_server(calls):
    row = repeated(calls, 20, 50.0)
    for index in range(3):
        calls.call(row, 300_000.0 + index * 5000.0, 1500.0)
    assert calls.codes() == []


def test_a_slow_path_beside_fast_ones_is_named(calls):
    row = repeated(calls, 20, 50.0)
    for index in range(3):
        calls.call(row, 300_000.0 + index * 5000.0, 1500.0, path="/v1/slow")
    finding = calls.only("http.slow-server")
    assert (finding.count, finding.of) == (3, 3)
    assert "/v1/slow" in finding.title


def test_far_away_is_not_slow(calls):
    row = calls.connection(rtt_ms=200.0, min_rtt_ms=200.0)
    for index in range(5):
        calls.call(row, index * 5000.0, 600.0)
    assert "http.slow-server" not in calls.codes()


@pytest.mark.parametrize(("said", "cause"), [(880.0, "server-says-so"), (40.0, "before-the-server")])
def test_the_servers_own_word_stands_beside_it(calls, said, cause):
    repeated(calls, 5, 900.0, server_reported_ms=said)
    finding = calls.only("http.slow-server")
    assert finding.cause == cause
    assert f"{said:.0f} ms" in finding.evidence[0].note


def test_a_call_that_was_sent_again_waited_for_the_network(calls):
    row = repeated(calls, 5, 900.0)
    for index in range(5):
        calls.rows["retransmits"].append({"connection": row, "at_ns": (index * 10_000 + 800) * 1e6, "bytes": 100.0})
    assert "http.slow-server" not in calls.codes()


# --- gateways ---------------------------------------------------------------------------------------------------------


def test_gateway_timeouts_show_the_time(calls):
    row = repeated(calls, 6, 50.0)
    for index in range(3):
        calls.call(row, 100_000.0 + index * 10_000, 2008.0 + index, status=504.0)
    finding = calls.only("http.gateway-timeout")
    assert finding.learned is not None
    assert finding.learned.value == pytest.approx(2.009, abs=0.001)
    assert (finding.count, finding.of, finding.confidence, finding.cause) == (3, 9, 0.95, "status")


def test_one_gateway_timeout_is_enough_to_be_said(calls):
    row = repeated(calls, 6, 50.0)
    calls.call(row, 100_000.0, 60_010.0, status=504.0)
    assert calls.only("http.gateway-timeout").confidence == 0.8


def test_errors_of_other_kinds_after_one_time_are_a_gateways(calls):
    row = repeated(calls, 20, 50.0)
    for index in range(3):
        calls.call(row, 300_000.0 + index * 40_000, 30_005.0, status=502.0)
    assert calls.codes() == ["http.gateway-timeout"]


def test_errors_at_once_are_errors(calls):
    row = repeated(calls, 20, 50.0)
    for index in range(3):
        calls.call(row, 300_000.0 + index * 1000, 20.0, status=502.0)
    assert calls.codes() == ["http.errors"]


def cut(calls, *ends):
    for index, end in enumerate(ends):
        at = index * 30_000.0
        row = calls.connection(closed_by="remote", close="fin", closing_at=at + end, outcome="established")
        nothing = {"first_byte_ns": None, "ended_ns": None, "wait_ms": None, "total_ms": None, "status": None}
        values = {name: float("nan") for name in nothing}
        calls.call(row, at, 0.0, **values, source="records")


def test_connections_cut_after_one_time_without_an_answer(calls):
    cut(calls, 15_001.0, 15_020.0, 15_004.0)
    finding = next(f for f in calls.findings() if f.code == "http.gateway-timeout")
    assert (finding.cause, finding.confidence) == ("cut", 0.6)
    assert finding.learned is not None
    assert finding.learned.value == pytest.approx(15.0, abs=0.02)


def test_connections_cut_after_different_times_have_no_timeout(calls):
    cut(calls, 9_001.0, 15_020.0, 21_004.0)
    assert "http.gateway-timeout" not in calls.codes()


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statuses", "severity"),
    [
        ([200] * 19 + [500], Severity.INFO),
        ([200] * 2 + [404], Severity.INFO),
        ([200] * 10 + [500] * 3, Severity.WARNING),
        ([500] * 6, Severity.CRITICAL),
    ],
)
def test_errors_are_said_as_loud_as_they_are_many(calls, statuses, severity):
    row = calls.connection()
    for index, status in enumerate(statuses):
        calls.call(row, index * 100.0, status=float(status))
    finding = calls.only("http.errors")
    assert (finding.severity, finding.of) == (severity, len(statuses))


@pytest.mark.parametrize(
    ("method", "statuses", "loud"),
    [
        ("HEAD", [404] * 6, False),
        ("GET", [404, 200] * 4, False),
        ("GET", [404] * 6, True),
        ("POST", [404, 200] * 4, True),
        ("GET", [500, 200] * 4, True),
        ("POST", [401, 200] * 4, False),
        ("GET", [401] * 6, True),
    ],
)
def test_answers_that_a_program_asks_for_are_a_remark(calls, method, statuses, loud):
    row = calls.connection()
    for index, status in enumerate(statuses):
        calls.call(row, index * 100.0, status=float(status), method=method)
    finding = calls.only("http.errors")
    assert (finding.severity is not Severity.INFO) is loud
    assert ("asks for" in finding.evidence[0].note) is not loud


def test_too_many_requests_and_redirects_are_no_errors(calls):
    row = calls.connection()
    for index, status in enumerate([200, 429, 301, 304, 200, 429, 429, 429]):
        calls.call(row, index * 100.0, status=float(status))
    assert "http.errors" not in calls.codes()


def test_attempts_that_were_made_again_count_once(calls):
    row = calls.connection()
    for index in range(4):
        failed = calls.call(row, index * 1000.0, status=500.0)
        calls.rows["requests"][failed]["id"] = f"x{index}"
        calls.call(row, index * 1000.0 + 150, retry_of=f"x{index}", attempt=2.0)
    assert "http.errors" not in calls.codes()


def test_calls_at_the_programs_own_beat_repeat_nothing(calls):
    row = calls.connection()
    for index in range(10):
        ident = {"retry_of": f"x{index - 1}", "attempt": 2.0} if index % 2 else {}
        made = calls.call(row, index * 350.0, status=200.0 if index % 2 else 500.0, **ident)
        calls.rows["requests"][made]["id"] = f"x{index}"
    found = {finding.code: finding for finding in calls.findings()}
    assert (found["http.errors"].count, found["http.errors"].of) == (5, 10)
    assert found["http.errors"].severity is not Severity.INFO
    assert "retry.attempts" not in found


def test_errors_of_calls_that_never_succeed_are_all_counted(calls):
    row = calls.connection()
    for index in range(6):
        ident = {"retry_of": f"x{index - 1}", "attempt": index + 1.0} if index else {}
        made = calls.call(row, index * 550.0, status=500.0, **ident)
        calls.rows["requests"][made]["id"] = f"x{index}"
    first, *rest = calls.findings()
    assert (first.code, first.count, first.of) == ("http.errors", 6, 6)
    (doubted,) = [one for one in rest if one.code == "retry.attempts"]
    assert (doubted.severity, doubted.confidence) == (Severity.WARNING, 0.5)


def test_errors_in_a_storm_are_a_remark(calls):
    row = calls.connection()
    for index in range(8):
        ident = {"retry_of": f"x{index - 1}", "attempt": index + 1.0} if index else {}
        made = calls.call(row, index * 52.0, status=500.0, **ident)
        calls.rows["requests"][made]["id"] = f"x{index}"
    found = {finding.code: finding for finding in calls.findings()}
    assert "retry.storm" in found
    assert (found["http.errors"].severity, found["http.errors"].count) == (Severity.INFO, 8)


def test_unknown_statuses_say_nothing(calls):
    repeated(calls, 5, 50.0, status=float("nan"), source="records")
    assert calls.codes() == []
