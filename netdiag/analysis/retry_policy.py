# SPDX-License-Identifier: Apache-2.0
"""The retry policy that the wire shows: pauses, how they grow, their spread, their limits. Nothing here judges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from netdiag.analysis.build import milliseconds
from netdiag.analysis.calls import Call, Gap
from netdiag.analysis.links import NAN, known

__all__ = ["Policy", "learn"]

_HONOURED = 0.9
"""A pause of nearly what the server asked for was the server's, not the policy's."""
_STEADY = 1.15
"""Pauses that grow by less do not grow."""
_EVEN = 0.03
_EVEN_MS = 5.0
"""The spread of timers without jitter."""
_LEAST_JITTER = 3
"""Pauses behind the same attempt that it takes to speak of a spread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What was learned; milliseconds, NaN = the run does not show it."""

    attempts: int
    """The most that a call made."""
    base_ms: float
    """The first pause, in the middle."""
    factor: float
    """By how much a pause is longer than the one before it, in the middle."""
    jitter: float
    """Half the spread of pauses behind the same attempt, as a share of their middle."""
    cap_ms: float
    """The longest pause, where later ones did not grow any more."""
    deadline_ms: float
    """The time after which calls were given up, where several ended after the same time without success."""
    honours: bool | None
    """Whether Retry-After was waited for; None where the server never sent one."""
    pauses: tuple[float, ...]
    """In the middle, behind the first, second, … attempt."""

    def words(self) -> str:
        """Return the policy as a sentence's part: `3 attempts, pauses of 0.5 s, then 0.9 s (× 1.9), ± 20 %`."""
        parts = [f"{self.attempts} attempts"]
        if self.pauses:
            shown = [milliseconds(pause) for pause in self.pauses[:4]]
            parts.append(f"pauses of {', then '.join(shown)}" + (", …" if len(self.pauses) > 4 else ""))
        if known(self.factor):
            parts[-1] += f" (× {self.factor:.1f})" if self.factor >= _STEADY else " (they do not grow)"
        if known(self.jitter):
            parts.append("no jitter" if self.jitter == 0 else f"± {100 * self.jitter:.0f} %")
        if known(self.cap_ms):
            parts.append(f"at most {milliseconds(self.cap_ms)}")
        if known(self.deadline_ms):
            parts.append(f"given up after {milliseconds(self.deadline_ms)}")
        if self.honours is not None:
            parts.append("Retry-After is waited for" if self.honours else "Retry-After is not waited for")
        return ", ".join(parts)


def learn(calls: Sequence[Call]) -> Policy:
    """Return the policy that calls with more than one attempt show; pauses that the server asked for tell only that."""
    gaps = [gap for call in calls for gap in call.gaps]
    asked = [gap for gap in gaps if known(gap.asked_ms)]
    own = [gap for gap in gaps if not (known(gap.asked_ms) and gap.ms >= _HONOURED * gap.asked_ms)]
    by_index = _by_index(own)
    pauses = tuple(median(each) for each in by_index)
    growth = [later / earlier for earlier, later in pairwise(pauses) if earlier > 0]
    return Policy(
        attempts=max((len(call.attempts) for call in calls), default=0),
        base_ms=pauses[0] if pauses else NAN,
        factor=_factor(growth),
        jitter=_jitter(by_index),
        cap_ms=_cap(pauses, growth),
        deadline_ms=_deadline(calls),
        honours=sum(_waited(gap) for gap in asked) > len(asked) / 2 if asked else None,
        pauses=pauses,
    )


def _by_index(gaps: Sequence[Gap]) -> list[list[float]]:
    most = max((gap.index for gap in gaps), default=0)
    found = [[gap.ms for gap in gaps if gap.index == index] for index in range(1, most + 1)]
    cut = next((number for number, each in enumerate(found) if not each), len(found))
    return found[:cut]


def _waited(gap: Gap) -> bool:
    return gap.ms >= _HONOURED * gap.asked_ms


def _factor(growth: Sequence[float]) -> float:
    """Return the middle growth, of the pauses before the limit."""
    growing = [each for each in growth if each >= _STEADY]
    return median(growing or growth) if growth else NAN


def _cap(pauses: Sequence[float], growth: Sequence[float]) -> float:
    if len(growth) < 2 or not any(each >= _STEADY for each in growth[:-1]) or growth[-1] >= _STEADY:
        return NAN
    return max(pauses)


def _jitter(by_index: Sequence[Sequence[float]]) -> float:
    spreads = []
    for pauses in by_index:
        if len(pauses) >= _LEAST_JITTER and median(pauses) > 0:
            low, high, middle = min(pauses), max(pauses), median(pauses)
            even = high - low <= max(_EVEN_MS, _EVEN * middle)
            spreads.append(0.0 if even else (high - low) / 2 / middle)
    return max(spreads) if spreads else NAN


def _deadline(calls: Sequence[Call]) -> float:
    """Return the time that calls without success took, where at least three gave up after the same and not by count."""
    lost = [
        call for call in calls if not call.succeeded and known(call.attempts[-1].ended_ns) and len(call.attempts) > 1
    ]
    if len(lost) < 3 or len({len(call.attempts) for call in lost}) < 2:
        return NAN
    took = [call.wasted_ms for call in lost]
    return median(took) if max(took) - min(took) <= 0.05 * median(took) else NAN
