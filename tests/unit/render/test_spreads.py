# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from netdiag.render import spreads
from tests.fakes import calls, documents


def document(values):
    rows = [documents.request(number, 0, number, wait_ms=value, total_ms=None) for number, value in enumerate(values)]
    return documents.build(documents.recording(), documents.tables([documents.connection(1)], rows), [])


def test_all_values_are_counted_and_the_figures_are_those_of_the_summary():
    values = np.random.default_rng(1).lognormal(4, 1, 500).tolist()
    (spread,) = spreads.draw(document(values))
    assert sum(int(title.rsplit(": ", 1)[1]) for *_, title in spread.bars) == 500
    assert dict(spread.figures)["σ/μ"] == f"{np.std(values) / np.mean(values):.2f}"
    assert [mark.name for mark in spread.marks] == ["p50", "p95", "p99"]
    assert sorted(mark.x for mark in spread.marks) == [mark.x for mark in spread.marks]
    assert all(0 <= x <= spreads.PLOT_PX for x, *_ in spread.bars)


def test_equal_values_and_zeros():
    for value in (0.0, 5.0):
        (spread,) = spreads.draw(document([value] * 8))
        assert len(spread.bars) == 1


def test_few_values_are_no_distribution():
    assert spreads.draw(document([1.0, 2.0, 3.0, 4.0])) == []


def test_measures_have_their_own():
    assert [spread.kind for spread in spreads.draw(calls.source().document())] == ["total", "wait"]
