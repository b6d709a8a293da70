# SPDX-License-Identifier: Apache-2.0
"""Which stretches of a long recording are judged, and how that is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from netdiag.bulk import judge


def part(took: list[float], *, status: dict[int, int] | None = None) -> dict[str, Any]:
    """Return packed columns of requests, one each second."""
    count = len(took)
    codes = np.full(count, 200.0)
    for at, value in (status or {}).items():
        codes[at] = value
    return {
        "began_ns": np.arange(count) * 1e9,
        "total_ms": np.array(took),
        "status": codes,
        "first_byte_ns": np.arange(count) * 1e9 + 1e6,
        "error": pd.Categorical([None] * count, categories=["reset"]),
    }


def test_few_requests_are_one_stretch():
    (one,) = judge.choose([part([5.0] * 10)], 12_000.0, 10)
    assert (one.began_ms, one.ended_ms, one.requests) == (0.0, 12_000.0, 10)


def test_the_second_stretch_is_where_calls_took_longest():
    took = [5.0] * 60
    took[40:45] = [500.0] * 5
    first, worst = judge.choose([part(took)], 60_000.0, 10)
    assert (first.began_ms, first.ended_ms) == (0.0, 10_000.0)
    assert worst.began_ms <= 40_000.0
    assert worst.ended_ms >= 45_000.0
    assert worst.requests == 10


def test_failures_weigh_as_slow_calls_do():
    first, worst = judge.choose([part([5.0] * 60, status=dict.fromkeys(range(50, 55), 503))], 60_000.0, 10)
    assert first.ended_ms == 10_000.0
    assert worst.began_ms <= 50_000.0
    assert worst.ended_ms >= 55_000.0


def test_parts_are_one_course_of_time():
    early, late = part([5.0] * 30), part([5.0] * 25 + [900.0] * 5)
    late["began_ns"] = late["began_ns"] + 30e9
    _, worst = judge.choose([late, early], 60_000.0, 10)
    assert worst.ended_ms == 60_000.0


def test_words_say_how_much_was_judged():
    stretches = [
        judge.Stretch(began_ms=0.0, ended_ms=10_000.0, requests=30_000),
        judge.Stretch(began_ms=50_000.0, ended_ms=60_000.0, requests=30_000),
    ]
    told = judge.words(stretches, 1_800_000)
    assert "60,000 of 1,800,000 requests" in told
    assert "on all of them" in told
