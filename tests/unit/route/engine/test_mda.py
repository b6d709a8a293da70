# SPDX-License-Identifier: Apache-2.0
"""The stopping rule: its published numbers, and what it still wants to know."""

from __future__ import annotations

import random

import pytest

from netdiag.route.engine.mda import Router, flows_needed, routers, wanting
from netdiag.route.model import Clock, Kind, Matched, Probe, Reply


def probe(flow, ttl, ip, *, kind=Kind.TTL_EXCEEDED, far=False):
    reply = ip and Reply(kind=kind, ip=ip, rtt_ms=1.0, clock=Clock.KERNEL, matched=Matched.SEQUENCE)
    return Probe(flow=flow, ttl=ttl, round=0, attempt=0, sent_ns=0, far=far, reply=reply or None)


@pytest.mark.parametrize(
    ("confidence", "numbers"),
    [
        (0.95, [6, 11, 16, 21, 27, 33, 38, 44, 51, 57, 63, 70, 76, 83, 90, 96]),
        (0.99, [8, 15, 21, 28, 36, 43, 51, 58, 66, 74, 82, 90, 98, 106, 115, 123]),
    ],
)
def test_how_many_flows_exclude_one_more(confidence, numbers):
    assert [flows_needed(found, confidence) for found in range(1, 17)] == numbers
    assert flows_needed(0, confidence) == numbers[0]
    assert flows_needed(99, confidence) == numbers[-1]


def test_who_sends_on_where():
    probes = [
        probe(0, 1, "a"),
        probe(0, 2, "b"),
        probe(1, 1, "a"),
        probe(1, 2, None),
        probe(2, 1, "a"),
        probe(0, 64, "t", far=True),
    ]
    known = routers(probes)
    assert known[0, ""].onward == {0: "a", 1: "a", 2: "a"}
    assert known[1, "a"].onward == {0: "b", 1: None}
    assert known[1, "a"].waiting == {2}
    assert (2, "b") in known


def test_the_target_is_no_router_and_a_mixed_flow_stands_for_none():
    probes = [probe(0, 1, "t", kind=Kind.SYN_ACK), probe(1, 1, "a"), probe(1, 1, "b"), probe(1, 2, "c")]
    known = routers(probes)
    assert set(known) == {(0, ""), (2, "c")}
    assert known[0, ""].onward == {0: ""}


def test_flows_that_are_known_to_pass_are_asked_first():
    known = {
        (0, ""): Router(ttl=0, onward=dict.fromkeys(range(6), "a")),
        (1, "a"): Router(ttl=1, waiting=set(range(4))),
    }
    more = wanting(known, confidence=0.95)
    assert more.pairs == ((0, 2), (1, 2), (2, 2), (3, 2))
    assert more.new == {2: 2}


def test_new_flows_are_counted_up_by_the_share_that_will_pass():
    half = {
        (1, "a"): Router(ttl=1, onward=dict.fromkeys(range(3), "x")),
        (1, "b"): Router(ttl=1, onward=dict.fromkeys(range(3, 6), "x")),
    }
    assert wanting(half, confidence=0.95).new == {2: 6}


def test_where_balancing_is_per_packet_nothing_is_wanted():
    known = {(1, "a"): Router(ttl=1, onward={0: "x"})}
    assert not wanting(known, confidence=0.95, skip={2})
    assert wanting(known, confidence=0.95)


def test_a_silent_next_hop_is_given_up():
    assert not wanting({(1, "a"): Router(ttl=1, onward=dict.fromkeys(range(6)))}, confidence=0.95)
    mostly = {flow: ("x" if flow == 0 else None) for flow in range(12)}
    assert not wanting({(1, "a"): Router(ttl=1, onward=mostly)}, confidence=0.95)


@pytest.mark.parametrize("ways", [1, 2, 4])
def test_the_rule_misses_a_way_no_more_often_than_it_says(ways):
    source = random.Random(7)
    missed = 0
    for _ in range(400):
        met: list[str] = []
        while len(met) < flows_needed(len(set(met)), 0.95):
            met.append(f"hop{source.randrange(ways)}")
        missed += len(set(met)) < ways
    assert missed <= 400 * 0.05 * max(1, ways - 1) * 1.5
