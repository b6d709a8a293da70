# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag import testing
from netdiag.findings import Severity


def late_reads(calls, *, lag=60.0, count=10):
    """Add calls whose answers lay unread for `lag` ms, 500 ms apart."""
    row = calls.connection()
    for index in range(count):
        at = index * 500.0
        calls.call(row, at, 50.0, ended_at=at + 50 + lag, reader_lag_ms=lag, total_ms=50 + lag)
        calls.rows["bursts"].append(testing.burst(row, "receive", at + 50 + lag, arrived_at=at + 50.0, max_lag_ms=lag))


def looks(calls, *, wait=0.0, throttled=0.0, run=100.0, waits=None):
    """Add a look a second in which the process waited and was stopped so long since the one before."""
    for at in range(25):
        row = testing.look(at * 1000.0, run_ms=run * at, wait_ms=wait * at, throttled_ms=throttled * at)
        calls.rows["scheduling"].append(row | {"periods": float(at), "waits": waits})


@pytest.mark.parametrize(("wait", "throttled", "cause"), [(500.0, 0.0, "run-queue"), (500.0, 500.0, "cgroup-limit")])
def test_data_ready_and_no_processor(calls, wait, throttled, cause):
    late_reads(calls)
    looks(calls, wait=wait, throttled=throttled)
    finding = calls.only("client.cpu-starved")
    assert (finding.cause, finding.count) == (cause, 10)
    assert finding.cost_ms == pytest.approx(600)


def reader(calls):
    """Return the thread that reads."""
    return int(calls.rows["bursts"][0]["tid"])


@pytest.mark.parametrize("by", ["others", "the reader"])
def test_the_thread_that_reads_is_the_one_that_must_have_waited(calls, by):
    late_reads(calls)
    waits = {900 + number: 100.0 for number in range(20)} if by == "others" else {reader(calls): 150.0, 900: 100.0}
    looks(calls, wait=2000.0, waits=waits)
    assert calls.codes() == ([] if by == "others" else ["client.cpu-starved"])


def test_a_wide_cgroup_that_is_stopped_on_many_processors_says_nothing_of_one_reader(calls):
    late_reads(calls)
    looks(calls, wait=4000.0, throttled=30_000.0, waits={reader(calls): 5.0, 900: 990.0})
    assert calls.codes() == []


def test_being_stopped_is_waiting_and_counts_once(calls):
    late_reads(calls, lag=200.0)
    looks(calls, wait=170.0, throttled=170.0, waits={reader(calls): 170.0})
    assert calls.codes() == []


@pytest.mark.parametrize(("run", "own"), [(100.0, False), (1900.0, True)])
def test_a_program_of_many_busy_threads_may_have_taken_the_processors_itself(calls, run, own):
    late_reads(calls)
    looks(calls, wait=500.0, run=run)
    assert ("its own threads" in calls.only("client.cpu-starved").title) is own


def test_a_reader_that_is_busy_itself_is_not_starved(calls):
    late_reads(calls)
    looks(calls, wait=5.0, run=990.0)
    assert calls.codes() == []


def test_waiting_without_data_that_lies_ready_costs_nothing(calls):
    late_reads(calls, lag=0.1)
    looks(calls, wait=900.0)
    assert calls.codes() == []


def test_without_looks_nothing_is_said(calls):
    late_reads(calls)
    assert calls.codes() == []


def test_two_late_reads_are_chance(calls):
    late_reads(calls, count=2)
    looks(calls, wait=500.0)
    assert calls.codes() == []


def test_a_starved_reader_of_a_stream_is_one_finding(calls):
    row = calls.connection()
    calls.stream(row, 0)
    for index in (5, 15, 25):
        burst = calls.rows["bursts"][index]
        burst |= {"began_ns": burst["began_ns"] + 350e6, "ended_ns": burst["ended_ns"] + 350e6}
    calls.rows["requests"][0]["ended_ns"] = 2e9
    looks(calls, wait=900.0)
    assert calls.only("client.cpu-starved").severity is not Severity.INFO


def test_wake_ups_on_a_busy_machine_are_a_remark(calls):
    late_reads(calls, lag=12.0, count=40)
    looks(calls, wait=300.0)
    assert calls.only("client.cpu-starved").severity is Severity.INFO


def test_a_reader_that_sleeps_on_a_busy_machine_is_not_starved(calls):
    row = calls.connection()
    calls.stream(row, 0)
    burst = calls.rows["bursts"][10]
    burst |= {"began_ns": burst["began_ns"] + 600e6, "ended_ns": burst["ended_ns"] + 600e6}
    looks(calls, wait=350.0)
    assert calls.codes() == ["stream.reader-stall"]
