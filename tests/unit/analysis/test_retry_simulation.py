# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.analysis.retry_simulation import Breaker, Load, Policy, read, simulate
from netdiag.errors import UsageError

HASTY = Policy(attempts=6, base_s=0.1, factor=1.0, jitter="none")
OUTAGE = Load(outage_s=(10.0, 20.0), duration_s=60.0)


def test_without_an_outage_every_call_is_one_attempt():
    curve = simulate(Policy(), Load(outage_s=(0.0, 0.0), duration_s=10.0))
    assert curve.amplification == pytest.approx(1.0)
    assert curve.peak == pytest.approx(1.0)
    assert curve.failed_share == pytest.approx(0.0)
    assert curve.recovered_s == 0.0
    assert all(second.succeeded == pytest.approx(100.0) for second in curve.seconds)


def test_hasty_retries_outlive_the_outage_and_patient_ones_do_not():
    storm, calm = simulate(HASTY, OUTAGE), simulate(Policy(), OUTAGE)
    assert storm.recovered_s is None
    assert storm.peak == pytest.approx(6.0)
    assert calm.recovered_s is not None
    assert calm.recovered_s < 10
    assert storm.amplification > 3 * calm.amplification


def test_a_server_that_refuses_at_no_cost_recovers_by_itself():
    curve = simulate(HASTY, Load(collapse=0.0, outage_s=(10.0, 20.0)))
    assert curve.recovered_s is not None


def test_a_budget_bounds_the_amplification():
    curve = simulate(Policy(attempts=6, base_s=0.1, factor=1.0, budget=0.1), OUTAGE)
    assert curve.amplification <= 1.1 + 0.02
    assert curve.recovered_s is not None


def test_the_states_of_a_breaker():
    breaker = Breaker(errors=0.5, window_s=2.0, open_s=3.0, half_open=0.2, probe_s=1.0)
    curve = simulate(Policy(attempts=1, breaker=breaker), OUTAGE)
    passes = [second.passes for second in curve.seconds]
    assert set(passes) == {1.0, 0.2, 0.0}
    assert passes[:10] == [1.0] * 10
    assert passes[-20:] == [1.0] * 20
    open_seconds = [second for second in curve.seconds if second.passes == 0.0]
    assert sum(second.attempts for second in open_seconds) < 0.2 * sum(second.calls for second in open_seconds)
    half = [second for second in curve.seconds if second.passes == 0.2]
    assert all(second.attempts <= 0.6 * second.calls for second in half)


def test_calls_neither_vanish_nor_multiply():
    curve = simulate(HASTY, Load(outage_s=(2.0, 4.0), duration_s=30.0, capacity_per_s=1000.0))
    ended = sum(second.succeeded + second.failed for second in curve.seconds)
    assert ended == pytest.approx(sum(second.calls for second in curve.seconds), rel=0.01)


def test_the_same_numbers_give_the_same_curve():
    assert simulate(HASTY, OUTAGE) == simulate(HASTY, OUTAGE)


@pytest.mark.parametrize(
    ("jitter", "spread"),
    [("full", (0.0, 2.0)), ("equal", (1.0, 2.0)), ("none", (2.0, 2.0)), (0.25, (1.5, 2.5))],
)
def test_jitter(jitter, spread):
    assert Policy(base_s=1.0, factor=2.0, jitter=jitter).spread_s(2) == spread


def test_pauses_grow_up_to_the_cap():
    policy = Policy(base_s=0.5, factor=2.0, cap_s=3.0)
    assert [policy.pause_s(attempt) for attempt in range(1, 5)] == [0.5, 1.0, 2.0, 3.0]


def test_a_file_is_read():
    policy, load = read(
        {"policy": {"attempts": 4, "jitter": 0.5, "breaker": {"open_s": 9}}, "load": {"outage_s": [1, 2]}}
    )
    assert (policy.attempts, policy.jitter, policy.breaker) == (4, 0.5, Breaker(open_s=9.0))
    assert load.outage_s == (1.0, 2.0)
    assert read({}) == (Policy(), Load())


@pytest.mark.parametrize(
    ("table", "word"),
    [
        ({"polic": {}}, "polic"),
        ({"policy": 3}, "policy"),
        ({"policy": {"atempts": 3}}, "atempts"),
        ({"policy": {"attempts": 2.5}}, "attempts"),
        ({"policy": {"attempts": 0}}, "attempts"),
        ({"policy": {"base_s": -1}}, "base_s"),
        ({"policy": {"base_s": float("inf")}}, "base_s"),
        ({"policy": {"jitter": "some"}}, "jitter"),
        ({"policy": {"breaker": 1}}, "breaker"),
        ({"policy": {"breaker": {"half": 1}}}, "half"),
        ({"load": {"outage_s": [5, 1]}}, "outage_s"),
        ({"load": {"duration_s": 1e9}}, "duration_s"),
        ({"load": {"calls_per_s": True}}, "calls_per_s"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(table, word):
    with pytest.raises(UsageError, match=word):
        read(table)
