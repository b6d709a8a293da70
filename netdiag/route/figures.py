# SPDX-License-Identifier: Apache-2.0
"""Round trips in few figures: shortest, median, 95th percentile, and how far they scatter. Unknown is None."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from netdiag.route.hops import is_target
from netdiag.route.model import Attempt, Connect, ConnectOutcome, Trace

__all__ = ["Figures", "connect_ms", "mad", "of", "target_ms"]

_MEASURED = frozenset({ConnectOutcome.ESTABLISHED, ConnectOutcome.REFUSED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A series of round trips, milliseconds."""

    min_ms: float
    median_ms: float
    p95_ms: float
    n: int


def of(values: Iterable[float]) -> Figures | None:
    """Return the figures of a series; None for an empty one."""
    ordered = sorted(values)
    if not ordered:
        return None
    rank = max(0, -(-95 * len(ordered) // 100) - 1)
    return Figures(min_ms=ordered[0], median_ms=statistics.median(ordered), p95_ms=ordered[rank], n=len(ordered))


def mad(values: Sequence[float]) -> float | None:
    """Return the median distance from the median; None for fewer than three values."""
    if len(values) < 3:
        return None
    middle = statistics.median(values)
    return statistics.median(abs(value - middle) for value in values)


def connect_ms(connects: Iterable[Connect]) -> list[tuple[Attempt, float]]:
    """Return the attempts whose SYN was answered at once, with their round trips; a SYN sent again measures a timer."""
    return [
        (attempt, attempt.connect_ms)
        for connect in connects
        for attempt in connect.attempts
        if attempt.outcome in _MEASURED and attempt.connect_ms is not None and not attempt.retransmits
    ]


def target_ms(trace: Trace) -> list[float]:
    """Return the round trips of the target's own answers to the probes of a trace."""
    replies = [probe.reply for probe in trace.probes if probe.reply is not None and not probe.warm_up]
    return [reply.rtt_ms for reply in replies if is_target(trace, reply)]
