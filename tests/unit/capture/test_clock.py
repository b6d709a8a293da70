# SPDX-License-Identifier: Apache-2.0
"""Stamps never run backwards, whatever the machine's clock did."""

from __future__ import annotations

import numpy as np

from netdiag.capture.clock import Clock

SECOND = 1_000_000_000


def settle(*batches):
    clock = Clock()
    return clock, [clock.settle(np.array(batch, np.int64)).tolist() for batch in batches]


def test_stamps_in_order_stay():
    clock, found = settle([1, 2, 3], [3, 9])
    assert found == [[1, 2, 3], [3, 9]]
    assert (clock.set_back, clock.absurd) == (0, 0)


def test_packets_written_out_of_turn_keep_their_stamps():
    base = 100 * SECOND
    clock, found = settle([base, base + 900, base + 500, base + 2000])
    assert found == [[base, base + 900, base + 500, base + 2000]]
    assert clock.set_back == 0


def test_after_a_clock_was_set_back_time_goes_on():
    base = 10_000 * SECOND
    clock, [first, second] = settle(
        [base, base + SECOND, base - 3600 * SECOND, base - 3599 * SECOND], [base - 3598 * SECOND]
    )
    assert first == [base, base + SECOND, base + SECOND, base + 2 * SECOND]
    assert second == [base + 3 * SECOND]
    assert clock.set_back == 1


def test_one_stamp_that_no_neighbour_agrees_with_is_left_out():
    base = 10_000 * SECOND
    clock, [found] = settle([base, base + 1, 1 << 61, base + 3])
    assert found == [base, base + 1, base + 1, base + 3]
    assert clock.absurd == 1


def test_no_packets_no_time():
    assert settle([])[1] == [[]]


def test_stamps_that_jump_by_centuries_stay_numbers():
    draw = np.random.default_rng(3)
    clock = Clock()
    for _ in range(20):
        time = clock.settle(draw.integers(0, (1 << 32) * 10**9, 200, np.int64))
        assert (time >= 0).all()
