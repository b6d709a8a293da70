# SPDX-License-Identifier: Apache-2.0
"""The plan of a trace: rounds, flows, and what ends the search for more ways."""

from __future__ import annotations

import random

import pytest

from netdiag.route.engine import explore
from netdiag.route.engine.course import Course
from netdiag.route.model import Kind
from netdiag.route.prober import TraceRequest
from tests.fakes.network import FakeChannel, reply, way


def run(network, **request):
    channel = FakeChannel(network)
    wanted = TraceRequest(ip="203.0.113.10", **request)
    course = Course(channel, wanted, base_ns=0, source=random.Random(1), unresolved=frozenset)
    notes = explore.run(course, wanted)
    return channel, course.trace(notes=notes)


def branches(count, *, per_packet=False):
    """Return a way of five routers of which the third is one of several."""
    source = random.Random(3)

    def network(shot, at_ms):
        if shot.ttl != 3:
            return way(6, 20.0)(shot, at_ms)
        branch = source.randrange(count) if per_packet else random.Random(shot.flow).randrange(count)
        return [reply(Kind.TTL_EXCEEDED, f"198.18.3.{branch}", 10.0)]

    return network


def met(trace, ttl):
    return {probe.reply.ip for probe in trace.probes if probe.ttl == ttl and probe.reply is not None}


def test_one_round_of_one_flow_is_the_least():
    channel, trace = run(way(6, 20.0))
    assert {shot.flow for _, shot in channel.sent} == {0}
    assert (trace.rounds, trace.notes) == (1, ())


def test_rounds_that_do_not_fit_are_left_out_and_said():
    _, trace = run(way(6, 20.0), rounds=5, budget_s=2.5)
    assert trace.rounds == 3
    assert "3 of 5 rounds" in trace.notes[0]


def test_given_flows_are_sent_together():
    channel, _ = run(way(6, 20.0), flows=3)
    assert {shot.flow for _, shot in channel.sent} == {0, 1, 2}


def test_a_single_way_is_certain_after_six_flows():
    channel, trace = run(way(6, 20.0), flows=0)
    assert len({shot.flow for _, shot in channel.sent}) == 6
    assert trace.duration_ms < 200


@pytest.mark.parametrize("count", [2, 3, 5])
def test_all_branches_are_found(count):
    _, trace = run(branches(count), flows=0, budget_s=30.0)
    assert met(trace, 3) == {f"198.18.3.{branch}" for branch in range(count)}
    assert trace.notes == ()


def test_per_packet_balancing_is_seen_and_not_searched_on():
    _, trace = run(branches(2, per_packet=True), flows=0)
    same = [probe.reply.ip for probe in trace.probes if probe.ttl == 3 and probe.flow == 0 and probe.reply]
    assert len(set(same)) == 2
    assert trace.duration_ms < 3000


def test_time_ends_the_search():
    _, trace = run(branches(8), flows=0, budget_s=2.2)
    assert trace.notes == ("the time ended the search for more ways",)
    assert trace.duration_ms <= 2300


def test_routers_that_quote_too_little_are_asked_one_by_one():
    def network(shot, at_ms):
        answers = way(6, 20.0)(shot, at_ms)
        if shot.flow == 0 and shot.ttl < 6:
            channel_tally[0].unclaimed += 1
            return []
        return answers

    channel = FakeChannel(network)
    channel_tally = [channel.tally]
    wanted = TraceRequest(ip="203.0.113.10")
    course = Course(channel, wanted, base_ns=0, source=random.Random(1), unresolved=frozenset)
    explore.run(course, wanted)
    trace = course.trace()
    assert all(met(trace, ttl) for ttl in range(1, 7))
    flows = [probe.flow for probe in trace.probes if probe.flow]
    assert len(flows) == len(set(flows)) == 5


def overtaken(lost, *, silent=()):
    """Return a way of five routers to a target that answers none of the `lost` first probes that reach it by TTL."""
    left = dict(lost)

    def network(shot, at_ms):
        if shot.ttl in silent:
            return []
        if left.get(shot.ttl, 0) > 0:
            left[shot.ttl] -= 1
            return []
        return way(6, 20.0)(shot, at_ms)

    return network


@pytest.mark.parametrize("lost", [{6: 1}, {6: 1, 7: 1}, {6: 1, 7: 1, 8: 1}])
def test_a_target_that_left_early_probes_unanswered_is_not_set_farther_away(lost):
    _, trace = run(overtaken(lost))
    reached = [probe.ttl for probe in trace.probes if probe.reply is not None and probe.reply.kind is Kind.SYN_ACK]
    assert min(reached) == 6


def test_a_silent_router_before_the_target_costs_one_probe_more():
    _, quiet = run(overtaken({}, silent={5}))
    _, trace = run(overtaken({}))
    assert [probe.ttl for probe in quiet.probes].count(5) == 2
    assert [probe.ttl for probe in trace.probes].count(5) == 1
    assert quiet.rounds == trace.rounds == 1
    assert quiet.duration_ms <= 2 * (20.0 + 30.0)
