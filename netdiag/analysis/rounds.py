# SPDX-License-Identifier: Apache-2.0
"""Calls that all fail, told apart by their pauses: attempts follow each other in one rhythm, calls in another. Pure.

The next call after one that failed to its last attempt looks like one more attempt. Where the pauses repeat in rounds,
as those of equal calls do, each round is a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from netdiag.analysis.calls import Call, told
from netdiag.analysis.links import known

__all__ = ["doubtful", "rounds_apart"]

_ROUNDS = 3
_PAUSES = 2
"""So many show whether they are alike."""
_ALIKE = 0.2
_EVEN_MS, _EVEN = 10.0, 0.05
"""How far pauses of one timer lie apart."""
_APART_MS = 20.0
"""By so much the pause between two calls differs from the first one within a call, and by three times its spread."""


def rounds_apart(calls: Sequence[Call]) -> tuple[Call, ...]:
    """Return the calls, with those that never succeeded taken apart at the ends of their rounds, by time."""
    found: list[Call] = []
    for call in calls:
        size = _round(call)
        attempts = call.attempts
        found += [Call(attempts=attempts[at : at + size]) for at in range(0, len(attempts), size)] if size else [call]
    return tuple(sorted(found, key=lambda call: call.attempts[0].began_ns))


def doubtful(calls: Sequence[Call]) -> bool:
    """Tell whether attempts may as well be calls: all pauses alike, no success among them, and none says what it is.

    Calls that follow each other with other pauses than their attempts show what is what.
    """
    gaps = [gap for call in calls for gap in call.gaps]
    if len(gaps) < _PAUSES or any(call.succeeded for call in calls) or any(told(gap.after) for gap in gaps):
        return False
    pauses = [gap.ms for gap in gaps]
    return max(pauses) - min(pauses) <= max(_EVEN_MS, _ALIKE * median(pauses)) and not _in_rounds(calls, pauses)


def _in_rounds(calls: Sequence[Call], within: Sequence[float]) -> bool:
    between = [
        (later.attempts[0].began_ns - earlier.attempts[-1].ended_ns) / 1e6
        for earlier, later in pairwise(calls)
        if _thread(earlier) == _thread(later)
    ]
    return len(between) >= _ROUNDS - 1 and all(map(known, between)) and _unlike(between, within)


def _thread(call: Call) -> float | None:
    tid = call.attempts[0].asked.tid
    return tid if known(tid) else None


def _round(call: Call) -> int:
    """Return how many attempts make a round, 0 where there are no rounds."""
    gaps = call.gaps
    if call.succeeded or any(told(gap.after) or known(gap.asked_ms) for gap in gaps):
        return 0
    pauses = [gap.ms for gap in gaps]
    for size in range(2, len(call.attempts) // _ROUNDS + 1):
        places = [pauses[at::size] for at in range(size)]
        if all(map(_even, places)) and _unlike(places[-1], places[0]):
            return size
    return 0


def _even(pauses: Sequence[float]) -> bool:
    return max(pauses) - min(pauses) <= max(_EVEN_MS, _EVEN * median(pauses))


def _unlike(pauses: Sequence[float], others: Sequence[float]) -> bool:
    spread = max(max(each) - min(each) for each in (pauses, others))
    return abs(median(pauses) - median(others)) >= max(_APART_MS, 3 * spread)
