# SPDX-License-Identifier: Apache-2.0
"""One reply: the target's own or not, and how far it came."""

from __future__ import annotations

import pytest

from netdiag.route.model import Clock, Kind, Matched, Protocol, Reply
from netdiag.route.replies import from_target, return_hops


def reply(kind, ip="192.0.2.9"):
    return Reply(kind=kind, ip=ip, rtt_ms=1.0, clock=Clock.KERNEL, matched=Matched.SEQUENCE)


@pytest.mark.parametrize("kind", [Kind.SYN_ACK, Kind.RST, Kind.ECHO_REPLY, Kind.DATA, Kind.ACK])
def test_what_acknowledges_a_probe_is_the_targets(kind):
    assert from_target(reply(kind), ip="192.0.2.9", protocol=Protocol.TCP)


@pytest.mark.parametrize("kind", [Kind.TTL_EXCEEDED, Kind.UNREACHABLE, Kind.TOO_BIG])
def test_an_error_in_the_targets_name_is_not(kind):
    assert not from_target(reply(kind), ip="192.0.2.9", protocol=Protocol.TCP)


def test_a_closed_port_answers_udp_only_and_only_itself():
    closed = reply(Kind.PORT_UNREACHABLE)
    assert from_target(closed, ip="192.0.2.9", protocol=Protocol.UDP)
    assert not from_target(closed, ip="192.0.2.9", protocol=Protocol.TCP)
    assert not from_target(closed, ip="192.0.2.8", protocol=Protocol.UDP)


@pytest.mark.parametrize(
    ("ttl", "hops"), [(64, 0), (57, 7), (65, 63), (128, 0), (241, 14), (None, None), (0, None), (256, None)]
)
def test_the_way_back_is_what_is_missing_to_a_usual_start(ttl, hops):
    assert return_hops(ttl) == hops
