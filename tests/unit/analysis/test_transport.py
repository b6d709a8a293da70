# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.analysis import examine
from netdiag.findings import Severity


def test_far_server_with_many_set_ups_is_said_aloud(stage):
    for at in (0, 100, 200):
        stage.connection(at, [0], rtt_ms=120.0, min_rtt_ms=120.0, context=150)
    finding = stage.only("tcp.far-server")
    assert finding.severity is not Severity.INFO
    assert "120 ms" in finding.title


def test_a_session_with_a_far_server_is_a_remark(stage):
    stage.connection(0, [0] + [50] * 7, rtt_ms=120.0, min_rtt_ms=120.0)
    assert stage.only("tcp.far-server").severity is Severity.INFO


def test_near_servers_are_not_far(stage):
    stage.connection(0, [0, 50], rtt_ms=70.0)
    assert stage.codes() == []


def test_set_up_that_another_cause_makes_is_that_ones_cost(stage):
    at = 0.0
    for _ in range(4):
        at = stage.end_of(stage.connection(at, closed_by="local", rtt_ms=120.0, min_rtt_ms=120.0)) + 50
    finding = stage.only("reuse.client-per-call")
    assert "tcp.far-server" in {line.id for line in finding.evidence}


def lossy(stage, calls):
    row = stage.connection(0, [0] + [10] * (calls - 1), wait=400)
    requests = [turn for turn in stage.turns if turn["connection"] == row][1:]
    for turn in requests:
        stage.retransmits.append({"connection": row, "at_ns": turn["sent_ns"] + 200e6, "bytes": 400.0})


def test_retransmits(stage):
    lossy(stage, 4)
    finding = stage.only("tcp.retransmits")
    assert (finding.count, finding.cost_ms) == (4, pytest.approx(800.0))


def test_probes_that_delayed_nothing_cost_nothing(stage):
    row = stage.connection(0, [0] + [10] * 9, wait=40)
    for turn in [turn for turn in stage.turns if turn["connection"] == row][1:6]:
        stage.retransmits.append({"connection": row, "at_ns": turn["sent_ns"] + 7e6, "bytes": 400.0})
    assert stage.codes() == []


@pytest.mark.parametrize(("rtt", "codes"), [(0.05, []), (20.0, ["tcp.retransmits"])])
def test_a_busy_processor_is_no_lossy_path(stage, rtt, codes):
    row = stage.connection(0, [0] + [100] * 9, wait=40, rtt_ms=rtt)
    for turn in [turn for turn in stage.turns if turn["connection"] == row][1:4]:
        late = turn["sent_ns"] + 60e6
        stage.retransmits.append({"connection": row, "at_ns": turn["sent_ns"] + 10e6, "bytes": 400.0})
        turn |= {"first_byte_ns": late, "last_byte_ns": late}
    assert stage.codes() == codes


def test_retransmissions_cost_what_the_others_did_not_wait(stage):
    lossy(stage, 4)
    stage.connection(3000, [0, 10, 10], wait=300)
    assert stage.only("tcp.retransmits").cost_ms == pytest.approx(400.0)


def test_one_retransmission_is_chance(stage):
    lossy(stage, 1)
    assert stage.codes() == []


@pytest.mark.parametrize(
    ("column", "cause"), [("zero_window_ms", "program-reads-late"), ("peer_window_ms", "server-reads-late")]
)
def test_shut_windows(stage, column, cause):
    stage.connection(0, wait=2000, **{column: 900.0})
    finding = stage.only("tcp.zero-window")
    assert (finding.cause, finding.cost_ms) == (cause, 900.0)


@pytest.mark.parametrize(("sent", "found"), [(12e6, []), (1e6, ["tcp.zero-window"])])
def test_a_fast_upload_that_the_server_limits_is_healthy(stage, sent, found):
    stage.connection(0, wait=2000, peer_window_ms=212.0, bytes_sent=sent)
    assert stage.codes() == found


def test_a_window_that_was_shut_for_a_moment_is_healthy(stage):
    stage.connection(0, wait=2000, zero_window_ms=60.0)
    assert stage.codes() == []


