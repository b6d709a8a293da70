# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
import pytest

from netdiag.compare import statistics


def test_quantiles_are_those_of_numpy():
    values = np.sort(np.random.default_rng(3).lognormal(3, 1, 501))
    for share in (0.0, 0.5, 0.9, 0.99, 1.0):
        assert statistics.quantile(values, share) == pytest.approx(np.quantile(values, share))
    assert math.isnan(statistics.quantile(values[:0], 0.5))


def test_the_bootstrap_is_the_one_that_resamples():
    random = np.random.default_rng(5)
    one, two = (np.sort(random.lognormal(3, 0.4, size)) for size in (400, 500))
    fast = statistics.quantile_difference(one, two, 0.9)
    draws = [
        np.sort(random.choice(two, 500))[round(0.9 * 499)] - np.sort(random.choice(one, 400))[round(0.9 * 399)]
        for _ in range(1500)
    ]
    low, high = np.percentile(draws, (2.5, 97.5))
    width = high - low
    assert fast.low == pytest.approx(low, abs=0.15 * width)
    assert fast.high == pytest.approx(high, abs=0.15 * width)


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    random = np.random.default_rng(11)
    held = {"p50": 0, "mean": 0, "share": 0}
    for _ in range(200):
        one, two = (np.sort(random.exponential(50, 300)) for _ in range(2))
        found = statistics.quantile_difference(one, two, 0.5)
        held["p50"] += found.low <= 0 <= found.high
        found = statistics.mean_difference(one, two)
        held["mean"] += found.low <= 0 <= found.high
        found = statistics.share_difference((random.binomial(300, 0.05), 300), (random.binomial(300, 0.05), 300))
        held["share"] += found.low <= 0 <= found.high
    assert all(0.90 <= count / 200 <= 0.995 for count in held.values()), held


def test_mann_whitney_of_a_known_table():
    # exact: of 20 ways to put three of six ranks, one is at least as great
    assert statistics.mann_whitney_greater(np.array([1.0, 2, 3]), np.array([4.0, 5, 6])) == pytest.approx(
        0.05, abs=0.02
    )
    same = np.full(50, 7.0)
    assert statistics.mann_whitney_greater(same, same) == 1.0
    assert math.isnan(statistics.mann_whitney_greater(same[:1], same))


def test_fisher_of_a_known_table():
    # the lady tasting tea: four of four right
    assert statistics.fisher_greater((0, 4), (4, 4)) == pytest.approx(1 / 70)
    assert statistics.fisher_greater((1, 4), (3, 4)) == pytest.approx(17 / 70)
    assert statistics.fisher_greater((0, 9), (0, 9)) == pytest.approx(1.0)
    assert statistics.fisher_greater((500_000, 10**6), (505_000, 10**6)) < 1e-9


def test_a_tail_that_alone_moved():
    random = np.random.default_rng(2)
    one, two = (np.sort(random.normal(100, 5, 3000)) for _ in range(2))
    assert statistics.tail_greater(one, two, 0.99) > 0.01
    moved = np.sort(np.concatenate([two[:-60], two[-60:] + 20]))
    assert statistics.tail_greater(one, moved, 0.99) < 1e-6
    before, after = (statistics.mann_whitney_greater(one, values) for values in (two, moved))
    assert after == pytest.approx(before, rel=0.2)


def test_few_values_tell_nothing():
    none = np.array([])
    assert math.isnan(statistics.quantile_difference(none, none, 0.5).value)
    assert math.isnan(statistics.mean_difference(none, none).value)
    assert math.isnan(statistics.share_difference((0, 0), (1, 2)).value)
    assert math.isnan(statistics.fisher_greater((0, 0), (1, 2)))
