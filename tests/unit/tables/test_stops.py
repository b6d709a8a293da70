# SPDX-License-Identifier: Apache-2.0
"""When processes stood still, from signals, from their cgroup's freezer, and from clocks."""

from __future__ import annotations

import math

import pytest

from netdiag.tables import build
from netdiag.testing import START_NS, RecordingBuilder

SEEN, FORK, EXEC, EXIT, STOPPED, CONTINUED, FROZEN, THAWED, MOVED = range(1, 10)


def stops_of(*events, clocks=()):
    """Play (kind, pid, cgroup, ms); clocks are (ms, ms of sleep so far)."""
    builder = RecordingBuilder()
    for kind, pid, cgroup, at in events:
        builder.record("process", time=START_NS + round(at * 1e6), tgid=pid, kind=kind, cgroup=cgroup, comm="python3")
    for at, slept in clocks:
        now = START_NS + round(at * 1e6)
        builder.fact("clock", monotonic_ns=now, realtime_ns=now, boottime_ns=now + round(slept * 1e6))
    tables = build(builder.recording())
    rows = tables.stops.to_dict("records")
    told = [(row["pid"], row["began_ns"] / 1e6, row["ended_ns"] / 1e6, row["lasted_ms"], row["how"]) for row in rows]
    return told, tables


def test_a_process_that_was_stopped_and_went_on():
    told, tables = stops_of((SEEN, 7, 1, 0), (STOPPED, 7, 1, 100), (CONTINUED, 7, 1, 700), (EXIT, 7, 1, 900))
    assert told == [(7, 100, 700, 600, "signal")]
    assert tables.processes["pid"].tolist() == [7]
    assert tables.processes["ended_ns"].tolist() == [900e6]


def test_one_that_never_went_on():
    ((pid, began, ended, lasted, how),) = stops_of((SEEN, 7, 1, 0), (STOPPED, 7, 1, 100))[0]
    assert (pid, began, how) == (7, 100, "signal")
    assert math.isnan(ended)
    assert math.isnan(lasted)


def test_to_go_on_without_having_been_stopped_is_nothing():
    assert stops_of((SEEN, 7, 1, 0), (CONTINUED, 7, 1, 100))[0] == []


def test_several_threads_and_signals_are_one_stop():
    events = [(STOPPED, 7, 1, 100), (STOPPED, 7, 1, 101), (CONTINUED, 7, 1, 200), (CONTINUED, 7, 1, 201)]
    assert stops_of(*events)[0] == [(7, 100, 200, 100, "signal")]


def test_who_is_killed_while_stopped_has_an_end():
    assert stops_of((STOPPED, 7, 1, 100), (EXIT, 7, 1, 300))[0] == [(7, 100, 300, 200, "signal")]


def test_a_cgroup_that_was_frozen_holds_its_processes_and_no_others():
    told, tables = stops_of(
        (SEEN, 7, 1, 0), (SEEN, 8, 1, 0), (SEEN, 9, 2, 0), (FROZEN, 0, 1, 50), (THAWED, 0, 1, 80), (FROZEN, 0, 3, 90)
    )
    assert told == [(7, 50, 80, 30, "freezer"), (8, 50, 80, 30, "freezer")]
    assert sorted(tables.processes["pid"]) == [7, 8, 9]


def test_whoever_had_left_is_not_held():
    assert stops_of((SEEN, 7, 1, 0), (EXIT, 7, 1, 10), (FROZEN, 0, 1, 50), (THAWED, 0, 1, 80))[0] == []


def test_whoever_was_moved_is_held_where_he_is():
    told, _ = stops_of((SEEN, 7, 1, 0), (SEEN, 8, 2, 0), (MOVED, 7, 2, 10), (MOVED, 8, 1, 10), (FROZEN, 0, 2, 50))
    assert [row[0] for row in told] == [7]


@pytest.mark.parametrize(("slept", "told"), [(61_000, [61_000]), (900, [])])
def test_a_machine_that_slept(slept, told):
    rows = stops_of((SEEN, 7, 1, 0), clocks=[(0, 0), (1000, 0), (2000, slept), (3000, slept)])[0]
    assert [(row[1], row[3], row[4]) for row in rows] == [(2000, lasted, "sleep") for lasted in told]
    assert all(math.isnan(row[0]) for row in rows)


def test_strange_clocks_do_no_harm():
    builder = RecordingBuilder()
    for clock in ({}, {"monotonic_ns": "x", "boottime_ns": 1}, {"monotonic_ns": -5, "boottime_ns": 1 << 70}):
        builder.fact("clock", **clock)
    assert len(build(builder.recording()).stops) == 0
