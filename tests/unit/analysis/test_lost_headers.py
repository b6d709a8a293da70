# SPDX-License-Identifier: Apache-2.0
"""One call a connection, ended at once: who wanted it, by headers where they were seen."""

from __future__ import annotations

import math

import pytest

from netdiag.findings import Severity

NAN = math.nan
CLOSE, KEEP = {"connection": "close"}, {"connection": "keep-alive"}


def play(stage, sides, requests=None, **columns):
    at = 0.0
    for side in sides:
        row = stage.connection(at, tls=requests is None, closed_by=side, idle=0.0, **columns)
        if requests is not None:
            turn = stage.turns[-1]
            stage.requests.append(
                {"connection": row, "source": "plaintext", "protocol": "http/1.1", "status": 200.0, "complete": True}
                | {"id": f"r{row + 1}", "headers": {}, "request_headers": {}, "total_ms": 20.0}
                | {name: turn[name] for name in ("began_ns", "sent_ns", "first_byte_ns")}
                | {"ended_ns": turn["last_byte_ns"]}
                | requests
            )
        at = stage.end_of(row) + 50
    return {finding.code: finding for finding in stage.findings()}


def test_packets_alone_name_both_candidates(stage):
    found = play(stage, ["remote"] * 5, pid=NAN, encrypted=True)
    server, client = found["reuse.server-close"], found["reuse.client-per-call"]
    assert (server.cause, client.cause) == ("unknown", "unknown")
    assert max(server.confidence, client.confidence) <= 0.5
    assert client.severity is Severity.INFO  # one cause, one warning
    assert "would look the same" in server.evidence[0].note + client.evidence[0].note


def test_a_program_that_is_known_is_judged_as_before(stage):
    assert list(play(stage, ["remote"] * 5)) == ["reuse.server-close"]


def test_a_server_that_takes_its_time_is_no_client_per_call(stage):
    at = 0.0
    for _ in range(5):
        at = stage.end_of(stage.connection(at, closed_by="remote", idle=30.0, pid=NAN)) + 50
    assert stage.codes() == ["reuse.server-close"]


@pytest.mark.parametrize("answer", [{"headers": CLOSE}, {"protocol": "http/1.0"}])
@pytest.mark.parametrize("side", ["remote", "local"])
def test_answers_that_end_their_connection_are_the_servers_doing(stage, side, answer):
    found = play(stage, [side] * 5, answer, pid=NAN, encrypted=False)
    finding = found["reuse.server-close"]
    assert (finding.cause, "reuse.client-per-call" in found) == ("header", False)
    assert finding.confidence >= 0.9


@pytest.mark.parametrize("side", ["remote", "local"])
def test_requests_that_ask_for_the_end_are_the_programs_doing(stage, side):
    found = play(stage, [side] * 5, {"request_headers": CLOSE, "headers": CLOSE}, encrypted=False)
    assert [code for code in found if code.startswith("reuse.")] == ["reuse.client-asks-close"]


@pytest.mark.parametrize("answer", [{}, {"headers": KEEP}, {"headers": KEEP, "protocol": "http/1.0"}])
def test_answers_that_keep_their_connection_leave_the_program(stage, answer):
    found = play(stage, ["local"] * 5, answer, pid=NAN, encrypted=False)
    finding = found["reuse.client-per-call"]
    assert (finding.cause, finding.confidence) == (None, pytest.approx(0.9, abs=0.06))
    assert "reuse.server-close" not in found
