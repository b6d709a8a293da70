# SPDX-License-Identifier: Apache-2.0
"""Handshakes that start over, take long or fail; each floor and each number of repetitions has a test."""

from __future__ import annotations

import math

import pytest

from netdiag.analysis import run
from netdiag.findings import Severity
from netdiag.testing import connection, process, tables


def play(*shakes, ends=None, retransmits=(), processes=(), **columns):
    """Play handshakes of one program, a second apart, one connection each."""
    rows = [
        {
            "connection": row, "started_ns": row * 1e9, "duration_ms": 10.0, "outcome": "completed",
            "version": "TLSv1.3", "offered": "none", "resumed": True, "hello_retry": False, "early_data": "none",
            "client_hello_bytes": 512.0, "server_flight_bytes": 1365.0, "server_ms": 1.0, "client_ms": 1.0,
        } | columns | shake
        for row, shake in enumerate(shakes)
    ]  # fmt: skip
    links = [
        connection(
            **{
                "opened_at": row * 1000.0 - 3, "established_at": row * 1000.0 - 1, "rtt_ms": 20.0, "min_rtt_ms": 20.0,
                "requests": 1.0, "encrypted": True, "bytes_received": 900.0,
            } | (ends or {}),
        )
        for row in range(len(shakes))
    ]  # fmt: skip
    found = run(
        tables(
            connections=links,
            handshakes=rows,
            retransmits=list(retransmits),
            processes=list(processes),
            span_ms=60_000.0,
        )
    )
    return {finding.code: finding for finding in found if finding.code.startswith("tls.")}


def only(found, code):
    assert list(found) == [code]
    return found[code]


RETRY = {"hello_retry": True, "group": "P-384"}


def test_a_healthy_handshake_is_no_finding():
    assert play(*[{}] * 5) == {}


def test_handshakes_that_start_over():
    finding = only(play(*[RETRY] * 3, {}), "tls.hello-retry")
    assert (finding.count, finding.of, finding.cause, finding.cost_ms) == (3, 4, "P-384", 60)
    assert play(*[RETRY] * 2) == {}


def test_an_old_version_costs_a_round_trip_in_a_full_handshake():
    old = {"version": "TLSv1.2", "resumed": False}
    finding = only(play(*[old] * 3), "tls.old-version")
    assert (finding.count, finding.cost_ms, finding.cause) == (3, 60, "TLSv1.2")
    assert play(*[old] * 2) == {}
    assert play(*[old | {"resumed": True}] * 5) == {}


def test_a_deprecated_version_is_told_at_once():
    assert only(play({"version": "TLSv1.1", "resumed": False}), "tls.old-version").count == 1


LARGE = {"client_hello_bytes": 1581.0}


def test_a_large_hello_that_was_lost():
    again = [{"connection": 0, "at_ns": 0.25e9, "bytes": 1448.0}]
    ends = {"first_received_at": 300.0}
    finding = only(play(LARGE, ends=ends, retransmits=again), "tls.large-client-hello")
    assert (finding.cause, finding.cost_ms) == ("lost", 250)
    assert play({}, ends=ends, retransmits=again) == {}
    assert play(LARGE, ends={"first_received_at": 30.0}, retransmits=again) == {}
    assert play(LARGE, ends=ends) == {}


def test_a_large_hello_that_was_answered_by_a_reset():
    ends = {"closed_by": "remote", "close": "rst", "closing_at": 20.0, "bytes_received": 0.0}
    finding = only(play(LARGE | {"outcome": "failed"}, ends=ends), "tls.large-client-hello")
    assert (finding.cause, finding.severity) == ("reset", Severity.CRITICAL)


def test_a_reset_that_smaller_hellos_meet_too_is_not_for_their_size():
    ends = {"closed_by": "remote", "close": "rst", "closing_at": 20.0, "bytes_received": 0.0}
    finding = only(play(*[LARGE | FAILED, FAILED] * 2, ends=ends), "tls.handshake-failed")
    assert (finding.cause, finding.count) == ("reset", 4)


