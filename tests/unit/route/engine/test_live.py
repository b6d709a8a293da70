# SPDX-License-Identifier: Apache-2.0
"""Which method is taken, what is said about those that were left, and that nothing a network does raises."""

from __future__ import annotations

import socket

import pytest

from netdiag.errors import NotPermitted
from netdiag.route.engine import live
from netdiag.route.engine.live import LiveProber, raw_allowed
from netdiag.route.model import Ended, Kind, Method, Protocol
from netdiag.route.prober import ConnectRequest, TraceRequest


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def forbid(monkeypatch):
    def refuse(*_args, **_kwargs):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(live, "Raw", refuse)


def test_tcp_without_privileges(port):
    trace = LiveProber().trace(TraceRequest(ip="127.0.0.1", port=port, privileged=False, max_ttl=4))
    assert (trace.method, trace.ended, trace.single_flow) == (Method.TCP_CONNECT, Ended.ANSWERED, False)
    assert {probe.reply.kind for probe in trace.probes if probe.reply} == {Kind.SYN_ACK}
    assert (trace.port, trace.notes) == (port, ())


def test_udp_without_privileges(port):
    request = TraceRequest(ip="127.0.0.1", port=port, protocol=Protocol.UDP, privileged=False, max_ttl=4)
    trace = LiveProber().trace(request)
    assert (trace.method, trace.ended, trace.single_flow) == (Method.UDP_SOCKET, Ended.ANSWERED, True)
    assert trace.probes[0].sent_ns > 0


def test_raw_sockets_that_are_not_allowed_are_left_and_that_is_said(port, monkeypatch):
    forbid(monkeypatch)
    trace = LiveProber().trace(TraceRequest(ip="127.0.0.1", port=port, max_ttl=2))
    assert trace.method is Method.TCP_CONNECT
    assert "CAP_NET_RAW" in trace.notes[0]
    with pytest.raises(NotPermitted):
        LiveProber().trace(TraceRequest(ip="127.0.0.1", port=port, privileged=True))


def test_icmp_sockets_that_are_closed_make_a_failed_trace(monkeypatch):
    def refuse(*_args, **_kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(live, "Datagram", refuse)
    request = TraceRequest(ip="127.0.0.1", protocol=Protocol.ICMP, privileged=False)
    trace = LiveProber().trace(request)
    assert (trace.ended, trace.method, trace.port) == (Ended.FAILED, Method.ICMP_SOCKET, None)
    assert "ping_group_range" in (trace.error or "")


def test_no_way_there(monkeypatch):
    monkeypatch.setattr(live, "source_address", lambda _ip: None)
    trace = LiveProber().trace(TraceRequest(ip="192.0.2.1"))
    assert (trace.ended, trace.probes) == (Ended.FAILED, ())
    assert "no way" in (trace.error or "")


def test_instants_count_from_the_given_start(port):
    connect = LiveProber(base_ns=0).connect(ConnectRequest(ip="127.0.0.1", port=port, attempts=1))
    later = LiveProber().connect(ConnectRequest(ip="127.0.0.1", port=port, attempts=1))
    assert connect.attempts[0].started_ns > later.attempts[0].started_ns >= 0


def test_whether_raw_sockets_are_allowed_is_found_without_sending():
    class Made:
        closed = False

        def close(self):
            Made.closed = True

    def refuse(*_args, **_kwargs):
        raise PermissionError(1, "Operation not permitted")

    assert raw_allowed(lambda *_args, **_kwargs: Made())  # type: ignore[arg-type]
    assert Made.closed
    assert not raw_allowed(refuse)
