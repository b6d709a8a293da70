# SPDX-License-Identifier: Apache-2.0
"""When a trace sends what, and when it is over, on a network that is a function."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.route.engine.course import FAR_TTL, Course
from netdiag.route.model import Ended, Kind
from netdiag.route.prober import TraceRequest
from tests.fakes.network import FakeChannel, reply, way


def run(network, *, bursts=1, unresolved=frozenset, **request):
    channel = FakeChannel(network)
    wanted = TraceRequest(ip="203.0.113.10", **request)
    course = Course(channel, wanted, base_ns=0, source=random.Random(1), unresolved=unresolved)
    course.warm_up()
    for number in range(bursts):
        since = channel.now_ns()
        course.burst([0])
        if number + 1 < bursts:
            course.pause(since)
    return course, channel, course.trace()


def asked(channel):
    return [shot.ttl for _, shot in channel.sent]


def silent(trace, length):
    answered = {probe.ttl for probe in trace.probes if probe.reply is not None}
    return [ttl for ttl in range(1, length) if ttl not in answered]


@pytest.mark.parametrize("length", [1, 2, 7, 16, 17, 23, 30, 39])
@pytest.mark.parametrize("back", [None, 0, 2])
def test_the_whole_way_is_found_in_little_more_than_two_round_trips(length, back):
    course, _, trace = run(way(length, 95.0, back=None if back is None else length - 1 + back))
    assert (trace.ended, course.reach) == (Ended.ANSWERED, length)
    assert silent(trace, length) == []
    assert trace.duration_ms < 95 * 2 + 75


@pytest.mark.parametrize(("length", "back"), [(39, 3), (30, 3), (39, 30), (9, 14), (2, 40)])
def test_a_way_back_of_another_length_costs_one_round_trip_more_at_most(length, back):
    course, _, trace = run(way(length, 95.0, back=back))
    assert course.reach == length
    assert silent(trace, length) == []
    assert trace.duration_ms < 95 * 3 + 75


def test_a_silent_router_does_not_hold_the_trace_up():
    _, _, trace = run(way(30, 95.0, silent=[12]))
    assert silent(trace, 30) == [12]
    assert trace.duration_ms < 225


def test_a_complete_way_ends_at_once():
    _, _, trace = run(way(7, 22.0))
    assert trace.duration_ms < 23


def test_hops_are_asked_in_random_order_all_at_once_and_once():
    _, channel, _ = run(way(12, 40.0))
    ttls = asked(channel)
    assert ttls[0] == FAR_TTL
    assert sorted(ttls[1:17]) == list(range(1, 17))
    assert ttls[1:17] != list(range(1, 17))
    assert len({at for at, _ in channel.sent[:17]}) == 1


@pytest.mark.parametrize("length", [3, 9, 14])
def test_few_probes_go_beyond_the_target(length):
    _, channel, _ = run(way(length, 30.0))
    assert max(ttl for ttl in asked(channel) if ttl != FAR_TTL) <= max(16, length + 8)


def test_later_rounds_ask_no_further_than_the_target():
    _, channel, trace = run(way(6, 30.0, silent=[5]), bursts=3)
    later = [shot.ttl for at, shot in channel.sent if at > 500]
    assert max(ttl for ttl in later if ttl != FAR_TTL) == 6
    assert trace.rounds == 3
    starts = sorted({probe.sent_ns for probe in trace.probes})
    assert starts[-1] - starts[0] == 2_000_000_000


def test_a_target_that_moved_away_is_found_again():
    def moving(shot, at_ms):
        return way(6 if at_ms < 500 else 9, 30.0)(shot, at_ms)

    _, _, trace = run(moving, bursts=2)
    late = [p for p in trace.probes if p.round == 1 and p.reply and p.reply.kind is Kind.SYN_ACK and not p.far]
    assert min(probe.ttl for probe in late) == 9


def test_nobody_answers():
    _, _, trace = run(lambda *_: [])
    assert trace.ended is Ended.SILENT
    assert trace.duration_ms == pytest.approx(1000, abs=2)
    assert max(probe.ttl for probe in trace.probes if not probe.far) == 16


def test_a_target_that_stays_silent_is_looked_for_only_so_far():
    def network(shot, _at_ms):
        return [] if shot.ttl > 9 else [reply(Kind.TTL_EXCEEDED, f"198.18.0.{shot.ttl}", 5.0 * shot.ttl)]

    _, _, trace = run(network)
    assert trace.ended is Ended.SILENT
    assert max(probe.ttl for probe in trace.probes if not probe.far) == 17


def test_a_refusal_ends_the_wait_but_is_not_the_target():
    def network(shot, _at_ms):
        if shot.ttl > 4:
            return [reply(Kind.UNREACHABLE, "203.0.113.10", 20.0)]
        return [reply(Kind.TTL_EXCEEDED, f"198.18.0.{shot.ttl}", 5.0 * shot.ttl)]

    course, _, trace = run(network)
    assert (trace.ended, course.reach) == (Ended.REFUSED, None)
    assert trace.duration_ms < 100


def test_a_translator_in_the_targets_name_does_not_end_the_trace():
    def network(shot, at_ms):
        if shot.ttl == 3:
            return [reply(Kind.TTL_EXCEEDED, "203.0.113.10", 9.0)]
        return way(8, 30.0)(shot, at_ms)

    course, _, trace = run(network)
    assert course.reach == 8
    assert silent(trace, 8) == []


def test_further_answers_are_counted_and_the_first_one_stays():
    def network(shot, at_ms):
        first = way(5, 20.0)(shot, at_ms)
        return [*first, (first[0][0] + 1, first[0][1])] if shot.ttl == 2 else first

    _, _, trace = run(network)
    (probe,) = [probe for probe in trace.probes if probe.ttl == 2]
    assert probe.reply is not None
    assert (probe.reply.rtt_ms, probe.reply.copies, trace.ignored.duplicates) == (8.0, 1, 1)


def test_where_the_target_answers_only_the_far_probe_the_distance_stays_unknown():
    def network(shot, _at_ms):
        return [reply(Kind.SYN_ACK, "203.0.113.10", 30.0)] if shot.ttl == FAR_TTL else []

    course, channel, trace = run(network)
    assert (trace.ended, course.reach) == (Ended.ANSWERED, None)
    assert max(ttl for ttl in asked(channel) if ttl != FAR_TTL) == 40
    assert trace.duration_ms < 400


def test_a_probe_that_waited_for_a_neighbour_does_not_count():
    answers = iter([frozenset(), frozenset({(2, b"x")}), frozenset({(2, b"x")}), frozenset()])
    _, channel, trace = run(way(5, 20.0), unresolved=lambda: next(answers, frozenset()))
    assert [probe.warm_up for probe in trace.probes[:2]] == [True, False]
    assert asked(channel)[:2] == [FAR_TTL, FAR_TTL]


def test_the_budget_ends_everything():
    course, _, trace = run(lambda *_: [], budget_s=0.2)
    assert trace.ended is Ended.BUDGET
    assert trace.duration_ms == pytest.approx(200, abs=2)
    assert not course.pause(course.channel.now_ns())


def test_nothing_could_be_sent():
    channel = FakeChannel(way(3, 5.0), broken=True)
    course = Course(channel, TraceRequest(ip="203.0.113.10"), base_ns=0, source=random.Random(1), unresolved=frozenset)
    course.burst([0])
    trace = course.trace(error="no way there")
    assert (trace.ended, trace.probes, trace.error) == (Ended.FAILED, (), "no way there")


@given(st.integers(1, 39), st.floats(0.1, 300), st.sets(st.integers(1, 39)), st.none() | st.integers(0, 40))
def test_any_way_is_found_and_ended(length, ms, mute, back):
    course, channel, trace = run(way(length, ms, silent=sorted(mute), back=back))
    assert trace.ended is Ended.ANSWERED
    assert course.reach == length
    assert silent(trace, length) == sorted(ttl for ttl in mute if ttl < length)
    assert len(set(asked(channel))) == len(channel.sent)
    assert trace.duration_ms <= 1000 + ms