def test_a_large_hello_that_was_lost_for_good_is_one_cause():
    again = [{"connection": 0, "at_ns": 0.25e9, "bytes": 1448.0}]
    ends = {"closed_by": "local", "close": "timeout", "closing_at": 5000.0, "bytes_received": 0.0}
    assert only(play(LARGE | FAILED, ends=ends, retransmits=again), "tls.large-client-hello").cause == "lost"
    told = play(LARGE | FAILED | {"alert": "unknown_ca"}, ends=ends | {"bytes_received": 900.0}, retransmits=again)
    assert set(told) == {"tls.large-client-hello", "tls.handshake-failed"}, "an answer that is refused is another cause"


def test_a_flight_beyond_the_first_window():
    large = {"server_flight_bytes": 19_000.0, "resumed": False}
    finding = only(play(large), "tls.large-server-flight")
    assert (finding.count, finding.cost_ms) == (1, 20)
    assert only(play(large, ends={"mss": 32_768.0}), "tls.large-server-flight").cost_ms == 0
    assert play(large | {"server_flight_bytes": 14_000.0}) == {}


@pytest.mark.parametrize(("side", "code"), [("server_ms", "tls.slow-server"), ("client_ms", "tls.slow-client")])
def test_a_slow_side(side, code):
    slow = {side: 300.0}
    finding = only(play(*[slow] * 3), code)
    assert (finding.count, finding.cost_ms) == (3, 900)
    assert finding.severity in (Severity.WARNING, Severity.CRITICAL)
    assert play(*[slow] * 2) == {}
    assert play(*[slow] * 3, *[{}] * 4) == {}
    assert play(*[{side: 59.0}] * 3) == {}, "three round trips of 20 ms are the floor"
    assert play(*[{side: 49.0}] * 3, ends={"min_rtt_ms": 0.05}) == {}, "50 ms are the floor"


FAILED = {"outcome": "failed", "duration_ms": math.nan, "resumed": None, "server_ms": math.nan, "client_ms": math.nan}
GONE = {"closed_by": "local", "close": "fin", "closing_at": 40.0}


@pytest.mark.parametrize(
    ("alert", "ends", "cause"),
    [
        ("unknown_ca", {}, "unknown_ca"),
        (None, {}, "closed-by-client"),
        (None, {"bytes_received": 0.0}, "gave-up"),
        (None, {"closed_by": "remote"}, "closed-by-server"),
        (None, {"closed_by": "remote", "close": "rst"}, "reset"),
        (None, {"close": "timeout"}, "timeout"),
    ],
)
def test_a_failed_handshake_tells_why(alert, ends, cause):
    finding = only(play(FAILED | {"alert": alert}, ends=GONE | ends), "tls.handshake-failed")
    assert (finding.cause, finding.count, finding.severity) == (cause, 1, Severity.CRITICAL)
    assert finding.cost_ms == 40


def test_one_failure_among_many_is_a_warning():
    finding = only(play(FAILED, *[{}] * 9, ends=GONE), "tls.handshake-failed")
    assert (finding.count, finding.of) == (1, 10)
    assert finding.severity in (Severity.WARNING, Severity.CRITICAL)


def test_a_program_that_ends_in_mid_handshake_has_not_failed():
    ends = GONE | {"bytes_received": 0.0}
    assert play(FAILED, ends=ends, processes=[process(100, ended_at=45.0)]) == {}
    assert play(FAILED, ends=ends, processes=[process(100, ended_at=9000.0)]) != {}


def test_contexts_that_are_built_anew():
    ends = {"established_at": -30.0, "opened_at": -31.0}
    found = play({}, {"started_ns": 0.5e6}, {"started_ns": 1e6}, ends=ends)
    finding = only(found, "tls.context-per-client")
    assert (finding.count, finding.severity, finding.cost_ms) == (3, Severity.INFO, pytest.approx(91.5))
    assert play({}, {}, ends=ends) == {}
    assert play({}, {"started_ns": 0.5e6}, {"started_ns": 1e6}, ends={"established_at": -5.0}) == {}
