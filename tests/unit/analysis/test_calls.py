# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pytest

from netdiag.analysis.calls import amplification, beat_apart, calls_of, retry_after_ms
from netdiag.analysis.case import Options, prepare

from .test_retry import call


def calls(stage):
    return calls_of(each for row in prepare(stage.tables(), Options()).asked.values() for each in row)


def test_attempts_are_chained_by_what_they_repeat(stage):
    call(stage, 0, [500.0, 900.0], [503.0, 429.0, 200.0], headers={"retry-after": "3"})
    call(stage, 9000, [], [200.0])
    first, second = calls(stage)
    assert [len(first.attempts), len(second.attempts)] == [3, 1]
    assert [(gap.index, gap.ms, gap.asked_ms) for gap in first.gaps] == [
        (1, pytest.approx(500), 3000),
        (2, pytest.approx(900), 3000),
    ]
    assert [attempt.what for attempt in first.attempts[:2]] == ["503", "429"]
    assert first.succeeded
    assert first.wasted_ms == pytest.approx(1440)
    assert amplification([first, second]) == 2


def test_a_call_that_failed_to_the_end(stage):
    call(stage, 0, [500.0], [503.0, 503.0])
    (lost,) = calls(stage)
    assert not lost.succeeded
    assert lost.wasted_ms == pytest.approx(540)


def test_attempts_that_overlap_keep_their_own_calls(stage):
    call(stage, 0, [500.0], [503.0, 200.0])
    call(stage, 100, [100.0], [503.0, 200.0])
    assert [[attempt.asked.id for attempt in one.attempts] for one in calls(stage)] == [["r1", "r2"], ["r3", "r4"]]


@pytest.mark.parametrize(
    ("value", "expected"), [("2", 2000), ("0.5", 500), ("0", 0), ("", None), ("soon", None), ("-1", None)]
)
def test_retry_after(value, expected):
    found = retry_after_ms({"retry-after": value})
    assert (None if math.isnan(found) else found) == expected


def beat(stage, pause, **columns):
    """Play calls 300 ms apart, one of which fails and is followed by the next one after `pause`."""
    row = None
    for number in range(4):
        row = call(stage, number * 320.0, [], [200.0], row=row)
    call(stage, 4 * 320.0, [pause], [503.0, 200.0], row=row, **columns)
    return calls(stage)


@pytest.mark.parametrize(("pause", "parts"), [(300.0, 6), (340.0, 6), (100.0, 5), (900.0, 5)])
def test_the_programs_own_beat_is_no_retry(stage, pause, parts):
    made = beat(stage, pause)
    assert len(made) == 5
    assert len(beat_apart(made)) == parts


def test_what_says_that_it_is_another_attempt_is_one(stage):
    assert len(beat_apart(beat(stage, 300.0, request_headers={"x-stainless-retry-count": "1"}))) == 5


def test_a_pause_that_the_server_asked_for_is_no_beat(stage):
    assert len(beat_apart(beat(stage, 300.0, headers={"retry-after": "1"}))) == 5
