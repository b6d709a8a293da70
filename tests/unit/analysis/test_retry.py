# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pytest

from netdiag.findings import Severity

NAN = math.nan


def call(stage, start, gaps, statuses, *, took=20.0, pid=1.0, row=None, **columns):
    """Play one logical call on a connection: its attempts with these statuses and the pauses between them (ms)."""
    if row is None:
        row = stage.connection(start - 1, [0.0], tls=False, pid=pid)
        del stage.turns[-1]
    now, before = start, None
    for number, status in enumerate(statuses):
        if number:
            now += gaps[number - 1]
        began, ended = now * 1e6, (now + took) * 1e6
        ident = f"r{len(stage.requests) + 1}"
        base = {
            "id": ident, "connection": row, "pid": pid, "tid": pid, "source": "plaintext", "method": "POST",
            "host": "api.test", "path": "/v1/chat", "status": status, "started_ns": began, "began_ns": began,
            "sent_ns": began, "first_byte_ns": ended, "ended_ns": ended, "total_ms": took, "wait_ms": took,
            "request_bytes": 400.0, "response_bytes": 300.0, "attempt": float(number + 1), "retry_of": before,
            "sequence": number + 1, "complete": True, "headers": {}, "request_headers": {},
        }  # fmt: skip
        stage.requests.append(base | columns)
        before = ident
        now += took
    return row


def of(stage, code):
    return next((finding for finding in stage.findings() if finding.code == code), None)


def test_attempts_and_their_price(stage):
    for turn in range(3):
        call(stage, turn * 5000, [500.0, 1000.0], [503.0, 500.0, 200.0])
    finding = of(stage, "retry.attempts")
    assert (finding.count, finding.of) == (6, 9)
    assert finding.cost_ms == pytest.approx(3 * (20 + 500 + 20 + 1000))
    assert (finding.learned.name, finding.learned.value) == ("first_pause", pytest.approx(0.5))
    assert "pauses of 500 ms, then 1.0 s (× 2.0)" in finding.evidence[0].note
    assert "9 attempts for 3 calls (× 3)" in finding.evidence[0].note
    assert finding.title.startswith("3 calls needed more than one attempt (3 × 503, 3 × 500)")
    assert of(stage, "http.errors") is None


def test_calls_that_succeed_at_once_say_nothing(stage):
    for turn in range(5):
        call(stage, turn * 1000, [], [200.0])
    assert not [code for code in stage.codes() if code.startswith(("retry.", "http."))]


@pytest.mark.parametrize(
    ("gaps", "count", "severity"),
    [([200.0] * 3, 3, Severity.WARNING), ([200.0, 2000.0, 2010.0], 1, Severity.INFO)],
)
def test_retry_after_that_is_not_waited_for(stage, gaps, count, severity):
    call(stage, 0, gaps, [429.0, 429.0, 429.0, 200.0], headers={"retry-after": "2"})
    finding = of(stage, "retry.after-ignored")
    assert (finding.count, finding.of, finding.severity) == (count, 3, severity)
    assert "2.0 s" in finding.title


@pytest.mark.parametrize("gap", [2000.0, 1985.0, 5000.0], ids=["exact", "a timer is early", "longer"])
def test_retry_after_that_is_waited_for(stage, gap):
    call(stage, 0, [gap, gap], [429.0, 429.0, 200.0], headers={"retry-after": "2"})
    assert of(stage, "retry.after-ignored") is None
    assert "Retry-After is waited for" in of(stage, "retry.attempts").evidence[0].note


def test_a_date_in_retry_after_is_not_judged(stage):
    call(stage, 0, [10.0], [429.0, 200.0], headers={"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"})
    assert of(stage, "retry.after-ignored") is None


@pytest.mark.parametrize(("count", "severity"), [(1, Severity.INFO), (3, Severity.CRITICAL)])
def test_rate_limits(stage, count, severity):
    call(stage, 0, [1000.0] * count, [429.0] * count + [200.0])
    call(stage, 60_000, [], [200.0], took=2000.0 if count == 1 else 20.0)
    finding = of(stage, "http.rate-limited")
    assert (finding.count, finding.severity) == (count, severity)
    assert finding.cost_ms == pytest.approx(count * 1020)


