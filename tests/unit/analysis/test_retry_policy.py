# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import random

import pytest

from netdiag.analysis.calls import calls_of
from netdiag.analysis.case import Options, prepare
from netdiag.analysis.retry_policy import learn

from .test_retry import call


def policy(stage):
    asked = prepare(stage.tables(), Options()).asked
    return learn([each for each in calls_of(a for row in asked.values() for a in row) if len(each.attempts) > 1])


def test_base_factor_and_no_jitter(stage):
    for turn in range(4):
        call(stage, turn * 9000, [500.0, 1000.0, 2000.0], [503.0] * 3 + [200.0])
    found = policy(stage)
    assert (found.attempts, found.base_ms, found.factor, found.jitter) == pytest.approx((4, 500, 2.0, 0.0))
    assert found.honours is None
    assert math.isnan(found.cap_ms)
    assert found.words() == "4 attempts, pauses of 500 ms, then 1.0 s, then 2.0 s (× 2.0), no jitter"


def test_a_cap(stage):
    for turn in range(2):
        call(stage, turn * 30_000, [500.0, 1000.0, 2000.0, 4000.0, 4000.0, 4000.0], [503.0] * 6 + [200.0])
    assert policy(stage).cap_ms == pytest.approx(4000)
    assert policy(stage).factor == pytest.approx(2.0)


def test_jitter_is_the_spread(stage):
    source = random.Random(7)
    for turn in range(60):
        call(stage, turn * 3000, [500.0 * source.uniform(0.75, 1.25)], [503.0, 200.0])
    assert policy(stage).jitter == pytest.approx(0.25, abs=0.03)
    assert "± 2" in policy(stage).words()


def test_constant_pauses_do_not_grow(stage):
    for turn in range(3):
        call(stage, turn * 9000, [200.0, 200.0, 200.0], [503.0] * 3 + [200.0])
    assert policy(stage).factor == pytest.approx(1.0)
    assert "they do not grow" in policy(stage).words()


def test_pauses_that_the_server_asked_for_are_not_the_policys(stage):
    call(stage, 0, [1000.0, 1000.0], [429.0, 429.0, 200.0], headers={"retry-after": "1"})
    found = policy(stage)
    assert (found.honours, found.pauses) == (True, ())


def test_a_deadline(stage):
    for turn, gap in enumerate((2500.0, 1200.0, 780.0)):
        count = round(2500 / gap) + 1
        took = 3000.0 - (count - 1) * gap
        call(stage, turn * 9000, [gap] * (count - 1), [503.0] * count, took=took / count)
    assert policy(stage).deadline_ms == pytest.approx(3000, rel=0.05)


def test_nothing_to_learn(stage):
    call(stage, 0, [], [200.0])
    assert policy(stage).words() == "0 attempts"
