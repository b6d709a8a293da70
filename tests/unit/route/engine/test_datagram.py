# SPDX-License-Identifier: Apache-2.0
"""UDP sockets as probes, on loopback: closed ports, echoes, strangers, and errors that quote too little."""

from __future__ import annotations

import socket
import time

import pytest

from netdiag.route.engine import errqueue, packet
from netdiag.route.engine.channel import Arrival, Shot
from netdiag.route.engine.datagram import Datagram
from netdiag.route.engine.errqueue import QueuedError
from netdiag.route.model import Clock, Kind, Matched, Protocol

MAGIC = b"8 bytes!"


@pytest.fixture(params=["127.0.0.1", "::1"])
def address(request):
    return request.param


@pytest.fixture
def peer(address):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((address, 0))
        sock.settimeout(2)
        yield sock


@pytest.fixture
def channel(address, peer):
    made = Datagram(address, peer.getsockname()[1], Protocol.UDP, magic=MAGIC, source=address)
    yield made
    made.close()


def collect(channel, count):
    arrivals: list[Arrival] = []
    end = time.monotonic() + 3
    while len(arrivals) < count and time.monotonic() < end:
        arrivals += channel.receive(0.2)
    return sorted(arrivals, key=lambda arrival: arrival.number)


def shots(*numbers, flow=0):
    return [Shot(number=number, flow=flow, ttl=9) for number in numbers]


def test_a_closed_port_answers_each_probe(address, peer, channel):
    peer.close()
    channel.send(shots(0, 1, 2))
    arrivals = collect(channel, 3)
    assert [arrival.number for arrival in arrivals] == [0, 1, 2]
    assert {(a.reply.kind, a.reply.ip, a.reply.matched) for a in arrivals} == {
        (Kind.PORT_UNREACHABLE, address, Matched.PAYLOAD)
    }
    assert Clock.KERNEL in {arrival.reply.clock for arrival in arrivals}


def test_probes_of_a_flow_come_from_one_port(peer, channel):
    channel.send([*shots(0, 1), *shots(2, flow=1)])
    ports = [peer.recvfrom(100)[1][1] for _ in range(3)]
    assert ports[0] == ports[1] != ports[2]
    assert [flow.source_port for flow in channel.flows()] == [ports[0], ports[2]]


def test_only_a_payload_of_ours_is_an_answer(peer, channel):
    channel.send(shots(4))
    data, client = peer.recvfrom(100)
    peer.sendto(b"hello", client)
    peer.sendto(packet.payload(MAGIC, 99), client)
    peer.sendto(data, client)
    (arrival,) = collect(channel, 1)
    assert (arrival.number, arrival.reply.kind) == (4, Kind.DATA)
    assert channel.tally.mismatched == 2


def test_a_stranger_is_not_heard(address, peer, channel):
    channel.send(shots(4))
    data, client = peer.recvfrom(100)
    if address == "127.0.0.1":
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.bind(("127.0.0.2", 0))
            stranger.sendto(data, client)
        assert channel.receive(0.5) == []
        assert channel.tally.mismatched == 1


def test_an_error_that_quotes_no_payload_is_only_told_by_a_socket_of_one_probe(channel, monkeypatch):
    channel.send([*shots(0, 1), *shots(2, flow=1)])
    bare = QueuedError(
        version=4,
        kind=Kind.TTL_EXCEEDED,
        code=0,
        ip="198.18.0.1",
        port=1,
        mtu=None,
        ttl=None,
        stamp_ns=None,
        data=b"",
        extension=None,
    )
    queue = [bare, None, bare, None]
    monkeypatch.setattr(errqueue, "read", lambda _sock: queue.pop(0))
    lines = channel._lines
    assert channel._errors(lines[0]) == []
    (arrival,) = channel._errors(lines[1])
    assert (arrival.number, arrival.reply.matched) == (2, Matched.SOCKET)
    assert channel.tally.unclaimed == 1


def test_echo_replies_are_told_from_other_messages(channel):
    key = packet.FlowKey(source=bytes(4), destination=bytes(4), source_port=1, port=0, magic=MAGIC)
    request = packet.echo_segment(key, 3)
    channel.protocol = Protocol.ICMP
    channel._version = 4
    channel._stamps.sent(3)
    assert channel._answer_number(b"\0" + request[1:]) == 3
    assert channel._answer_number(request) is None
    assert channel._answer_number(b"\0" + request[1:15]) is None
    assert channel._number(request[:8]) == 3  # an old router's quote
    assert channel._number(request[:8] + b"somebody") is None
