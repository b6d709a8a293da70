# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.render import scale


def test_instants_to_the_nanosecond():
    one, two = "2026-11-18T17:06:59.999999999Z", "2026-11-18T17:07:00.000000001Z"
    assert scale.since(one, two) == pytest.approx(2e-6)
    assert scale.since(two, one) == pytest.approx(-2e-6)


@pytest.mark.parametrize("span", [0.0, 0.003, 7.0, 980.0, 1000.0, 4.5e6])
def test_ticks_are_round_and_few(span):
    ticks = scale.line(0.0, span, 100.0, 500.0)
    assert 1 <= len(ticks) <= 9
    assert ticks[0].x == 100.0
    assert ticks[-1].x <= 600.01
    assert len({tick.label for tick in ticks}) == len(ticks)


def test_logarithmic_ticks_lie_inside():
    ticks = scale.logarithmic(3.0, 700.0, 0.0, 660.0)
    assert [tick.label for tick in ticks] == ["5.0 ms", "10 ms", "20 ms", "50 ms", "100 ms", "200 ms", "500 ms"]
    assert all(0 <= tick.x <= 660 for tick in ticks)
    assert len(scale.logarithmic(0.001, 1e6, 0.0, 660.0)) <= 11
