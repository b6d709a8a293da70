# SPDX-License-Identifier: Apache-2.0
"""How far two sets of measurements differ, how sure that is, and whether chance explains it. Pure, deterministic.

Quantiles: the bootstrap, computed without resampling: the k-th of n resampled values is the sample's value at a rank
that a Beta(k, n - k + 1) distribution draws. Means: Welch. Shares: Newcombe's interval of Wilson's. Tests are
one-sided where they ask whether the second is greater: Mann-Whitney for the whole distribution, Fisher's exact test on
the values beyond the common percentile for its tail.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Difference",
    "Values",
    "fisher_greater",
    "mann_whitney_greater",
    "mean_difference",
    "quantile",
    "quantile_difference",
    "share_difference",
    "tail_greater",
]

Values: TypeAlias = NDArray[np.float64]

_DRAWS = 4000
_Z95 = 1.959964
_FEW = 2
_WIDE = 40.0
"""Deviations beyond which a term of Fisher's test is below what a float can hold beside the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Second less first, with its 95 % interval; NaN where there are too few values."""

    value: float
    low: float
    high: float


_UNKNOWN = Difference(value=math.nan, low=math.nan, high=math.nan)


def quantile(values: Values, share: float) -> float:
    """Return a quantile of sorted values, linear between neighbours as in the summary; NaN of none."""
    if not len(values):
        return math.nan
    at = share * (len(values) - 1)
    low = math.floor(at)
    high = min(low + 1, len(values) - 1)
    return float(values[low] + (values[high] - values[low]) * (at - low))


def quantile_difference(first: Values, second: Values, share: float, *, seed: int = 1) -> Difference:
    """Return how far a quantile of the second lies above that of the first, both sorted."""
    if min(len(first), len(second)) < _FEW:
        return _UNKNOWN
    random = np.random.default_rng([seed, round(share * 1e6)])
    draws = _redrawn(second, share, random) - _redrawn(first, share, random)
    low, high = np.percentile(draws, (2.5, 97.5))
    value = quantile(second, share) - quantile(first, share)
    return Difference(value=value, low=min(float(low), value), high=max(float(high), value))


def _redrawn(values: Values, share: float, random: np.random.Generator) -> Values:
    """Return what the quantile of resamples with replacement would be."""
    count = len(values)
    rank = min(max(round(share * (count - 1)) + 1, 1), count)
    ranks = np.minimum((random.beta(rank, count - rank + 1, _DRAWS) * count).astype(np.int64), count - 1)
    drawn: Values = values[ranks]
    return drawn


def mean_difference(first: Values, second: Values) -> Difference:
    """Return how far the mean of the second lies above that of the first."""
    if min(len(first), len(second)) < _FEW:
        return _UNKNOWN
    value = float(second.mean() - first.mean())
    error = math.sqrt(float(first.var(ddof=1)) / len(first) + float(second.var(ddof=1)) / len(second))
    return Difference(value=value, low=value - _Z95 * error, high=value + _Z95 * error)


def share_difference(first: tuple[int, int], second: tuple[int, int]) -> Difference:
    """Return the difference of two shares, each (hits, of)."""
    if not first[1] or not second[1]:
        return _UNKNOWN
    (one, one_low, one_high), (two, two_low, two_high) = _wilson(*first), _wilson(*second)
    value = two - one
    low = value - math.hypot(two - two_low, one_high - one)
    high = value + math.hypot(two_high - two, one - one_low)
    return Difference(value=value, low=low, high=high)


def _wilson(hits: int, of: int) -> tuple[float, float, float]:
    share, square = hits / of, _Z95 * _Z95
    middle = (share + square / (2 * of)) / (1 + square / of)
    half = _Z95 / (1 + square / of) * math.sqrt(share * (1 - share) / of + square / (4 * of * of))
    return share, max(middle - half, 0.0), min(middle + half, 1.0)


def mann_whitney_greater(first: Values, second: Values) -> float:
    """Return the probability that chance makes the second as much greater as it is; NaN of fewer than two values."""
    few, many = len(first), len(second)
    if min(few, many) < _FEW:
        return math.nan
    first, second = np.sort(first, kind="stable"), np.sort(second, kind="stable")
    # each of the second counts those of the first that are less, and half of those that are equal
    less, up_to = (np.searchsorted(first, second, side) for side in ("left", "right"))
    score = (float(less.sum()) + float(up_to.sum())) / 2
    both = np.sort(np.concatenate([first, second]), kind="stable")  # two sorted runs: a merge
    counts = np.diff(np.append(np.flatnonzero(np.append(True, both[1:] != both[:-1])), len(both)))
    total = few + many
    ties = float(((counts.astype(np.float64) ** 3) - counts).sum()) / (total * (total - 1))
    deviation = math.sqrt(max(few * many / 12 * (total + 1 - ties), 0.0))
    if not deviation:
        return 1.0
    return 0.5 * math.erfc((score - few * many / 2 - 0.5) / deviation / math.sqrt(2))


def tail_greater(first: Values, second: Values, share: float) -> float:
    """Return the same of the tails: how many of each, both sorted, lie beyond the quantile of both together."""
    if min(len(first), len(second)) < _FEW:
        return math.nan
    both = np.sort(np.concatenate([first, second]))
    bound = quantile(both, share)
    beyond = [len(values) - int(np.searchsorted(values, bound, "right")) for values in (first, second)]
    return fisher_greater((beyond[0], len(first)), (beyond[1], len(second)))


def fisher_greater(first: tuple[int, int], second: tuple[int, int]) -> float:
    """Return the probability that of as many hits at least so many fall to the second by chance; each (hits, of)."""
    if not first[1] or not second[1]:
        return math.nan
    hits, total = first[0] + second[0], first[1] + second[1]
    least, most = second[0], min(hits, second[1])
    # of millions of terms those far beyond the middle are nothing
    middle = hits * second[1] / total
    width = _WIDE * math.sqrt(max(middle * (1 - second[1] / total) * (total - hits) / total, 1.0)) + _WIDE
    least = max(least, min(math.floor(middle - width), most))
    most = min(most, math.ceil(max(middle, least) + width))
    counts = np.arange(least, most + 1)
    logs = _log_choose(second[1], counts) + _log_choose(first[1], hits - counts) - _log_choose(total, hits)
    return min(float(np.exp(logs).sum()), 1.0)


def _log_choose(of: int, chosen: Any) -> Any:
    """Return the logarithm of the binomial coefficient; where it is 0, minus infinity."""
    chosen = np.atleast_1d(np.asarray(chosen, np.int64))
    inside = (chosen >= 0) & (chosen <= of)
    kept = np.where(inside, chosen, 0)
    table = np.array([math.lgamma(of + 1) - math.lgamma(k + 1) - math.lgamma(of - k + 1) for k in kept.tolist()])
    return np.where(inside, table, -np.inf)
