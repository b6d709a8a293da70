# SPDX-License-Identifier: Apache-2.0
"""The way of an open connection's own segments, while the program goes on using it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from netdiag.errors import Unsupported
from netdiag.route.engine.session import Endpoints, learn
from netdiag.route.lab.topology import shipped
from netdiag.route.lab.world import NOBODY, World
from netdiag.route.model import Ended, Kind, Method, Trace
from netdiag.route.store import restore

pytestmark = pytest.mark.kernel

PROGRAM = Path(__file__).resolve().parents[3] / "fakes" / "inside.py"


@pytest.fixture(scope="module")
def world():
    with World(shipped()["plain"]) as made:
        yield made


@pytest.mark.parametrize("version", [4, 6])
def test_the_way_is_seen_and_the_connection_lives(world, version):
    ip = world.topology.sites[0].ips[version == 6]
    shown = json.loads(world.run([sys.executable, str(PROGRAM), ip]))
    trace = restore(Trace, shown["trace"])
    assert shown["answered"] == [True, True, True]
    assert (trace.method, trace.ended, trace.single_flow) == (Method.IN_SESSION, Ended.ANSWERED, True)
    met = {probe.ttl: probe.reply for probe in trace.probes if probe.reply is not None}
    hops = world.topology.sites[0].ways[0].hops
    assert [met[ttl].ip for ttl in range(1, 7)] == [hop.address(version) for hop in hops]
    assert [probe.reply and probe.reply.kind for probe in trace.probes if probe.far] == [Kind.ACK]
    assert not set(met) & {7, 8, 9, 10}  # the far end acknowledges one of several


def test_it_needs_privileges(world):
    with pytest.raises(Unsupported, match="raw sockets need root"):
        world.run([sys.executable, str(PROGRAM), "203.0.113.10"], uid=NOBODY)


def test_a_connection_that_is_silent_tells_nothing():
    ends = Endpoints(local_ip="127.0.0.1", local_port=9, remote_ip="127.0.0.1", remote_port=9)
    assert learn(ends, 0.2) is None
