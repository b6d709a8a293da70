# SPDX-License-Identifier: Apache-2.0
"""Rules that say when the second side is too much worse than the first. `docs/reference.md` shows a file of them.

A rule is raised when three things hold: chance does not explain the change (`level`), the change is at least half the
limit, and its 95 % interval reaches the limit. So a change that is real and small passes, and one whose size is not
known well enough to say that it is below the limit does not.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netdiag.compare.samples import METRICS, SHARES, Sample
from netdiag.compare.statistics import (
    Difference,
    fisher_greater,
    mann_whitney_greater,
    mean_difference,
    quantile_difference,
    share_difference,
    tail_greater,
)
from netdiag.errors import InputUnreadable, UsageError

__all__ = ["DEFAULT", "STATISTICS", "Outcome", "Rule", "load", "parse", "weigh"]

STATISTICS = ("mean", "p50", "p90", "p95", "p99")
_FALLS = frozenset({"reuse", "resumption"})
"""Shares that are worse when they are lower."""
_LEVEL = 0.001
_HALF = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How much worse one figure may get."""

    metric: str
    """A name of `METRICS` or of `SHARES`."""
    statistic: str | None
    """One of `STATISTICS`; None of shares."""
    limit: float
    """Milliseconds, or percentage points of shares."""
    level: float = _LEVEL
    """What chance may at most explain, one-sided."""

    @property
    def name(self) -> str:
        """`total p99 +15 ms`, `errors +0.8 points`."""
        if self.statistic is None:
            return f"{self.metric} {'-' if self.metric in _FALLS else '+'}{self.limit:g} points"
        return f"{self.metric} {self.statistic} +{self.limit:g} ms"


DEFAULT: tuple[Rule, ...] = (
    Rule(metric="total", statistic="p99", limit=15.0),
    Rule(metric="errors", statistic=None, limit=0.8),
    # connections are few: nine of nine reused against none of four must do
    Rule(metric="reuse", statistic=None, limit=20.0, level=0.002),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a rule says of two samples."""

    rule: Rule
    raised: bool
    change: Difference
    """Of shares in percentage points; worse is positive."""
    p: float
    """What chance explains; NaN where there is too little to tell."""
    why: str


def weigh(rule: Rule, first: Sample, second: Sample) -> Outcome:
    """Return what the rule says of the second sample, the first being what was."""
    change, p = _share(rule, first, second) if rule.statistic is None else _time(rule, first, second)
    if math.isnan(p) or math.isnan(change.value):
        return Outcome(rule=rule, raised=False, change=change, p=p, why="too little is known to tell")
    if p > rule.level or change.low <= 0:
        return Outcome(rule=rule, raised=False, change=change, p=p, why="chance may explain it")
    if change.high < rule.limit or change.value < _HALF * rule.limit:
        return Outcome(rule=rule, raised=False, change=change, p=p, why="worse, and below the limit")
    return Outcome(rule=rule, raised=True, change=change, p=p, why="worse, and not below the limit")


def _time(rule: Rule, first: Sample, second: Sample) -> tuple[Difference, float]:
    one, two = first.values[rule.metric], second.values[rule.metric]
    if rule.statistic == "mean":
        return mean_difference(one, two), mann_whitney_greater(one, two)
    share = float(str(rule.statistic)[1:]) / 100
    # a change of the whole shows in all values, one of the tail in those beyond the percentile: two tests, each half
    p = min(2 * mann_whitney_greater(one, two), 2 * tail_greater(one, two, share), 1.0)
    return quantile_difference(one, two, share), p


def _share(rule: Rule, first: Sample, second: Sample) -> tuple[Difference, float]:
    one, two = first.shares.get(rule.metric, (0, 0)), second.shares.get(rule.metric, (0, 0))
    if rule.metric in _FALLS:
        one, two = (one[1] - one[0], one[1]), (two[1] - two[0], two[1])
    found = share_difference(one, two)
    points = Difference(value=100 * found.value, low=100 * found.low, high=100 * found.high)
    return points, fisher_greater(one, two)


def load(path: Path | None) -> tuple[Rule, ...]:
    """Return the rules of a TOML file, or the usual ones; InputUnreadable or UsageError says what is wrong."""
    if path is None:
        return DEFAULT
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputUnreadable(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise InputUnreadable(f"{path} is not TOML: {error}") from error
    return parse(content, str(path))


def parse(content: Mapping[str, Any], name: str) -> tuple[Rule, ...]:
    """Check the content of a file; UsageError says which rule is wrong and how."""
    entries = content.get("rule")
    if set(content) != {"rule"} or not isinstance(entries, list) or not entries:
        raise UsageError(f"{name}: a gate is a list of [[rule]] and nothing else")
    return tuple(_rule(entry, f"{name}: rule {number}") for number, entry in enumerate(entries, 1))


def _rule(entry: Any, where: str) -> Rule:
    if not isinstance(entry, Mapping) or not set(entry) <= {"metric", "statistic", "limit", "level"}:
        raise UsageError(f"{where}: known are metric, statistic, limit and level")
    metric, statistic, limit = entry.get("metric"), entry.get("statistic"), entry.get("limit")
    level = entry.get("level", _LEVEL)
    times = [name for name, _ in METRICS]
    if metric not in {*times, *SHARES}:
        raise UsageError(f"{where}: metric is one of {', '.join([*times, *SHARES])}")
    if (metric in times) != (statistic in STATISTICS) or (metric not in times and statistic is not None):
        raise UsageError(f"{where}: statistic is one of {', '.join(STATISTICS)} for times, and not there for shares")
    if not isinstance(limit, int | float) or not _positive(limit):
        raise UsageError(f"{where}: limit is a positive number of ms, or of percentage points")
    if not _positive(level) or level > _HALF:
        raise UsageError(f"{where}: level is a probability up to 0.5")
    return Rule(metric=metric, statistic=statistic, limit=float(limit), level=float(level))


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
