# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.route.flips import clusters, redial_gain_ms
from netdiag.route.model import Connect
from tests.fakes.routes import attempt, connect

NEAR = [12.0, 12.4, 12.1, 12.9, 12.2, 12.3, 12.5, 12.0]


def test_two_places_by_their_own_word():
    attempts = [attempt(ms, port=at, pop="FRA") for at, ms in enumerate(NEAR)]
    attempts += [attempt(14.0, port=90, pop="AMS"), attempt(14.2, port=91, pop="AMS")]
    found = clusters(Connect(ip="203.0.113.10", port=443, attempts=tuple(attempts)))
    assert [(one.pop, one.count) for one in found] == [("FRA", 8), ("AMS", 2)]
    assert redial_gain_ms(found) == pytest.approx(1.85)


def test_two_groups_of_round_trips():
    found = clusters(connect([48.0, *NEAR[:4], 48.3, 49.0, *NEAR[4:], 48.1]))
    assert [(one.pop, one.count) for one in found] == [(None, 8), (None, 4)]


@pytest.mark.parametrize(
    "times",
    [
        [*NEAR, 48.0, 12.3, 12.2, 12.4],  # one slow one is no group
        NEAR[:4] + [48.0] * 4,  # too few ports
        [10.0 + 6 * at for at in range(14)],  # a line that scatters
        [*NEAR[:4], 48.0, *NEAR[4:], 95.0, 12.1],  # two slow ones that have nothing in common
        NEAR * 2,
        [*NEAR, 48.0, 48.3, 49.0, 48.1],  # slow from some moment on: the way changed, not the lot
    ],
)
def test_no_flip(times):
    assert len(clusters(connect(times))) == 1


def test_connections_that_were_slow_at_one_moment_are_no_flip():
    """Four at a time; one volley met a pause of the line."""
    rows = [
        replace(attempt(48.0 if volley == 1 else 12.0, port=port), started_ns=volley * 60_000_000 + port)
        for volley in range(3)
        for port in range(10 * volley, 10 * volley + 4)
    ]
    assert len(clusters(Connect(ip="203.0.113.10", port=443, attempts=tuple(rows)))) == 1
    slow = [0, 5, 10]
    rows = [replace(one, connect_ms=48.0 if at in slow else 12.0) for at, one in enumerate(rows)]
    assert [one.count for one in clusters(Connect(ip="203.0.113.10", port=443, attempts=tuple(rows)))] == [9, 3]


@pytest.mark.parametrize("paused", [[1], [0, 2], [1, 2]])
def test_pauses_of_a_busy_machine_are_no_flip(paused: list[int]) -> None:
    """Four at a time, begun within 3 ms; all of a volley wait until the pause is over."""
    rows = [
        replace(
            attempt(48.0 - at if volley in paused else 12.0, port=10 * volley + at),
            started_ns=volley * 100_000_000 + at * 1_000_000,
        )
        for volley in range(4)
        for at in range(4)
    ]
    assert len(clusters(Connect(ip="203.0.113.10", port=443, attempts=tuple(rows)))) == 1


def test_quick_connections_while_slow_ones_are_under_way_tell_of_lots() -> None:
    """Two slow ones in one volley: seen once, yet no pause lets others of the same moment through."""
    times = [12.0, 48.0, 12.2, 48.2, *NEAR]
    rows = [
        replace(attempt(ms, port=at), started_ns=(at // 4) * 100_000_000 + (0 if ms > 40 else at * 1_000_000))
        for at, ms in enumerate(times)
    ]
    assert [one.count for one in clusters(Connect(ip="203.0.113.10", port=443, attempts=tuple(rows)))] == [10, 2]


def test_nothing_measured():
    assert clusters(connect([None, None])) == ()
    assert redial_gain_ms(()) is None


@given(st.lists(st.floats(0.1, 500), min_size=1, max_size=40))
def test_every_connection_is_in_one_group(times):
    found = clusters(connect(times))
    assert sum(one.count for one in found) == len(times)
    assert [one.figures.min_ms for one in found] == sorted(one.figures.min_ms for one in found)