def held(stage, slow, fast, sent_calls=2.0):
    row = stage.connection(0, ())
    at = 100.0
    for wait in [*[2.0] * fast, *[41.0] * slow]:
        stage._turn(row, at, at + wait, 400, 700, sent_calls=sent_calls)
        at += wait + 20


def test_nagle(stage):
    held(stage, slow=12, fast=3)
    finding = stage.only("tcp.nagle")
    assert finding.count == 12
    assert finding.cost_ms == pytest.approx(12 * 39, rel=0.1)


@pytest.mark.parametrize("base", [2.0, 12.0])
def test_nagle_on_top_of_a_servers_own_time(stage, base):
    row = stage.connection(0, (), rtt_ms=17.0, min_rtt_ms=0.1)
    at = 100.0
    for wait in [base + 5, *[base + 41.0] * 30]:
        stage._turn(row, at, at + wait, 400, 700, sent_calls=2.0)
        at += wait + 20
    assert stage.codes() == ["tcp.nagle"]


def test_some_calls_that_need_longer_than_the_first_are_not_nagle(stage):
    held(stage, slow=6, fast=1)
    assert stage.codes() == []


def test_a_server_that_always_needs_40_ms_is_not_nagle(stage):
    held(stage, slow=15, fast=0)
    assert stage.codes() == []


def test_requests_in_one_call_do_not_wait_for_acknowledgements(stage):
    held(stage, slow=12, fast=3, sent_calls=1.0)
    assert stage.codes() == []


def mended(stage, late, *, by="remote", rtt=20.0, answer=60.0, calls=1):
    """Play answers of which the server sends segments again, `late` ms after the last of its data."""
    row = stage.connection(0, [0] + [1500] * (calls - 1), rtt_ms=rtt, min_rtt_ms=rtt)
    for turn in [turn for turn in stage.turns if turn["connection"] == row][1:]:
        turn["last_byte_ns"] = turn["first_byte_ns"] + answer * 1e6
        for ended in (turn["first_byte_ns"], turn["last_byte_ns"]):
            stage.bursts.append(
                {"connection": row, "direction": "receive", "began_ns": ended, "ended_ns": ended, "close_notify": False}
            )
        for ms in late:
            at = turn["last_byte_ns"] + ms * 1e6
            stage.retransmits.append({"connection": row, "at_ns": at, "bytes": 1400.0, "by": by})


def test_loss_inside_an_answer_delays_it(stage):
    mended(stage, (-30.0, 40.0, 45.0))
    finding = stage.only("tcp.retransmits")
    assert (finding.count, finding.cost_ms) == (3, pytest.approx(75.0))  # 30 in the middle, 45 behind the end


@pytest.mark.parametrize(
    ("late", "options"),
    [
        ((40.0, 45.0), {"by": "local"}),  # the client sends again what has nothing to do with the answer
        ((40.0,), {}),  # one is chance
        ((0.4, 0.8, 1.2), {}),  # no time was lost
        ((40.0, 45.0), {"rtt": 0.05}),  # a busy processor
        ((1200.0, 1205.0), {}),  # long after the answer
    ],
)
def test_what_is_sent_again_and_delays_no_answer_is_silent(stage, late, options):
    mended(stage, late, **options)
    assert stage.codes() == []


def test_what_was_sent_again_counts_for_its_own_answer_alone(stage):
    mended(stage, (30.0, 31.0), calls=3)
    finding = stage.only("tcp.retransmits")
    assert (finding.count, finding.cost_ms) == (6, pytest.approx(93.0))


def test_what_was_sent_again_where_nothing_was_asked(stage):
    """A capture that begins in the middle of an answer."""
    row = stage.connection(0, [], tls=False, rtt_ms=20.0)
    for at in (1e6, 2e6, 90e6):
        stage.retransmits.append({"connection": row, "at_ns": at, "bytes": 1400.0, "by": "remote"})
    report = examine(stage.tables())
    assert (report.findings, report.failures) == ((), ())
