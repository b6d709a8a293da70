# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pytest

from netdiag.analysis.calls import Call
from netdiag.analysis.rounds import doubtful, rounds_apart
from netdiag.findings import Severity

from .conftest import Stage
from .test_calls import calls
from .test_retry import call, of


def sizes(made: tuple[Call, ...]) -> list[int]:
    return [len(one.attempts) for one in made]


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [
        ([300, 300, 300, 350] * 2 + [300, 300, 300], [4, 4, 4]),
        ([100, 200, 500] * 3 + [100], [3, 3, 3, 2]),
        ([100, 400] * 4 + [100], [2] * 5),
        ([200, 204, 198, 201, 203, 199, 202, 200], [9]),
        ([300, 300, 300, 350] + [300] * 3, [8]),
        ([100, 200, 400, 800, 1600, 3200, 6400, 8000], [9]),
        ([300, 300, 310, 305, 300, 300, 318, 300, 300, 300, 312], [12]),
        ([200, 200, 900, 200, 200, 200, 200, 900, 200], [10]),
    ],
)
def test_equal_rounds_of_pauses_are_calls(stage: Stage, gaps: list[float], expected: list[int]) -> None:
    call(stage, 0, gaps, [503.0] * (len(gaps) + 1))
    assert sizes(rounds_apart(calls(stage))) == expected


@pytest.mark.parametrize(
    "columns", [{"headers": {"retry-after": "1"}}, {"request_headers": {"x-stainless-retry-count": "1"}}]
)
def test_what_is_known_to_be_one_call_stays_one(stage: Stage, columns: dict[str, object]) -> None:
    call(stage, 0, [100.0, 200.0, 500.0] * 3, [503.0] * 10, **columns)
    assert sizes(rounds_apart(calls(stage))) == [10]


def test_a_call_that_succeeds_stays_one(stage: Stage) -> None:
    call(stage, 0, [100.0, 200.0, 500.0] * 3, [503.0] * 9 + [200.0])
    assert sizes(rounds_apart(calls(stage))) == [10]


@pytest.mark.parametrize(
    ("gaps", "last", "doubt"),
    [([500.0] * 3, 503.0, True), ([500.0, 1000.0, 2000.0], 503.0, False), ([500.0] * 3, 200.0, False)],
)
def test_attempts_that_may_be_calls(stage: Stage, gaps: list[float], last: float, doubt: bool) -> None:
    call(stage, 0, gaps, [503.0, 503.0, 503.0, last])
    assert doubtful(calls(stage)) is doubt


@pytest.mark.parametrize("tid", [1.0, math.nan])
def test_calls_with_another_rhythm_than_attempts_show_what_is_what(stage: Stage, tid: float) -> None:
    call(stage, 0, [300.0, 300.0, 300.0, 350.0] * 2 + [300.0] * 3, [429.0] * 12, tid=tid)
    assert not doubtful(rounds_apart(calls(stage)))
    finding = of(stage, "retry.quota")
    assert finding.severity is Severity.CRITICAL
    assert "3 calls, 12 attempts" in finding.evidence[0].note
    assert "at most" not in of(stage, "retry.attempts").evidence[0].note


def test_an_even_beat_of_failures_is_a_remark_on_quotas(stage: Stage) -> None:
    call(stage, 0, [300.0] * 11, [429.0] * 12)
    assert of(stage, "retry.quota").severity is Severity.INFO
