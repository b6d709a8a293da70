# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from netdiag.analysis.retry_simulation import Breaker, Load, Policy, simulate
from netdiag.render.curve import as_json, text


def test_the_curve_fits_a_terminal_and_ends_with_what_it_means():
    drawn = text(simulate(Policy(breaker=Breaker(), budget=0.1), Load(duration_s=600.0)))
    lines = drawn.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 40
    assert lines[-3].startswith("attempts a call")
    assert any("open 0 %" in line for line in lines)
    assert any("closed 100 %" in line for line in lines)


def test_without_a_breaker_its_column_is_missing():
    assert "breaker" not in text(simulate(Policy(), Load(duration_s=10.0)))


def test_bars_are_as_long_as_the_attempts():
    drawn = text(simulate(Policy(attempts=6, base_s=0.1, factor=1.0, jitter="none"), Load(duration_s=20.0)))
    bars = [line.count("█") for line in drawn.splitlines()]
    assert max(bars) == 28
    assert bars[4] * 5 <= 28


def test_as_values():
    made = as_json(simulate(Policy(), Load(duration_s=5.0, outage_s=(0.0, 0.0))))
    assert len(made["seconds"]) == 5
    assert made["seconds"][0]["attempts"] > 0
