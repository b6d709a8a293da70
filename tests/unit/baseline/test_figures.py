# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from netdiag.baseline import figures
from netdiag.baseline.figures import Figures, Scenario
from tests.fakes import calls, documents


def test_percentiles_are_within_one_per_cent_and_the_rest_is_exact():
    values = np.random.default_rng(4).lognormal(4, 0.8, 20_001)
    found = Figures.of(values)
    assert found.mean == pytest.approx(values.mean())
    assert found.jitter == pytest.approx(values.std() / values.mean())
    for share in (0.5, 0.9, 0.95, 0.99):
        assert found.percentile(share) == pytest.approx(np.quantile(values, share), rel=0.011)


def test_percentiles_of_few_are_those_of_the_summary():
    values = np.array([0.7, 0.8, 2.0, 2.5, 2.7, 3.2, 4.0, 4.1])
    for share in (0.5, 0.9, 0.99):
        assert Figures.of(values).percentile(share) == pytest.approx(np.quantile(values, share), rel=0.011)


def test_a_side_of_a_comparison_knows_times_alone():
    found = figures.to_sample([("api", Figures.of(np.array([1.0, 2.0])))], "baseline")
    assert (found.requests, found.shares, found.causes) == (2, {}, None)


def test_figures_add_up():
    values = np.random.default_rng(5).exponential(80, 4000)
    whole, parts = Figures.of(values), Figures.of(values[:1000])
    parts.add(Figures.of(values[1000:]))
    assert parts.bins == whole.bins
    assert parts.n == whole.n
    assert parts.mean == pytest.approx(whole.mean)


def test_zero_and_nothing():
    zero = Figures.of(np.zeros(5))
    assert (zero.mean, zero.percentile(0.5), zero.jitter) == (0.0, 0.0, None)
    assert (Figures().mean, Figures().percentile(0.5), Figures().jitter) == (None, None, None)


def test_a_spread_of_many_keeps_its_shape():
    found = Figures.of(np.random.default_rng(6).exponential(80, 100_000))
    few = found.spread(1000)
    assert len(few) == 1000
    assert np.quantile(few, 0.9) == pytest.approx(found.percentile(0.9), rel=0.03)


def test_scenarios_of_a_recording():
    tables = calls.source().tables
    headers: list[Any] = [None] * 5 + [{"cf-ray": "8f00000000000000-FRA"}, {"cf-ray": "8f00000000000000-FRA"}]
    told = replace(tables, requests=tables.requests.assign(headers=headers))
    found = figures.learn(told, documents.START_NS)
    assert {scenario for scenario, _, _ in found} == {
        Scenario(host="198.51.100.7"),
        Scenario(host="api.example.com", model="gpt-x", stream=True, region="FRA"),
        Scenario(host="api.example.com", model="gpt-x", stream=False, region="FRA"),
    }
    assert {hour for _, hour, _ in found} == {17}
    plain = found[Scenario(host="198.51.100.7"), 17, "network"]
    assert plain.n == 5
    assert plain.mean == pytest.approx(4.2)
    assert found[Scenario(host="198.51.100.7"), 17, "api"].mean == pytest.approx(46.0)


def test_a_call_whose_start_is_not_known_counts_in_the_hour_of_its_recording():
    tables = calls.source().tables
    lost = replace(tables, requests=tables.requests.assign(started_ns=np.nan))
    assert {hour for _, hour, _ in figures.learn(lost, documents.START_NS)} == {17}


def test_nothing_is_learned_of_nothing():
    assert figures.learn(documents.tables([]), documents.START_NS) == {}
