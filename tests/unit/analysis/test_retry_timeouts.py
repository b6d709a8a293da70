# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pytest

from netdiag.findings import Severity

from .conftest import Stage

NAN = math.nan


def of(stage, code):
    return next((finding for finding in stage.findings() if finding.code == code), None)


def given_up(stage, at, waited, **columns):
    """Play a connection whose only request gets no answer until the program closes after `waited` ms."""
    values = {"closed_by": "local", "idle": waited - 0.2, "tls": False, "requests": 1.0} | columns
    return stage.connection(at, [0.0], unanswered=True, **values)


def test_a_constant_time_without_an_answer(stage):
    for turn, waited in enumerate((500.0, 503.0, 501.0, 507.0)):
        given_up(stage, turn * 2000, waited)
    finding = of(stage, "retry.client-timeout")
    assert (finding.count, finding.learned.value) == (4, pytest.approx(0.502, abs=0.005))
    assert finding.severity in (Severity.WARNING, Severity.CRITICAL)
    assert finding.cost_ms == pytest.approx(2011, abs=2)


@pytest.mark.parametrize("waits", [(500.0, 501.0), (200.0, 500.0, 900.0, 1500.0)], ids=["twice", "all unlike"])
def test_what_is_no_timer(stage, waits):
    for turn, waited in enumerate(waits):
        given_up(stage, turn * 3000, waited)
    assert of(stage, "retry.client-timeout") is None


def test_calls_that_the_server_ended_are_no_client_timeouts(stage):
    for turn in range(4):
        stage.connection(turn * 2000, [0.0], unanswered=True, closed_by="remote", idle=500.0, tls=False, requests=1.0)
    assert of(stage, "retry.client-timeout") is None


def test_the_end_of_the_program_is_no_timeout(stage):
    stage.process(1, ended_ns=500.5e6)
    for _ in range(4):
        given_up(stage, 0, 500.0)
    assert of(stage, "retry.client-timeout") is None


def test_attempts_to_connect_that_are_given_up_in_step(stage):
    for turn in range(3):
        stage.failed(turn * 3000, "cancelled", ended_ns=(turn * 3000 + 2000) * 1e6, syn_retransmits=1.0)
    finding = of(stage, "retry.connect-timeout")
    assert (finding.severity, finding.learned.value) == (Severity.INFO, pytest.approx(2.0))
    assert stage.loud()[0] == "tcp.connect-timeout"


def test_silence_for_minutes(stage):
    row = stage.connection(0, [0.0], wait=150_000.0, tls=False)
    turn = stage.turns[-1]
    stage.span_ms = 200_000.0
    stage.requests.append(
        {
            "id": "r1", "connection": row, "source": "records", "began_ns": turn["began_ns"],
            "sent_ns": turn["sent_ns"], "first_byte_ns": turn["first_byte_ns"], "ended_ns": turn["last_byte_ns"],
            "started_ns": turn["began_ns"], "wait_ms": 150_000.0, "total_ms": 150_000.0, "sequence": 1,
        }
    )  # fmt: skip
    assert of(stage, "retry.no-deadline").learned.value == pytest.approx(150, abs=0.1)
    stage.requests[0] |= {"first_byte_ns": turn["sent_ns"] + 100e9, "wait_ms": 100_000.0}
    assert of(stage, "retry.no-deadline") is None


def hedge(stage, at, delay, *, both=True):
    for start, took in ((at, 400.0), (at + delay, 300.0)):
        row = stage.connection(start, [0.0], wait=took, tls=False)
        turn = stage.turns[-1]
        stage.requests.append(
            {
                "id": f"r{len(stage.requests) + 1}", "connection": row, "source": "plaintext", "path": "/v1",
                "request_bytes": 400.0, "began_ns": turn["began_ns"], "sent_ns": turn["sent_ns"],
                "first_byte_ns": turn["first_byte_ns"], "ended_ns": turn["last_byte_ns"], "total_ms": took,
                "started_ns": turn["began_ns"], "wait_ms": took, "sequence": 1, "status": 200.0,
                "complete": True if both else None if start == at else False,
            }
        )  # fmt: skip


def test_two_requests_for_one_answer(stage):
    for turn in range(4):
        hedge(stage, turn * 3000, 100.0)
    finding = of(stage, "retry.hedge-uncancelled")
    assert (finding.count, finding.learned.value) == (4, pytest.approx(0.1, abs=0.005))


