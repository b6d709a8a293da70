# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from netdiag.compare import gate
from netdiag.compare.gate import DEFAULT, Rule, weigh
from netdiag.compare.samples import METRICS, Sample
from netdiag.errors import InputUnreadable, UsageError

KINDS = ("normal", "lognormal", "two humps", "steps")


def times(random, kind, count):
    if kind == "normal":
        return random.normal(120, 12, count)
    if kind == "lognormal":
        return random.lognormal(4.5, 0.35, count)
    if kind == "two humps":
        return np.where(random.random(count) < 0.3, random.normal(60, 4, count), random.normal(140, 9, count))
    return np.round(random.exponential(30, count) / 4) * 4 + 50  # a clock that ticks


def side(values, *, errors=0, reused=None):
    count = len(values)
    none = np.array([])
    return Sample(
        name="x",
        kind="recording",
        requests=count,
        values={name: none for name, _ in METRICS} | {"total": np.sort(values)},
        shares={"errors": (errors, count), "reuse": (count - 1 if reused is None else reused, count - 1)},
    )


def raised(first, second):
    return [outcome.rule.name for outcome in (weigh(rule, first, second) for rule in DEFAULT) if outcome.raised]


def test_two_hundred_pairs_without_a_change_raise_it_at_most_twice():
    random = np.random.default_rng(20)
    alarms = []
    for number in range(200):
        kind, count = KINDS[number % 4], (60, 400, 3000, 9000)[number // 4 % 4]
        pair = [
            side(
                times(random, kind, count), errors=random.binomial(count, 0.01), reused=random.binomial(count - 1, 0.9)
            )
            for _ in range(2)
        ]
        alarms += [(kind, count, name) for name in raised(*pair)]
    assert len(alarms) <= 2, alarms


@pytest.mark.parametrize("kind", ["normal", "two humps"])
@pytest.mark.parametrize("tail", [False, True])
def test_twenty_milliseconds_at_the_99th_percentile_are_caught(kind, tail):
    random = np.random.default_rng(21)
    caught = 0
    for _ in range(50):
        first, second = np.sort(times(random, kind, 3000)), np.sort(times(random, kind, 3000))
        second[-60 if tail else 0 :] += 20
        caught += raised(side(first), side(second)) == ["total p99 +15 ms"]
    assert caught >= 49


@pytest.mark.parametrize("base", [0.0, 0.01])
def test_a_point_more_errors_is_caught(base):
    random = np.random.default_rng(22)
    caught = 0
    for _ in range(50):
        values = times(random, "normal", 10_000)
        errors = [random.binomial(10_000, share) for share in (base, base + 0.01)]
        caught += raised(side(values, errors=errors[0]), side(values, errors=errors[1])) == ["errors +0.8 points"]
    assert caught >= 49


def test_lost_keep_alive_is_caught():
    random = np.random.default_rng(23)
    caught = 0
    for _ in range(50):
        values = times(random, "normal", 40)
        caught += raised(side(values, reused=39), side(values, reused=random.binomial(39, 0.1))) == ["reuse -20 points"]
    assert caught >= 49


def test_a_small_change_that_is_sure_passes():
    random = np.random.default_rng(24)
    first = times(random, "normal", 20_000)
    outcome = weigh(DEFAULT[0], side(first), side(first + 3))
    assert not outcome.raised
    assert outcome.p < 1e-6
    assert outcome.why == "worse, and below the limit"


def test_what_got_better_passes():
    random = np.random.default_rng(25)
    values = times(random, "normal", 3000)
    assert raised(side(values + 40, errors=90, reused=3), side(values)) == []


def test_too_little_to_tell_passes_and_says_so():
    one, two = side(np.array([100.0])), side(np.array([900.0]))
    outcome = weigh(DEFAULT[0], one, two)
    assert (outcome.raised, outcome.why) == (False, "too little is known to tell")


def test_a_file_of_rules(tmp_path):
    (tmp_path / "gate.toml").write_text(
        '[[rule]]\nmetric = "server"\nstatistic = "p95"\nlimit = 30\n'
        '[[rule]]\nmetric = "retries"\nlimit = 1\nlevel = 0.01\n'
    )
    rules = gate.load(tmp_path / "gate.toml")
    assert rules[0] == Rule(metric="server", statistic="p95", limit=30.0)
    assert rules[1] == Rule(metric="retries", statistic=None, limit=1.0, level=0.01)
    assert gate.load(None) == DEFAULT


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rule = 3",
        "[[rule]]\nmetric = 'nothing'\nlimit = 1",
        "[[rule]]\nmetric = 'total'\nlimit = 1",
        "[[rule]]\nmetric = 'errors'\nstatistic = 'p99'\nlimit = 1",
        "[[rule]]\nmetric = 'errors'\nlimit = 0",
        "[[rule]]\nmetric = 'errors'\nlimit = 'many'",
        "[[rule]]\nmetric = 'errors'\nlimit = 1\nlevel = 2",
        "[[rule]]\nmetric = 'errors'\nlimit = 1\nother = 2",
    ],
)
def test_a_file_that_is_wrong_is_refused(tmp_path, text):
    (tmp_path / "gate.toml").write_text(text)
    with pytest.raises(UsageError):
        gate.load(tmp_path / "gate.toml")


def test_a_file_that_is_none(tmp_path):
    with pytest.raises(InputUnreadable):
        gate.load(tmp_path / "none.toml")
    (tmp_path / "gate.toml").write_text("= =")
    with pytest.raises(InputUnreadable):
        gate.load(tmp_path / "gate.toml")
