# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.weights.walk import walk
from tests.fakes import loads


@pytest.mark.parametrize(
    ("steps", "direction", "source"),
    [
        ({"forward": 100, "near": 100}, "forward", "faults"),
        ({"forward": 100, "near": 40}, "jumping", "faults"),
        ({"forward": 84, "backward": 16, "near": 100}, "random", "faults"),
        ({"forward": 30, "backward": 70, "near": 100}, "backward", "faults"),
        ({"forward": 30, "backward": 70, "near": 10}, "random", "faults"),
        ({"around_forward": 5, "around_backward": 95, "around_near": 100, "forward": 9}, "backward", "around"),
        ({"gets": 50, "gets_backward": 50}, "backward", "reads"),
        ({"readahead_waited": 10, "readahead_ahead": 20, "readahead_backward": 1}, "forward", "readahead"),
        ({"forward": 7}, None, "faults"),
        ({}, None, None),
    ],
)
def test_a_direction_and_what_shows_it(steps, direction, source):
    way = walk(loads.file(**steps))
    assert (way.direction, way.source) == (direction, source)


def test_of_several_signs_the_one_with_most_steps_counts():
    way = walk(loads.file(forward=20, near=20, gets=100, gets_backward=90))
    assert (way.direction, way.forward, way.backward) == ("backward", 10, 90)
