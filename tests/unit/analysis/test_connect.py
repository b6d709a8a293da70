# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.findings import Severity


def test_refused(stage):
    for call in range(4):
        stage.failed(call * 50, "refused", error="ECONNREFUSED")
    finding = stage.only("tcp.refused")
    assert (finding.count, finding.of, finding.cause) == (4, 4, "always")
    assert finding.severity is Severity.CRITICAL
    assert finding.cost_ms == pytest.approx(4.0)


def test_one_refused_attempt_is_a_break(stage):
    stage.failed(0, "refused", error="ECONNREFUSED")
    stage.connection(50)
    finding = stage.only("tcp.refused")
    assert (finding.severity, finding.cause) == (Severity.WARNING, "sometimes")


def test_localhost_that_listens_on_ipv4_only_is_healthy(stage):
    stage.failed(0, "refused", error="ECONNREFUSED", family="ipv6", remote_ip="::1")
    stage.connection(0.2)
    assert stage.codes() == []


def test_connect_timeout(stage):
    for call in range(3):
        stage.failed(call * 5000, "timeout", error="ETIMEDOUT", ended_ns=(call * 5000 + 4000) * 1e6)
    finding = stage.only("tcp.connect-timeout")
    assert finding.cost_ms == pytest.approx(12_000)


def test_the_program_gave_up_first(stage):
    stage.failed(0, "cancelled", ended_ns=2000e6, syn_retransmits=1.0)
    assert stage.only("tcp.connect-timeout").cause == "gave-up"


def test_no_way_there(stage):
    stage.failed(0, "unreachable", error="EHOSTUNREACH")
    finding = stage.only("tcp.connect-timeout")
    assert finding.cause == "unreachable"
    assert "no route" in finding.title


def test_an_attempt_that_was_cancelled_at_once_is_healthy(stage):
    stage.failed(0, "cancelled", family="ipv6")
    stage.connection(0.1)
    assert stage.codes() == []


def test_lost_syns(stage):
    stage.connection(0, connect_ms=1020.0, syn_retransmits=1.0, min_rtt_ms=20.0)
    stage.connection(2000)
    finding = stage.only("tcp.syn-retransmit")
    assert finding.cost_ms == pytest.approx(1000.0)
    assert finding.severity is Severity.CRITICAL


def test_connections_that_came_at_once_lost_no_syn(stage):
    stage.connection(0, connect_ms=30.0)
    assert stage.codes() == []


def test_ipv6_that_leads_nowhere(stage):
    for call in range(3):
        stage.failed(call * 1000, "cancelled", family="ipv6", ended_ns=(call * 1000 + 300) * 1e6)
        stage.connection(call * 1000 + 250, [0, 10, 10])
    finding = stage.only("tcp.ipv6-fallback")
    assert finding.cost_ms == pytest.approx(750.0)


def test_an_ipv6_address_that_answers_other_calls_leads_somewhere(stage):
    for call in range(3):
        stage.failed(call * 1000, "cancelled", family="ipv6", ended_ns=(call * 1000 + 300) * 1e6)
        stage.connection(call * 1000 + 250, [0, 10, 10])
    stage.connection(5000, [0, 10, 10], family="ipv6")
    assert "tcp.ipv6-fallback" not in stage.codes()


def test_an_ipv6_loser_after_a_moment_is_healthy(stage):
    stage.failed(0, "cancelled", family="ipv6")
    stage.connection(20)
    assert stage.codes() == []


@pytest.mark.parametrize("error", ["EADDRNOTAVAIL", "EMFILE"])
def test_local_limit(stage, error):
    stage.failed(0, "unreachable", error=error, never_sent=True)
    finding = stage.only("tcp.local-limit")
    assert finding.cause == error
    assert finding.severity is Severity.CRITICAL
