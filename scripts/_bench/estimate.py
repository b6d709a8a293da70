# SPDX-License-Identifier: Apache-2.0
"""Medians with the interval in which the true median lies with 95 % confidence."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

__all__ = ["Estimate", "added", "estimate"]

_DRAWS = 2000


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


def added(without: Sequence[Sequence[float]], having: Sequence[Sequence[float]], quantile: float) -> Estimate:
    """Return by how many percent the costs in `having` exceed those in `without`, which were measured in turn.

    Each holds one list of costs per round. What else a machine does makes pieces of a run dearer, never cheaper, so a
    low quantile over all rounds is compared; the interval comes from drawing rounds again (bootstrap, seeded).
    """
    rounds = list(zip(without, having, strict=True))
    draw = random.Random(1)

    def excess(chosen: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
        base, more = (sorted(cost for pair in chosen for cost in pair[side]) for side in (0, 1))
        return (more[int(len(more) * quantile)] / base[int(len(base) * quantile)] - 1) * 100

    drawn = sorted(excess(draw.choices(rounds, k=len(rounds))) for _ in range(_DRAWS))
    return Estimate(
        median=excess(rounds), low=drawn[_DRAWS // 40], high=drawn[_DRAWS - 1 - _DRAWS // 40], count=len(rounds)
    )
