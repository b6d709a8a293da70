# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random

import pytest

from netdiag.findings import Severity


def play(stage, times, gap=50.0, **options):
    at = 0.0
    for _ in range(times):
        at = stage.end_of(stage.connection(at, **options)) + gap


@pytest.fixture(params=[1, 2, 3])
def dice(request):
    return random.Random(request.param)


@pytest.mark.parametrize("tls", [True, False])
def test_client_per_call(stage, dice, tls):
    times = dice.randint(3, 12)
    stage.process(1, libraries=["requests"])
    play(stage, times, closed_by="local", idle=dice.uniform(0, 4), tls=tls)
    finding = stage.only("reuse.client-per-call")
    assert (finding.count, finding.of, finding.cause) == (times, times, "unknown")
    assert finding.severity is (Severity.CRITICAL if tls else Severity.WARNING)
    assert finding.advice[0].applies_to == "requests"


def test_a_close_long_after_the_answer_was_not_asked_for_by_it(stage):
    play(stage, 5, closed_by="local", idle=45)
    finding = stage.only("reuse.client-per-call")
    assert finding.cause is None
    assert finding.confidence >= 0.85


def test_two_calls_are_no_habit(stage):
    play(stage, 2, closed_by="local")
    assert stage.codes() == []


def test_two_hosts_once_each(stage):
    for port in (443.0, 8443.0):
        stage.connection(0, closed_by="local", remote_port=port)
    assert stage.codes() == []


def test_one_of_twenty(stage):
    stage.connection(0, closed_by="local")
    stage.connection(100, [0] + [50] * 18, closed_by="local")
    assert stage.codes() == []


def test_one_round_of_parallel_calls_shows_no_habit(stage):
    for at in range(6):
        stage.connection(at, closed_by="local")
    assert stage.codes() == []


def test_a_session_is_healthy(stage):
    stage.connection(0, [0] + [50] * 9, closed_by="local")
    assert stage.codes() == []


def test_an_extra_connection_is_healthy(stage):
    stage.connection(0, [0, 50])
    stage.connection(60, [0] + [50] * 7)
    assert stage.codes() == []


def test_attempts_side_by_side_are_healthy(stage):
    for at in range(0, 900, 300):
        stage.connection(at, ())
        stage.connection(at + 1, [0, 20, 20], closed_by="local", idle=200)
    assert stage.codes() == []


def test_client_per_thread(stage):
    at = 0.0
    for thread in range(10, 16):
        at = stage.end_of(stage.connection(at, closed_by="local", tid=float(thread))) + 50
    finding = stage.only("reuse.client-per-thread")
    assert finding.count == 6


def test_threads_that_make_several_connections_each_make_one_per_call(stage):
    at = 0.0
    for call in range(9):
        at = stage.end_of(stage.connection(at, closed_by="local", tid=float(10 + call % 3))) + 50
    stage.only("reuse.client-per-call")


def test_threads_prove_nothing_where_the_run_time_moves_connections(stage):
    stage.process(1, exe="/opt/app", libraries=["go"])
    at = 0.0
    for thread in range(10, 16):
        at = stage.end_of(stage.connection(at, closed_by="local", tid=float(thread))) + 50
    stage.only("reuse.client-per-call")


def test_a_connection_used_by_many_threads_is_shared(stage):
    at = 0.0
    for thread in range(10, 16):
        at = stage.end_of(stage.connection(at, closed_by="local", tid=float(thread), io_tids=2.0)) + 50
    stage.only("reuse.client-per-call")


def test_lazy_expiry(stage, dice):
    pause = dice.uniform(600, 9000)
    stage.process(1, libraries=["httpx"])
    play(stage, dice.randint(3, 7), closed_by="local", idle=pause, gap=0.4)
    finding = stage.only("reuse.client-idle-expiry")
    assert finding.cause == "lazy"
    assert finding.learned is not None
    assert finding.learned.high == pytest.approx(pause / 1e3, rel=1e-6)
    assert finding.advice[0].setting is not None
    assert "keepalive_expiry" in finding.advice[0].setting


def test_lazy_expiry_lies_between_the_longest_reuse_and_the_shortest_close(stage):
    at = 0.0
    for _ in range(4):
        at = stage.end_of(stage.connection(at, [0, 800, 950], closed_by="local", idle=1300)) + 0.4
    finding = stage.only("reuse.client-idle-expiry")
    assert finding.learned is not None
    assert (finding.learned.low, finding.learned.high) == pytest.approx((0.95, 1.3))
    assert finding.learned.low < finding.learned.value < finding.learned.high


def test_timer_expiry(stage, dice):
    timer = dice.uniform(500, 6000)
    play(stage, dice.randint(3, 7), closed_by="local", idle=timer, gap=700)
    finding = stage.only("reuse.client-idle-expiry")
    assert finding.cause == "timer"
    assert finding.learned is not None
    assert finding.learned.value == pytest.approx(timer / 1e3, rel=1e-6)


def test_longer_rests_that_were_survived_contradict_an_expiry(stage):
    stage.connection(0, [0, 5000], tid=2.0)
    play(stage, 4, closed_by="local", idle=1300, gap=0.4)
    assert "reuse.client-idle-expiry" not in stage.codes()


def test_expiry_twice_with_one_successor_is_silent(stage):
    play(stage, 2, closed_by="local", idle=1500, gap=0.4)
    assert stage.codes() == []


def test_unlike_ages_without_a_successor_at_once_are_no_timer(stage):
    at = 0.0
    for idle in (500, 1500, 3000, 6000):
        at = stage.end_of(stage.connection(at, closed_by="local", idle=idle)) + 900
    assert stage.codes() == []


def test_a_timer_that_is_shorter_than_a_hasty_program_is_one_with_doubt(stage, dice):
    timer = dice.uniform(160, 390)
    stage.process(1, libraries=["aiohttp"])
    at = 0.0
    for _ in range(5):
        row = stage.connection(at, closed_by="local", idle=timer + dice.uniform(0, 5), tls=False)
        at = stage.end_of(row) + 300
    finding = stage.only("reuse.client-idle-expiry")
    assert (finding.cause, finding.confidence) == ("timer", 0.6)
    assert finding.learned is not None
    assert finding.learned.value == pytest.approx(timer / 1e3, abs=0.01)


def test_a_library_without_a_timer_has_none(stage):
    stage.process(1, libraries=["requests"])
    play(stage, 5, closed_by="local", idle=300, gap=300)
    stage.only("reuse.client-per-call")


def test_a_program_that_works_unevenly_before_it_closes_is_no_timer(stage):
    at = 0.0
    for idle in (160, 310, 220, 390, 180):
        at = stage.end_of(stage.connection(at, closed_by="local", idle=idle)) + 300
    stage.only("reuse.client-per-call")


def test_a_timer_that_fires_late_at_times_is_one(stage):
    stage.process(1, libraries=["aiohttp"])
    at = 0.0
    for idle in (391, 390, 405, 392, 391):
        at = stage.end_of(stage.connection(at, closed_by="local", idle=idle, tls=False)) + 300
    assert stage.only("reuse.client-idle-expiry").count == 5
