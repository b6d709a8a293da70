# SPDX-License-Identifier: Apache-2.0
"""Medians with the interval in which the true median lies with 95 % confidence."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

__all__ = ["Estimate", "estimate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A median and its interval; `low` and `high` are the extremes where there are too few values for 95 %."""

    median: float
    low: float
    high: float
    count: int


def estimate(values: Sequence[float]) -> Estimate:
    """Return median and interval of at least one value: the interval is between two order statistics (binomial)."""
    ordered = sorted(values)
    count = len(ordered)
    outside = 0.0
    cut = 0
    while cut < (count - 1) // 2:
        outside += 2 * comb(count, cut) / 2**count
        if outside > 0.05:
            break
        cut += 1
    cut = max(cut - 1, 0)
    return Estimate(median=statistics.median(ordered), low=ordered[cut], high=ordered[count - 1 - cut], count=count)
