# SPDX-License-Identifier: Apache-2.0
"""Raw packets on loopback: what comes back is matched, what others send is counted, and the ports are held."""

from __future__ import annotations

import random
import socket
import time

import pytest

from netdiag.route.engine.channel import Shot
from netdiag.route.engine.raw import Raw
from netdiag.route.model import Clock, Kind, Matched, Protocol, Reply

pytestmark = pytest.mark.kernel


@pytest.fixture(params=["127.0.0.1", "::1"])
def address(request):
    return request.param


@pytest.fixture
def listener(address):
    with socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET) as server:
        yield server.getsockname()[1]


@pytest.fixture
def raw(address, listener):
    made = []

    def make(protocol, port=listener):
        made.append(Raw(address, port, protocol, source=address, chance=random.Random(7)))
        return made[-1]

    yield make
    for channel in made:
        channel.close()


def collect(channel, count):
    arrivals: dict[int, Reply] = {}
    end = time.monotonic() + 2
    while len(arrivals) < count and time.monotonic() < end:
        arrivals |= {arrival.number: arrival.reply for arrival in channel.receive(0.1)}
    return arrivals


def shots(count, *, flow=0, first=0):
    return [Shot(number=first + at, flow=flow, ttl=1 + at) for at in range(count)]


def test_an_open_port_answers_every_syn_of_one_flow(raw):
    channel = raw(Protocol.TCP)
    channel.send(shots(6))
    arrivals = collect(channel, 6)
    assert sorted(arrivals) == list(range(6))
    assert {reply.kind for reply in arrivals.values()} <= {Kind.SYN_ACK, Kind.RST}
    assert {reply.matched for reply in arrivals.values()} == {Matched.SEQUENCE}
    assert Clock.KERNEL in {reply.clock for reply in arrivals.values()}
    assert len({flow.source_port for flow in channel.flows()}) == 1


def test_a_closed_udp_port_is_unreachable(raw, address):
    channel = raw(Protocol.UDP)
    channel.send(shots(3))
    arrivals = collect(channel, 3)
    assert sorted(arrivals) == [0, 1, 2]
    reply = arrivals[0]
    assert (reply.kind, reply.ip, reply.matched) == (Kind.PORT_UNREACHABLE, address, Matched.PAYLOAD)
    assert reply.quote is not None
    assert reply.quote.changed == ()


def test_echoes_come_back(raw):
    channel = raw(Protocol.ICMP)
    channel.send([*shots(3), *shots(3, flow=1, first=3)])
    arrivals = collect(channel, 6)
    assert sorted(arrivals) == list(range(6))
    assert {reply.kind for reply in arrivals.values()} == {Kind.ECHO_REPLY}
    assert len({(flow.source_port, flow.port) for flow in channel.flows()}) == 2


def test_the_port_of_a_flow_is_held_until_the_end(raw, address):
    channel = raw(Protocol.TCP)
    channel.send(shots(1))
    port = channel.flows()[0].source_port
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as other:
        with pytest.raises(OSError, match="in use"):
            other.bind((address, port))
        channel.close()
        other.bind((address, port))


def test_other_connections_to_the_target_are_foreign(raw, address, listener):
    channel = raw(Protocol.TCP)
    channel.send(shots(1))
    with socket.create_connection((address, listener)):
        collect(channel, 2)
    assert channel.tally.foreign >= 1
    assert channel.tally.mismatched == 0
