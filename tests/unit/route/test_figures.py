# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.route import figures
from netdiag.route.model import Connect
from tests.fakes.routes import attempt, trace


def test_figures_of_a_series():
    found = figures.of([3.0, 1.0, 2.0, 10.0])
    assert found is not None
    assert (found.min_ms, found.median_ms, found.p95_ms, found.n) == (1.0, 2.5, 10.0, 4)
    assert figures.of([]) is None


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_figures_are_in_order(values):
    found = figures.of(values)
    assert found is not None
    assert min(values) == found.min_ms <= found.median_ms
    assert found.min_ms <= found.p95_ms <= max(values)


def test_scatter():
    assert figures.mad([1.0, 2.0, 4.0, 8.0, 100.0]) == 3.0
    assert figures.mad([1.0, 2.0]) is None


def test_a_syn_that_was_sent_again_measures_a_timer():
    connect = Connect(ip="192.0.2.1", port=443, attempts=(attempt(5.0), attempt(1005.0, again=1), attempt(None)))
    assert [ms for _, ms in figures.connect_ms([connect])] == [5.0]


def test_only_the_targets_own_answers_count():
    assert figures.target_ms(trace([("198.18.0.1", 4.0), ("203.0.113.10", 9.0)], rounds=2)) == pytest.approx([9.0, 9.0])
    assert figures.target_ms(trace([("203.0.113.10", 4.0)], reached=False)) == []
