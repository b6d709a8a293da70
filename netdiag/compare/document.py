# SPDX-License-Identifier: Apache-2.0
"""The document `netdiag.compare/1`. Pure; unknown is None."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from netdiag import __version__
from netdiag.compare.gate import Rule, weigh
from netdiag.compare.samples import METRICS, SHARES, Sample
from netdiag.compare.statistics import (
    Difference,
    Values,
    fisher_greater,
    mann_whitney_greater,
    mean_difference,
    quantile,
    quantile_difference,
    share_difference,
)

__all__ = ["SCHEMA", "build"]

SCHEMA = "netdiag.compare/1"
_QUANTILES = (50, 90, 95, 99)
_METHODS = {
    "quantiles": "bootstrap, 95 % interval",
    "mean": "Welch, 95 % interval",
    "shares": "Newcombe-Wilson, 95 % interval; Fisher's exact test",
    "test": "Mann-Whitney, two-sided",
    "gate": "one-sided: Mann-Whitney or Fisher's exact test beyond the common percentile, each at half the level",
}
_SURE = 0.001
_LEAST_MS, _LEAST_SHARE = 0.05, 0.01


def build(pairs: Sequence[tuple[Sample, Sample]], rules: Sequence[Rule], *, split: str | None = None) -> dict[str, Any]:
    """Return the comparison of each pair, the first of it being what was, and what the rules say."""
    comparisons = [_comparison(first, second, rules) for first, second in pairs]
    return {
        "schema": SCHEMA,
        "version": __version__,
        "split": split,
        "methods": dict(_METHODS),
        "raised": any(row["raised"] for one in comparisons for row in one["gate"]),
        "comparisons": comparisons,
    }


def _comparison(first: Sample, second: Sample, rules: Sequence[Rule]) -> dict[str, Any]:
    outcomes = [weigh(rule, first, second) for rule in rules]
    return {
        "a": _side(first),
        "b": _side(second),
        "times": [row for row in (_time(name, first, second) for name, _ in METRICS) if row is not None],
        "shares": [row for row in (_share(name, first, second) for name in SHARES) if row is not None],
        "causes": _causes(first, second),
        "gate": [
            {
                "rule": outcome.rule.name,
                "metric": outcome.rule.metric,
                "statistic": outcome.rule.statistic,
                "limit": outcome.rule.limit,
                "unit": "points" if outcome.rule.statistic is None else "ms",
                "raised": outcome.raised,
                **_difference(outcome.change),
                "p": _number(outcome.p),
                "why": outcome.why,
            }
            for outcome in outcomes
        ],
    }


def _side(one: Sample) -> dict[str, Any]:
    return {"name": one.name, "kind": one.kind, "started": one.started, "requests": one.requests}


def _time(name: str, first: Sample, second: Sample) -> dict[str, Any] | None:
    one, two = first.values[name], second.values[name]
    if not (one.any() or two.any()):
        return None
    up = mann_whitney_greater(one, two)
    p = up if math.isnan(up) else min(1.0, 2 * min(up, mann_whitney_greater(two, one)))
    middle = mean_difference(one, two)
    return {
        "metric": name,
        "n": {"a": len(one), "b": len(two)},
        "mean": {"a": _mean(one), "b": _mean(two), **_difference(middle)},
        **{f"p{share}": _quantile(one, two, share / 100) for share in _QUANTILES},
        "jitter": {"a": _jitter(one), "b": _jitter(two)},
        "p": _number(p),
        "change": _change(p, middle, one),
    }


def _change(p: float, middle: Difference, one: Values) -> str:
    if math.isnan(p):
        return "unknown"
    if p > _SURE or abs(middle.value) < max(_LEAST_MS, _LEAST_SHARE * float(one.mean())):
        return "same"
    return "slower" if middle.value > 0 else "faster"


def _quantile(one: Values, two: Values, share: float) -> dict[str, float | None]:
    change = quantile_difference(one, two, share)
    return {"a": _number(quantile(one, share)), "b": _number(quantile(two, share)), **_difference(change)}


def _share(name: str, first: Sample, second: Sample) -> dict[str, Any] | None:
    one, two = first.shares.get(name, (0, 0)), second.shares.get(name, (0, 0))
    if not one[1] and not two[1]:
        return None
    change = share_difference(one, two)
    up = fisher_greater(one, two)
    p = up if math.isnan(up) else min(1.0, 2 * min(up, fisher_greater(two, one)))
    return {
        "metric": name,
        "a": _of(one),
        "b": _of(two),
        "points": {
            "change": _number(100 * change.value),
            "low": _number(100 * change.low),
            "high": _number(100 * change.high),
        },
        "p": _number(p),
    }


def _of(hits: tuple[int, int]) -> dict[str, Any]:
    return {"count": hits[0], "of": hits[1], "share": _number(hits[0] / hits[1]) if hits[1] else None}


def _causes(first: Sample, second: Sample) -> list[dict[str, Any]]:
    told = first.causes is not None and second.causes is not None
    one, two = first.causes or {}, second.causes or {}
    return [
        {
            "code": code,
            "change": None if not told else "kept" if code in one and code in two else "new" if code in two else "gone",
            "severity": second.severities.get(code) or first.severities.get(code),
            "a": _cost(first, code),
            "b": _cost(second, code),
        }
        for code in sorted({*one, *two})
    ]


def _cost(one: Sample, code: str) -> dict[str, Any]:
    if one.causes is None:
        return {"count": None, "cost_ms": None, "each_ms": None}
    count, cost = one.causes.get(code, (0, 0.0))
    each = None if cost is None or not one.requests else _number(cost / one.requests)
    return {"count": count, "cost_ms": None if cost is None else _number(cost), "each_ms": each}


def _mean(values: Values) -> float | None:
    return _number(float(values.mean())) if len(values) else None


def _jitter(values: Values) -> float | None:
    mean = float(values.mean()) if len(values) > 1 else 0.0
    return _number(float(values.std()) / mean) if mean > 0 else None


def _difference(change: Difference) -> dict[str, float | None]:
    return {"change": _number(change.value), "low": _number(change.low), "high": _number(change.high)}


def _number(value: float) -> float | None:
    return round(float(value), 6) if math.isfinite(value) else None
