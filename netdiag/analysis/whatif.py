# SPDX-License-Identifier: Apache-2.0
"""What a fix would have brought: the percentiles of this run, computed again with the measured part left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from netdiag.analysis.http_calls import Asked
from netdiag.analysis.links import NAN, known

__all__ = ["first_token", "setup_saved", "total", "what_if"]

_CHANGE = 0.01
"""A smaller change of a percentile is none."""
_MARK = "(an estimate from this run's parts)"


def total(call: Asked) -> float:
    """Return how long a call took, ms."""
    return call.total_ms


def first_token(call: Asked) -> float:
    """Return the time to the first token, ms: the token's where it is known, else that of the first chunk."""
    for name in ("ttft_ms", "first_token_ms", "first_chunk_ms"):
        value = call.fact(name)
        if known(value):
            return value
    return call.wait_ms


def what_if(
    calls: Iterable[Asked], saved: Mapping[int, float], measure: Callable[[Asked], float] = total
) -> str | None:
    """Return what p50 and p95 would have been had each call taken `saved` (by row, ms) less; None where nothing moves.

    `measure` says of what: `total`, or some time to the first token.
    """
    now = [(call.row, measure(call)) for call in calls]
    before = [value for _, value in now if known(value)]
    after = [max(0.0, value - saved.get(row, 0.0)) for row, value in now if known(value)]
    if not before or sum(before) <= 0:
        return None
    what = "time a call" if measure is total else "time to first token"
    old, new = np.percentile(before, (50, 95)), np.percentile(after, (50, 95))
    moved = [
        f"{name} {_pair(float(a), float(b))}"
        for name, a, b in zip(("p50", "p95"), old, new, strict=True)
        if a - b > _CHANGE * a
    ]
    if not moved and max(before) - max(after) > _CHANGE * max(before):
        moved = [f"longest {_pair(max(before), max(after))}"]
    if not moved:
        mean_old, mean_new = sum(before) / len(before), sum(after) / len(after)
        moved = [f"mean {_pair(mean_old, mean_new)}"] if mean_old - mean_new > _CHANGE * mean_old else []
    return f"{what} {', '.join(moved)} {_MARK}" if moved else None


def _pair(before: float, after: float) -> str:
    """Return two durations in one unit: `781 → 642 ms`."""
    if before >= 10_000:
        return f"{before / 1e3:.1f} → {after / 1e3:.1f} s"
    digits = 0 if before >= 10 else 1
    return f"{before:,.{digits}f} → {after:,.{digits}f} ms"


def setup_saved(calls: Iterable[Asked], rows: Iterable[int]) -> dict[int, float]:
    """Return for each first call on the connections `rows` what it waited for that connection, ms."""
    chosen = set(rows)
    saved: dict[int, float] = {}
    for call in calls:
        if call.link.row in chosen and call.reused is False:
            spent = call.setup_ms
            saved[call.row] = spent if known(spent) else NAN
    return {row: spent for row, spent in saved.items() if known(spent) and spent > 0}
