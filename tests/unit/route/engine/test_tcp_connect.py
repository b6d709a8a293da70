# SPDX-License-Identifier: Apache-2.0
"""Connecting sockets as probes, on loopback: an open port, a closed one, and what is left when all is over."""

from __future__ import annotations

import socket
import time

import pytest

from netdiag.route.engine.channel import Arrival, Shot
from netdiag.route.engine.tcp_connect import TcpConnect, handshake_rtt_ms
from netdiag.route.model import Clock, Kind, Matched


@pytest.fixture(params=["127.0.0.1", "::1"])
def address(request):
    return request.param


@pytest.fixture
def listener(address):
    with socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET) as server:
        yield server


def collect(channel, count):
    arrivals: list[Arrival] = []
    end = time.monotonic() + 3
    while len(arrivals) < count and time.monotonic() < end:
        arrivals += channel.receive(0.2)
    return sorted(arrivals, key=lambda arrival: arrival.number)


def test_an_open_port_acknowledges_each_probe(address, listener):
    channel = TcpConnect(address, listener.getsockname()[1])
    sent = channel.send([Shot(number=number, flow=0, ttl=3 + number) for number in range(4)])
    arrivals = collect(channel, 4)
    channel.close()
    assert [arrival.number for arrival in arrivals] == [0, 1, 2, 3]
    assert {(a.reply.kind, a.reply.matched, a.reply.clock) for a in arrivals} == {
        (Kind.SYN_ACK, Matched.SOCKET, Clock.TCP_INFO)
    }
    assert len({one.source_port for one in sent}) == 4
    assert not channel.single_flow


def test_a_closed_port_resets(address, listener):
    port = listener.getsockname()[1]
    listener.close()
    channel = TcpConnect(address, port)
    channel.send([Shot(number=0, flow=0, ttl=5)])
    (arrival,) = collect(channel, 1)
    channel.close()
    assert (arrival.reply.kind, arrival.reply.ip) == (Kind.RST, address)


def test_flows_have_no_source_port_of_their_own(address, listener):
    channel = TcpConnect(address, listener.getsockname()[1])
    channel.send([Shot(number=0, flow=1, ttl=9)])
    assert [(flow.id, flow.source_port, flow.source_ip) for flow in channel.flows()] == [
        (0, None, address),
        (1, None, address),
    ]
    channel.close()
    assert channel._open == {}


def test_the_handshakes_own_round_trip(listener):
    with socket.create_connection(listener.getsockname()[:2]) as sock:
        rtt_ms = handshake_rtt_ms(sock)
    assert rtt_ms is not None
    assert 0 < rtt_ms < 1000


def test_a_socket_that_never_connected_has_none():
    with socket.socket() as sock:
        assert handshake_rtt_ms(sock) is None
