# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.analysis.case import Options, prepare
from netdiag.analysis.http_calls import asked_of
from netdiag.analysis.whatif import first_token, setup_saved, what_if


def asked(calls):
    case = prepare(calls.tables(), Options())
    return asked_of(case.tables.requests, case.links)


def test_percentiles_are_computed_again_without_what_is_saved(calls):
    row = calls.connection()
    for index, wait in enumerate([100.0] * 5 + [300.0] * 5):
        calls.call(row, index * 1000.0, wait)
    said = what_if(asked(calls), dict.fromkeys(range(5, 10), 200.0))
    assert said == "time a call p50 200 → 100 ms, p95 300 → 100 ms (an estimate from this run's parts)"


def test_a_rare_saving_shows_in_the_longest(calls):
    row = calls.connection()
    for index in range(100):
        calls.call(row, index * 1000.0, 5000.0 if index == 7 else 50.0)
    said = what_if(asked(calls), {7: 4950.0})
    assert said == "time a call longest 5,000 → 50 ms (an estimate from this run's parts)"


@pytest.mark.parametrize("saved", [{}, {0: 0.1}])
def test_nothing_saved_nothing_said(calls, saved):
    row = calls.connection()
    for index in range(5):
        calls.call(row, index * 1000.0, 50.0)
    assert what_if(asked(calls), saved) is None


def test_never_below_nothing(calls):
    calls.call(calls.connection(), 0.0, 50.0)
    said = what_if(asked(calls), {0: 500.0})
    assert said is not None
    assert "50 → 0 ms" in said


def test_of_streams_the_first_token(calls):
    row = calls.connection()
    for at in (0.0, 5000.0):
        calls.stream(row, at, first=800.0)
    said = what_if(asked(calls), {0: 300.0, 1: 300.0}, first_token)
    assert said is not None
    assert said.startswith("time to first token p50 800 → 500 ms")


def test_what_first_calls_waited_for_their_connection(calls):
    parts = {"dns_ms": 1.0, "connect_ms": 10.0, "tls_ms": 20.0, "client_setup_ms": 30.0}
    for _ in range(2):
        row = calls.connection()
        calls.call(row, 0.0, **parts)
        calls.call(row, 1000.0, dns_ms=0.0, connect_ms=0.0, tls_ms=0.0, client_setup_ms=0.0)
    assert setup_saved(asked(calls), [1]) == {2: pytest.approx(61.0)}


def test_lost_connections_tell_what_their_set_up_cost_each_call(calls):
    for index in range(4):
        at = index * 1000.0
        row = calls.connection(
            opened_at=at, established_at=at + 10, closed_by="local", close="fin", closing_at=at + 131.0,
            idle_before_close_ms=1.0, connect_ms=10.0, requests=1.0, bytes_received=500.0,
        )  # fmt: skip
        calls.call(row, at + 30, 100.0, started_at=at, connect_ms=10.0, tls_ms=20.0, total_ms=130.0, reused=False)
    finding = next(f for f in calls.findings() if f.code.startswith("reuse."))
    assert finding.what_if == (
        "3 connections fewer, time a call p50 130 → 100 ms, p95 130 → 125 ms (an estimate from this run's parts)"
    )
