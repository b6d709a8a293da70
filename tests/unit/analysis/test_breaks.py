# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.findings import Severity


def test_one_stale_race_is_enough(stage):
    stage.connection(0, [0, 50, 900], closed_by="remote", close="rst", idle=0.2, unanswered=True)
    stage.connection(1200, [0])
    finding = stage.only("reuse.stale-race")
    assert (finding.count, finding.cause) == (1, "reset")
    assert finding.severity is not Severity.INFO
    assert finding.learned is not None
    assert finding.learned.value == pytest.approx(0.9)


@pytest.mark.parametrize(("shared", "code"), [(True, "reuse.fork-shared"), (False, "reuse.stale-race")])
def test_two_requests_that_met_the_same_end(stage, shared, code):
    """Written by two processes, or pipelined: the one before the last has no answer either."""
    row = stage.connection(0, [0, 50], shared=shared, closed_by="remote", close="rst", idle=0.2, unanswered=True)
    stage._turn(row, 50.1, float("nan"), 200, 0)
    finding = stage.only(code)
    assert finding.count == 1
    assert "nan" not in str(finding)


def test_a_request_written_after_the_servers_fin_is_a_stale_race(stage):
    row = stage.connection(0, [0, 50, 900], unanswered=True)
    stage.connections[row] |= {
        "closed_by": "remote",
        "close": "fin",
        "closing_ns": 900e6,
        "idle_before_close_ms": 780.0,
    }
    assert stage.only("reuse.stale-race").cause == "closed"


def test_a_first_request_that_is_reset_is_no_stale_race(stage):
    stage.connection(0, [0], closed_by="remote", close="rst", idle=0.2, unanswered=True)
    assert stage.codes() == ["tcp.reset"]


def test_an_end_long_after_the_request_is_no_race(stage):
    stage.connection(0, [0, 50], closed_by="remote", close="rst", idle=3000, unanswered=True)
    finding = stage.only("tcp.reset")
    assert finding.cause == "before-answer"


def test_our_own_closing_alert_is_no_request(stage):
    row = stage.connection(0, [0, 50], closed_by="remote", idle=0)
    stage._turn(row, 200.0, float("nan"), 24, 0)
    assert stage.codes() == []


def test_a_stream_cut_off_by_a_reset(stage):
    row = stage.connection(0, [0, 50], closed_by="remote", close="rst", idle=20, turn={"received_bursts": 9.0})
    finding = stage.only("tcp.reset")
    assert finding.cause == "mid-answer"
    assert finding.evidence[1].id == f"c{row + 1}"


def test_session_tickets_are_not_called_an_answer(stage):
    stage.connection(0, [0], closed_by="remote", close="rst", idle=0.2, turn={"received_bytes": 510.0})
    assert stage.only("tcp.reset").cause is None


def test_a_reset_of_an_idle_connection_breaks_nothing(stage):
    stage.connection(0, [0, 50], closed_by="remote", close="rst", idle=5000)
    assert stage.codes() == []


def test_our_own_reset_is_none_of_the_peers(stage):
    stage.connection(0, [0, 50], closed_by="local", close="rst", idle=1)
    assert stage.codes() == []


def dropped(stage, rest=9000.0, again=(300.0, 900.0, 2100.0)):
    row = stage.connection(0, [0, 50, rest], unanswered=True)
    began = stage.turns[-1]["began_ns"]
    stage.retransmits += [{"connection": row, "at_ns": began + later * 1e6, "bytes": 400.0} for later in again]


def test_silent_drop(stage):
    dropped(stage)
    finding = stage.only("reuse.silent-drop")
    assert finding.learned is not None
    assert finding.learned.value == pytest.approx(9.0)


def test_a_single_retransmission_is_no_drop(stage):
    dropped(stage, again=(300.0,))
    assert stage.codes() == []


def test_without_a_rest_it_is_no_silent_drop(stage):
    dropped(stage, rest=50.0)
    assert stage.codes() == []


def test_fork_shared(stage):
    stage.connection(0, [0, 50], shared=True, closed_by="remote", close="rst", idle=0.1)
    finding = stage.only("reuse.fork-shared")
    assert finding.count == 1


def test_a_connection_that_was_handed_over_whole_is_healthy(stage):
    stage.connection(0, [0, 50], shared=True, closed_by="local")
    assert stage.codes() == []


@pytest.mark.parametrize(("probes", "codes"), [(False, ["reuse.no-keepalive-probes"]), (True, []), (None, [])])
def test_long_waits(stage, probes, codes):
    stage.span_ms = 100_000.0
    stage.connection(0, wait=61_000.0, keepalive_probes=probes)
    assert stage.codes() == codes
    assert stage.loud() == []


def test_a_wait_without_an_end_is_said_aloud(stage):
    stage.span_ms = 100_000.0
    stage.connection(0, keepalive_probes=False, unanswered=True)
    assert stage.loud() == ["reuse.no-keepalive-probes"]


def test_a_wait_of_50_s_is_no_risk(stage):
    stage.connection(0, wait=50_000.0, keepalive_probes=False)
    assert stage.codes() == []


@pytest.mark.parametrize("idle", [12.0, 50.0, 80.0])
def test_resets_some_ms_after_part_of_an_answer_are_no_idle_timeout(stage, idle):
    at = 0.0
    for _ in range(4):
        at = stage.end_of(stage.connection(at, closed_by="remote", close="rst", idle=idle)) + 50
    finding = stage.only("tcp.reset")
    assert (finding.count, finding.severity) == (4, Severity.CRITICAL)


def test_a_server_that_ends_idle_connections_by_a_reset_has_a_timeout(stage):
    at = 0.0
    for _ in range(4):
        at = stage.end_of(stage.connection(at, closed_by="remote", close="rst", idle=3000)) + 400
    stage.only("reuse.server-idle-timeout")
