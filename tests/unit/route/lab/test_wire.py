# SPDX-License-Identifier: Apache-2.0
"""The wire between two devices, on pairs of sockets: the devices need root."""

from __future__ import annotations

import socket
import time

import pytest

from netdiag.route.engine import packet
from netdiag.route.engine.packet import FlowKey
from netdiag.route.lab.emulator import Emulator
from netdiag.route.lab.topology import read
from netdiag.route.lab.wire import Wire

NETWORK = {
    "title": "t",
    "sites": [{"ips": ["203.0.113.10"], "ways": [{"ms": 60.0, "hops": [{"ip": "198.18.0.1", "ms": 20.0}]}]}],
}
KEY = FlowKey(source=packet.packed("198.18.255.2"), destination=packet.packed("203.0.113.10"), source_port=1, port=2)


@pytest.fixture
def ends():
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2)]
    for _, inner in pairs:
        inner.setblocking(False)
    yield pairs
    for outer, inner in pairs:
        outer.close()
        inner.close()


def test_each_packet_comes_out_when_it_is_due_and_where(ends):
    (client, near), (server, far) = ends
    wire = Wire((near.fileno(), far.fileno()), Emulator(read(NETWORK)))
    began = time.monotonic()
    client.send(packet.udp(KEY, 9, 1))
    client.send(packet.udp(KEY, 1, 2))
    came: dict[str, float] = {}
    while len(came) < 2 and time.monotonic() - began < 5:
        wire.step()
        for name, end in (("client", client), ("server", server)):
            try:
                end.recv(2048, socket.MSG_DONTWAIT)
            except BlockingIOError:
                continue
            came[name] = time.monotonic() - began
    assert came["client"] >= 0.02
    assert came["server"] >= 0.03
    assert came["client"] < came["server"]
