# SPDX-License-Identifier: Apache-2.0
"""Handshakes are grouped by who made them and whom they asked for, and know what a resumed one would save."""

from __future__ import annotations

import math

import pytest

from netdiag.analysis import Options
from netdiag.analysis.case import prepare
from netdiag.analysis.tls_shakes import saw, segment, servers
from netdiag.testing import connection, process, tables


def shake(row, **columns):
    default = {
        "connection": row, "started_ns": row * 1e8, "duration_ms": 10.0, "outcome": "completed", "version": "TLSv1.3",
        "offered": "none", "resumed": False, "server_flight_bytes": 1365.0,
    }  # fmt: skip
    return default | columns


def case_of(connections, shakes, processes=()):
    return prepare(tables(connections=connections, handshakes=shakes, processes=list(processes)), Options())


def test_one_server_by_the_name_that_was_asked_for():
    case = case_of(
        [connection(remote_ip="192.0.2.1"), connection(remote_ip="192.0.2.2"), connection(remote_ip="192.0.2.3")],
        [shake(1, sni="api.example.test"), shake(0, sni="api.example.test"), shake(2)],
    )
    named, bare = servers(case)
    assert (named.host, [one.id for one in named.shakes]) == ("api.example.test:443", ["h2", "h1"])
    assert bare.host == "192.0.2.3:443"


def test_processes_of_one_program_are_one_unless_asked():
    ends = [connection(pid=pid) for pid in (1.0, 2.0, 3.0)]
    programs = [process(1, exe="/usr/bin/curl"), process(2, exe="/usr/bin/curl"), process(3, exe="/usr/bin/node")]
    case = case_of(ends, [shake(row) for row in range(3)], programs)
    assert [len(server.shakes) for server in servers(case)] == [2, 1]
    assert [len(server.shakes) for server in servers(case, by_process=True)] == [1, 1, 1]


def test_ends_of_servers_are_left_out():
    assert servers(case_of([connection(role="server")], [shake(0)])) == []


@pytest.mark.parametrize(
    ("columns", "mss", "waits"),
    [
        ({"version": "TLSv1.3"}, 1448.0, 0),
        ({"version": "TLSv1.3-draft23"}, 1448.0, 0),
        ({"version": "TLSv1.3", "server_flight_bytes": 19_000.0}, 1448.0, 1),
        ({"version": "TLSv1.3", "server_flight_bytes": 19_000.0}, 32_768.0, 0),
        ({"version": "TLSv1.2"}, 1448.0, 1),
    ],
)
def test_what_resumption_saves(columns, mss, waits):
    (server,) = servers(case_of([connection(mss=mss)], [shake(0, **columns)]))
    assert server.shakes[0].waits == waits


def test_a_segment_is_that_of_a_usual_path():
    case = case_of([connection(mss=32_768.0), connection(mss=1200.0), connection(mss=math.nan)], [])
    assert [segment(link) for link in case.links] == [1460, 1200, 1460]


def test_the_evidence_tells_each_handshake():
    case = case_of(
        [connection(), connection()],
        [
            shake(0, server_ms=1.0, client_ms=2.0, offered="psk", resumed=True),
            shake(1, outcome="failed", resumed=None, alert="unknown_ca", duration_ms=math.nan, offered=None),
        ],
    )
    (server,) = servers(case)
    seen = saw("tls.handshake-failed", server, server.shakes, of=2, confidence=1.0)
    assert [line.note for line in seen.evidence] == [
        "TLSv1.3, resumed in 10 ms, psk offered, server 1.0 ms, client 2.0 ms",
        "TLSv1.3, failed, alert unknown_ca",
    ]
    assert (seen.count, seen.of, seen.host) == (2, 2, "192.0.2.1:443")
