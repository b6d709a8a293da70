# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random

import pytest

from netdiag.findings import Severity


def play(stage, times, calls=(0.0,), gap=50.0, **options):
    at = 0.0
    for _ in range(times):
        at = stage.end_of(stage.connection(at, calls, **options)) + gap


@pytest.fixture(params=[1, 2, 3])
def dice(request):
    return random.Random(request.param)


def test_idle_timeout_learns_the_time(stage, dice):
    timeout = dice.uniform(300, 20_000)
    play(stage, dice.randint(3, 9), closed_by="remote", idle=timeout, gap=400)
    finding = stage.only("reuse.server-idle-timeout")
    assert finding.learned is not None
    assert finding.learned.value == pytest.approx(timeout / 1e3, rel=1e-6)
    assert finding.severity is Severity.CRITICAL
    assert finding.confidence >= 0.9


def test_idle_timeout_of_a_server_that_looks_once_a_second(stage):
    at = 0.0
    for idle in (5000, 5400, 5900, 5150):
        at = stage.end_of(stage.connection(at, closed_by="remote", idle=idle)) + 400
    finding = stage.only("reuse.server-idle-timeout")
    assert finding.learned is not None
    assert (finding.learned.low, finding.learned.high) == (5.0, 5.9)
    assert finding.confidence == 0.6


def test_idle_timeout_seen_once_is_silent(stage):
    play(stage, 2, closed_by="remote", idle=800)
    assert stage.codes() == []


def test_idle_ages_that_differ_are_no_timeout(stage):
    at = 0.0
    for idle in (300, 900, 2100, 4000):
        at = stage.end_of(stage.connection(at, closed_by="remote", idle=idle)) + 400
    assert stage.codes() == []


def test_idle_timeout_that_nobody_waits_for_is_silent(stage):
    for at in (0, 100, 200):
        stage.connection(at, [0, 50, 50], closed_by="remote", idle=5000)
    assert stage.codes() == []


def test_max_requests_learns_the_count(stage, dice):
    limit = dice.randint(2, 9)
    play(stage, dice.randint(3, 6), [0.0] + [30.0] * (limit - 1), closed_by="remote", idle=0.0, tls=False)
    finding = stage.only("reuse.server-max-requests")
    assert finding.learned is not None
    assert (finding.learned.value, finding.cause) == (limit, None)


def test_max_requests_whoever_closes_first(stage):
    at = 0.0
    for side in ("remote", "local", "local", "remote"):
        at = stage.end_of(stage.connection(at, [0, 30, 30], closed_by=side, idle=0.4)) + 50
    finding = stage.only("reuse.server-max-requests")
    assert finding.confidence == 0.8


def test_max_requests_closed_by_the_program_alone_is_a_guess(stage):
    play(stage, 4, [0, 30, 30], closed_by="local", counted=True)
    finding = stage.only("reuse.server-max-requests")
    assert (finding.cause, finding.confidence) == ("unknown", 0.5)


def test_a_guessed_count_closed_by_the_program_is_silent(stage):
    play(stage, 4, [0, 30, 30], closed_by="local")
    assert stage.codes() == []


def test_counts_that_differ_are_no_limit(stage):
    at = 0.0
    for calls in (2, 5, 3, 7):
        at = stage.end_of(stage.connection(at, [30.0] * calls, closed_by="remote", idle=0, tls=False)) + 50
    assert stage.codes() == []


def test_a_limit_at_a_constant_age_names_both(stage):
    play(stage, 4, [0] + [2000] * 3, closed_by="remote", idle=0.0, tls=False, gap=2000)
    finding = stage.only("reuse.server-max-requests")
    assert (finding.cause, finding.confidence) == ("or-max-age", 0.5)
    assert "reuse.server-max-age" in finding.evidence[0].note


def test_max_age_learns_an_interval(stage):
    at = 0.0
    for pauses in ([0, 900, 1000, 1150], [0, 1500, 1600], [0, 700, 800, 700, 900]):
        at = stage.end_of(stage.connection(at, pauses, closed_by="remote", idle=0, tls=False)) + 900
    stage.connection(at, tls=False)
    finding = stage.only("reuse.server-max-age")
    assert finding.learned is not None
    assert 2.2 < finding.learned.low < finding.learned.value < finding.learned.high < 3.2


def test_no_age_where_an_older_connection_was_kept(stage):
    at = 0.0
    for pauses in ([0, 900, 1000, 1150], [0, 500], [0, 700, 800, 700, 900]):
        at = stage.end_of(stage.connection(at, pauses, closed_by="remote", idle=0, tls=False)) + 900
    stage.connection(at, tls=False)
    assert stage.codes() == []