def test_a_storm_without_pauses(stage):
    call(stage, 0, [1.0] * 7, [503.0] * 7 + [200.0])
    finding = of(stage, "retry.storm")
    assert (finding.cause, finding.count, finding.severity) == ("no-pause", 7, Severity.WARNING)
    assert finding.learned.value == 8
    assert of(stage, "retry.attempts") is None
    assert any(line.id == "retry.attempts" for line in finding.evidence)


def test_four_hasty_attempts_are_no_storm(stage):
    call(stage, 0, [1.0] * 4, [503.0] * 4 + [200.0])
    assert of(stage, "retry.storm") is None


def test_a_storm_that_grows_while_successes_fall(stage):
    for turn in range(4):
        call(stage, turn * 1000, [], [200.0])
    for turn in range(4, 8):
        call(stage, turn * 1000, [100.0], [503.0, 200.0])
    for turn in range(8, 12):
        call(stage, turn * 5000, [100.0] * 4, [503.0] * 5)
    assert of(stage, "retry.storm").cause == "growing"


def test_one_loop_inside_another(stage):
    for turn in range(3):
        call(stage, turn * 9000, [500.0, 900.0, 60.0, 500.0, 900.0], [503.0] * 5 + [200.0])
    finding = of(stage, "retry.storm")
    assert finding.cause == "nested"
    assert "after every 3 attempts" in finding.title


def test_pauses_that_grow_are_no_nested_loops(stage):
    for turn in range(3):
        call(stage, turn * 99_000, [500.0, 1000.0, 2000.0, 4000.0, 8000.0], [503.0] * 5 + [200.0])
    assert of(stage, "retry.storm") is None


def test_a_quota(stage):
    for turn in range(3):
        call(stage, turn * 9000, [500.0, 1000.0], [429.0] * 3)
    assert of(stage, "retry.quota").count == 9


def test_a_limit_that_lets_some_calls_pass_is_no_quota(stage):
    for turn in range(3):
        call(stage, turn * 9000, [500.0, 1000.0], [429.0] * 3)
    call(stage, 50_000, [], [200.0])
    assert of(stage, "retry.quota") is None


@pytest.mark.parametrize(("method", "said"), [("POST", True), ("GET", False)])
def test_a_request_that_is_sent_again_behind_a_partial_answer(stage, method, said):
    call(stage, 0, [100.0], [200.0, 200.0], method=method)
    stage.requests[0]["complete"] = False
    assert (of(stage, "retry.replayed") is not None) == said


def test_processes_in_step(stage):
    for pid in (1.0, 2.0, 3.0):
        call(stage, pid, [500.0], [503.0, 200.0], pid=pid)
    finding = of(stage, "retry.no-jitter")
    assert (finding.count, finding.severity) == (3, Severity.WARNING)
    assert "3 processes" in finding.title


def test_calls_of_one_process_in_step_are_a_remark(stage):
    for turn in range(4):
        call(stage, turn, [500.0], [503.0, 200.0])
    assert of(stage, "retry.no-jitter").severity is Severity.INFO


def test_pauses_with_jitter_are_not_in_step(stage):
    for pid, gap in ((1.0, 400.0), (2.0, 470.0), (3.0, 560.0)):
        call(stage, 0, [gap], [503.0, 200.0], pid=pid)
    assert of(stage, "retry.no-jitter") is None


def test_an_immediate_second_attempt_is_a_policy_and_no_storm(stage):
    for turn in range(9):
        call(stage, turn * 5000, [0.5, 100.0], [503.0, 503.0, 200.0])
    assert of(stage, "retry.storm") is None
    assert of(stage, "retry.attempts").count == 18


def test_one_failure_that_was_mended_is_a_remark(stage):
    call(stage, 0, [500.0], [503.0, 200.0])
    call(stage, 9000, [], [200.0])
    assert of(stage, "retry.attempts").severity is Severity.INFO