def test_the_delay_is_that_of_connections_that_were_there(stage: Stage) -> None:
    for turn, delay in enumerate((45.0, 160.0, 100.0, 101.0, 99.0, 102.0, 190.0)):
        hedge(stage, turn * 3000, delay)
        if turn >= 2:
            for request in stage.requests[-2:]:
                request["reused"] = True
    finding = of(stage, "retry.hedge-uncancelled")
    assert finding.learned.value == pytest.approx(0.1, abs=0.005)


def callers(calls, *, rest, tids):
    """Let two callers each make their own calls, 50 ms apart, with `rest` ms between the calls of one."""
    rows = [calls.connection() for _ in tids]
    for turn in range(10):
        for number, (row, tid) in enumerate(zip(rows, tids, strict=True)):
            calls.call(row, 100 + turn * (100 + rest) + 50 * number, 100.0, tid=tid, request_bytes=400.0)


@pytest.mark.parametrize("rest", [2.0, 900.0])
def test_callers_side_by_side_are_no_warning(calls, rest):
    callers(calls, rest=rest, tids=(1.0, 2.0))
    finding = calls.only("retry.hedge-uncancelled")
    assert (finding.severity, finding.confidence) == (Severity.INFO, 0.4)


def test_calls_of_many_threads_without_rest_are_no_warning(calls):
    rows = [calls.connection() for _ in range(2)]
    for turn in range(12):
        for number, row in enumerate(rows):
            calls.call(row, 100 + turn * 102 + 50 * number, 100.0, tid=float(1 + turn % 3), request_bytes=400.0)
    assert "retry.hedge-uncancelled" not in calls.loud()


@pytest.mark.parametrize("rest", [2.0, 900.0])
def test_pairs_of_one_thread_are_a_habit(calls, rest):
    callers(calls, rest=rest, tids=(1.0, 1.0))
    assert calls.only("retry.hedge-uncancelled").severity is Severity.WARNING


def test_a_loser_that_is_cancelled_and_delays_that_are_unlike(stage):
    for turn in range(4):
        hedge(stage, turn * 3000, 100.0, both=False)
    assert of(stage, "retry.hedge-uncancelled") is None
    stage.requests.clear()
    stage.connections.clear()
    stage.turns.clear()
    for turn in range(4):
        hedge(stage, turn * 3000, 50.0 + 60 * turn)
    assert of(stage, "retry.hedge-uncancelled") is None


def late(stage, at, *, length=2000, kind=23, after=50.0, **columns):
    """Play a call that the program gave up, each after another time, and a record that came later."""
    row = given_up(stage, at, 200.0 + at / 4, **columns)
    end = stage.connections[row]["closing_ns"]
    stage.records.append(
        {"connection": row, "at_ns": end + after * 1e6, "direction": "receive", "type": kind, "length": length}
    )
    return row


def test_a_server_that_works_on_for_nobody(stage):
    for turn in range(3):
        late(stage, turn * 2000)
    finding = of(stage, "retry.abandoned-work")
    assert (finding.count, finding.severity) == (3, Severity.WARNING)


@pytest.mark.parametrize(
    ("times", "columns"),
    [(2, {}), (4, {"length": 19}), (4, {"kind": 21, "length": 26}), (4, {"closed_by": "remote"}), (4, {"after": 15.0})],
    ids=["twice", "a closing alert", "an alert", "the server closed", "on the way already"],
)
def test_what_is_no_work_for_nobody(stage, times, columns):
    for turn in range(times):
        late(stage, turn * 2000, **columns)
    assert of(stage, "retry.abandoned-work") is None


def test_the_rest_of_nothing_after_a_whole_answer_is_no_work_for_nobody(stage):
    for turn in range(4):
        row = stage.connection(turn * 2000, [0.0], closed_by="local", tls=False, requests=1.0)
        end = stage.connections[row]["closing_ns"]
        stage.records.append({"connection": row, "at_ns": end + 1e6, "direction": "receive", "type": 23, "length": 500})
        call = stage.turns[-1]
        stage.requests.append(
            {
                "id": f"r{turn}", "connection": row, "source": "plaintext", "began_ns": call["began_ns"],
                "sent_ns": call["sent_ns"], "first_byte_ns": call["first_byte_ns"], "ended_ns": call["last_byte_ns"],
                "started_ns": call["began_ns"], "complete": True, "sequence": 1,
            }
        )  # fmt: skip
    assert of(stage, "retry.abandoned-work") is None