def test_server_close(stage):
    play(stage, 5, closed_by="remote", idle=0.0)
    finding = stage.only("reuse.server-close")
    assert (finding.cause, finding.count, finding.of) == ("unknown", 5, 5)
    assert finding.severity is Severity.CRITICAL


def test_server_close_where_the_client_is_faster_at_times(stage):
    at = 0.0
    for side in ("remote", "local", "remote", "local", "local", "remote"):
        at = stage.end_of(stage.connection(at, closed_by=side, idle=0.4)) + 50
    assert stage.only("reuse.server-close").count == 6


@pytest.mark.parametrize("bytes_of_alert", [24.0, 31.0])
def test_a_closing_alert_that_nobody_read_is_no_unread_answer(stage, bytes_of_alert):
    play(stage, 5, closed_by="remote", idle=0.0, unread=bytes_of_alert, unread_close=True)
    assert stage.codes() == ["reuse.server-close"]


def test_server_close_twice_is_silent(stage):
    play(stage, 2, closed_by="remote", idle=0.0)
    assert stage.codes() == []


def test_one_close_of_twenty_is_silent(stage):
    stage.connection(0, closed_by="remote", idle=0.0)
    stage.connection(200, [0] + [50] * 18)
    assert stage.codes() == []


def test_a_program_that_asks_for_the_close(stage):
    stage.process(1, exe="/usr/bin/ab")
    play(stage, 5, closed_by="remote", idle=0.0)
    stage.only("reuse.client-asks-close")


def test_reload(stage):
    for wait in (20, 700, 1900, 2600):
        stage.connection(0, wait=wait, closed_by="remote", idle=5000 - wait)
    for start in (5100, 5101, 5102):
        stage.connection(start)
    finding = stage.only("reuse.server-reload")
    assert finding.count == 4


def test_connections_that_were_idle_equally_long_are_no_reload(stage):
    for start in (0, 2, 4, 6):
        stage.connection(start, closed_by="remote", idle=900)
    for start in (2000, 2001, 2002):
        stage.connection(start)
    stage.only("reuse.server-idle-timeout")


def sides(stage, *order, **options):
    at = 0.0
    for side in order:
        at = stage.end_of(stage.connection(at, closed_by=side, idle=0.4, **options)) + 50


def test_one_end_by_the_server_right_with_the_answer_shows_who_wanted_it(stage):
    sides(stage, "local", "local", "remote", "local", "local", "local")
    finding = stage.only("reuse.server-close")
    assert (finding.count, finding.confidence) == (6, 0.45)


def test_one_end_by_the_server_of_many_is_chance(stage):
    sides(stage, *["local"] * 15, "remote", *["local"] * 15)
    assert stage.codes() == ["reuse.client-per-call"]


def built(stage, *counts):
    for row, count in enumerate(counts):
        stage.tls_calls.append({"connection": row, "pid": 1.0, "ok": True})
        stage.contexts += [{"connection": row, "duration_ms": 0.3, "kind": "context"}] * count


def test_connections_of_one_client_that_ends_them_at_once_were_asked_to(stage):
    stage.process(1, libraries=["httpx"])
    sides(stage, *["local"] * 5)
    built(stage, 1, 0, 0, 0, 0)
    finding = stage.only("reuse.server-close")
    assert (finding.cause, finding.confidence) == ("unknown", 0.5)


def test_a_context_for_each_call_is_a_client_for_each_call(stage):
    stage.process(1, libraries=["httpx"])
    sides(stage, *["local"] * 5)
    built(stage, 1, 1, 1, 1, 1)
    stage.only("reuse.client-per-call")


@pytest.mark.parametrize("libraries", [["aiohttp"], ["aiohttp", "httpx"], []])
def test_libraries_whose_clients_share_a_context_prove_nothing_by_it(stage, libraries):
    stage.process(1, libraries=libraries)
    sides(stage, *["local"] * 5)
    built(stage, 1, 0, 0, 0, 0)
    stage.only("reuse.client-per-call")


def test_a_library_that_could_be_in_use_proves_nothing_by_a_shared_context(stage):
    """Its own hand may share one, where the library is only installed."""
    stage.process(1, libraries=[])
    stage.processes[-1]["libraries"] = [{"name": "httpx", "version": "0.28.1", "evidence": "installed beside python"}]
    sides(stage, *["local"] * 5)
    built(stage, 1, 0, 0, 0, 0)
    stage.only("reuse.client-per-call")


def test_a_server_that_closes_behind_an_answer_that_nobody_reads(stage):
    at = 0.0
    for _ in range(5):
        at = stage.end_of(stage.connection(at, closed_by="remote", close="fin", idle=0.0, unread=50_000.0)) + 50
    assert stage.only("reuse.server-close").count == 5
