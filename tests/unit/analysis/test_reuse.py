# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math


def play(stage, times, gap=50.0, **options):
    at = 0.0
    for _ in range(times):
        at = stage.end_of(stage.connection(at, **options)) + gap


def test_each_lost_connection_has_one_cause(stage):
    at = 0.0
    for _ in range(4):
        at = stage.end_of(stage.connection(at, closed_by="local")) + 50
        at = stage.end_of(stage.connection(at, closed_by="remote", idle=900)) + 50
    found = stage.findings()
    assert sorted(finding.code for finding in found) == ["reuse.client-per-call", "reuse.server-idle-timeout"]
    ids = [{line.id for line in finding.evidence if line.id} for finding in found]
    assert not ids[0] & ids[1]


def test_the_leg_behind_a_proxy(stage):
    stage.process(1, exe="/usr/sbin/nginx")
    stage.connection(0, [0] + [50] * 6, role="server")
    play(stage, 5, closed_by="remote", idle=0.0, tls=False)
    finding = stage.only("reuse.upstream-close")
    assert "192.0.2.1:443" in finding.title


def test_an_application_server_is_no_proxy(stage):
    stage.process(1, exe="/usr/bin/python3")
    stage.connection(0, [0] + [50] * 6, role="server")
    play(stage, 5, closed_by="local")
    stage.only("reuse.client-per-call")


def test_the_estimate_is_called_one(stage):
    play(stage, 5, closed_by="local")
    finding = stage.only("reuse.client-per-call")
    assert finding.what_if is not None
    assert "4 connections fewer" in finding.what_if
    assert "estimate" in finding.what_if


def test_confidence_falls_where_it_is_not_known_whether_a_connection_is_encrypted(stage):
    play(stage, 5, closed_by="local", idle=45)
    sure = stage.only("reuse.client-per-call").confidence
    for connection in stage.connections:
        connection["encrypted"] = None
    assert stage.only("reuse.client-per-call").confidence < sure


def test_a_capture_gives_the_same_code(stage):
    play(stage, 5, closed_by="local", pid=math.nan, tid=math.nan, io_tids=math.nan, unread=math.nan)
    assert stage.codes() == ["reuse.client-per-call"]


def test_connections_older_than_the_trace_are_not_judged(stage):
    play(stage, 5, closed_by="local", role=None, preexisting=True)
    assert stage.codes() == []


def test_the_end_of_the_program_ends_pools(stage):
    stage.process(1, ended_ns=3000e6)
    for at in (0, 40, 80, 120):
        stage.connection(at, [0, 30], closed_by="local", idle=2900 - at - 97)
    assert stage.codes() == []
