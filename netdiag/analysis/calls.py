# SPDX-License-Identifier: Apache-2.0
"""Logical calls: the attempts that a program made for one and the same thing, in order. Nothing here judges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from netdiag.analysis.http_calls import Asked
from netdiag.analysis.links import NAN, known

__all__ = ["Attempt", "Call", "Gap", "amplification", "calls_of", "retry_after_ms"]

_ERRORS = 500.0
_RETRIED = frozenset({408.0, 409.0, 425.0, 429.0})


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One request of a logical call."""

    asked: Asked

    @property
    def began_ns(self) -> float:
        """When its first byte left."""
        return self.asked.began_ns

    @property
    def ended_ns(self) -> float:
        """When its answer, or its connection, was over; NaN where it went on."""
        return self.asked.until_ns

    @property
    def failed(self) -> bool:
        """It was one that clients repeat: an error that may pass, no answer, a part of one."""
        if known(self.asked.status):
            return self.asked.status >= _ERRORS or self.asked.status in _RETRIED or self.asked.complete is False
        return not self.asked.answered and known(self.ended_ns)

    @property
    def what(self) -> str:
        """How it failed, in a word or two."""
        if self.asked.status >= 400:
            return f"{self.asked.status:.0f}"
        if not self.asked.answered:
            return "no answer"
        return "cut off"

    @property
    def took_ms(self) -> float:
        """From its first byte to its end."""
        return (self.ended_ns - self.began_ns) / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """The pause between a failed attempt and the next one, milliseconds."""

    index: int
    """1 = behind the first attempt."""
    ms: float
    asked_ms: float
    """What the server asked for by Retry-After; NaN = nothing."""
    before: Attempt
    after: Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One logical call."""

    attempts: tuple[Attempt, ...]

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The pauses between its attempts."""
        return tuple(
            Gap(
                index=index,
                ms=(after.began_ns - before.ended_ns) / 1e6,
                asked_ms=retry_after_ms(before.asked.headers),
                before=before,
                after=after,
            )
            for index, (before, after) in enumerate(pairwise(self.attempts), 1)
        )

    @property
    def succeeded(self) -> bool:
        """Its last attempt did not fail."""
        return not self.attempts[-1].failed

    @property
    def wasted_ms(self) -> float:
        """The time from its first byte to the start of the attempt that settled it."""
        last = self.attempts[-1]
        until = last.ended_ns if last.failed and known(last.ended_ns) else last.began_ns
        return (until - self.attempts[0].began_ns) / 1e6


def calls_of(asked: Iterable[Asked]) -> tuple[Call, ...]:
    """Return the logical calls of requests, by time of their first attempts."""
    ordered = sorted(asked, key=lambda each: (each.began_ns, each.row))
    chains: dict[str, list[Attempt]] = {}
    found: list[list[Attempt]] = []
    for each in ordered:
        chain = chains.pop(each.retry_of, None) if each.retry_of else None
        if chain is None:
            chain = []
            found.append(chain)
        chain.append(Attempt(asked=each))
        chains[each.id] = chain
    return tuple(Call(attempts=tuple(chain)) for chain in found)


def retry_after_ms(headers: Mapping[str, str]) -> float:
    """Return the pause that a server asked for in seconds; NaN where it did not, or gave a date."""
    value = headers.get("retry-after", "")
    if not value.replace(".", "", 1).isdigit() or len(value) > 9:
        return NAN
    return float(value) * 1e3


def amplification(calls: Sequence[Call]) -> float:
    """Return attempts per logical call."""
    return sum(len(call.attempts) for call in calls) / len(calls) if calls else NAN
