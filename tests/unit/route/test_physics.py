# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.route.gazetteer import gazetteer
from netdiag.route.physics import distance_km, fibre_ms, loop_km, reach_km, vacuum_ms

POINTS = st.tuples(st.floats(-90, 90), st.floats(-180, 180))


def point(code):
    return gazetteer().codes[code].point


@pytest.mark.parametrize(
    ("way", "fibre", "vacuum"),
    [
        (("FRA", "JFK", "FRA"), 60.7, 41.4),
        (("BER", "JFK", "FRA"), 63.8, 43.5),
        (("BOM", "SIN", "SIN"), 38.4, 26.2),
        (("KUL", "HKG", "HKG"), 24.9, 17.0),
        (("AMS", "SJC", "SJC"), 86.1, 58.6),
    ],
)
def test_floors_of_known_ways(way, fibre, vacuum):
    km = loop_km(*map(point, way))
    assert fibre_ms(km) == pytest.approx(fibre, rel=0.01)
    assert vacuum_ms(km) == pytest.approx(vacuum, rel=0.015)


@given(POINTS, POINTS)
def test_distances_are_symmetric_and_at_most_half_the_earth(one, other):
    assert distance_km(one, other) == pytest.approx(distance_km(other, one), abs=1e-6)
    assert 0 <= distance_km(one, other) <= 20_016


@given(POINTS, POINTS, POINTS)
def test_a_loop_is_never_shorter_than_there_and_back(start, middle, end):
    assert loop_km(start, middle, end) >= 2 * distance_km(start, middle) - 1e-6


@given(st.floats(0, 1000))
def test_reach_and_time_are_inverse(ms):
    assert vacuum_ms(2 * reach_km(ms)) == pytest.approx(ms)
