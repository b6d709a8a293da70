# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.findings import Severity


def rush(calls, *, threads, connections, each, wait=100.0, rest=1.0):
    """Let threads take turns on too few connections, each call beginning `rest` ms after another thread's ended."""
    rows = [calls.connection() for _ in range(connections)]
    free = dict.fromkeys(rows, 0.0)
    queue = [thread for _ in range(each) for thread in range(threads)]
    for thread in queue:
        row = min(free, key=lambda name: free[name])
        calls.call(row, free[row], wait, tid=100.0 + thread)
        free[row] += wait + rest


def test_more_threads_than_connections(calls):
    rush(calls, threads=8, connections=2, each=3)
    finding = calls.only("http.pool-wait")
    assert finding.learned is not None
    assert (finding.learned.value, finding.severity, finding.confidence) == (2, Severity.WARNING, 0.65)


@pytest.mark.parametrize(("threads", "connections"), [(4, 4), (2, 4), (1, 1)])
def test_a_connection_for_each_thread_is_healthy(calls, threads, connections):
    rush(calls, threads=threads, connections=connections, each=5)
    assert "http.pool-wait" not in calls.codes()


def test_one_call_at_a_time_from_whatever_thread_waits_for_none(calls):
    rush(calls, threads=5, connections=1, each=4)
    assert "http.pool-wait" not in calls.codes()


@pytest.mark.parametrize(("libraries", "said"), [(["go"], False), ([], False), (["requests"], True)])
def test_threads_between_which_a_runtime_moves_its_tasks_are_no_callers(calls, libraries, said):
    named = [{"name": name, "version": None, "evidence": "test"} for name in libraries]
    rush(calls, threads=8, connections=2, each=3)
    calls.rows["processes"].append({"pid": 100.0, "exe": "/usr/bin/program", "libraries": named})
    assert ("http.pool-wait" in calls.codes()) is said


def test_threads_that_rest_between_calls_do_not_wait(calls):
    rush(calls, threads=8, connections=2, each=3, rest=50.0)
    assert "http.pool-wait" not in calls.codes()


def test_what_the_programs_own_clock_says(calls):
    row = calls.connection()
    for index in range(6):
        calls.call(row, index * 1000.0, 100.0, queue_ms=400.0, total_ms=500.0)
    finding = calls.only("http.pool-wait")
    assert (finding.cost_ms, finding.confidence) == (pytest.approx(2400), 0.9)
    assert finding.what_if is not None
    assert finding.what_if.startswith("time a call p50 500 → 100 ms")


def test_a_short_queue_is_no_matter(calls):
    row = calls.connection()
    for index in range(6):
        calls.call(row, index * 1000.0, 100.0, queue_ms=5.0)
    assert calls.codes() == []
