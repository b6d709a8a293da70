# SPDX-License-Identifier: Apache-2.0
"""Logical calls: the attempts that a program made for one and the same thing, in order. Nothing here judges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from netdiag.analysis.http_calls import Asked
from netdiag.analysis.links import NAN, known

__all__ = ["Attempt", "Call", "Gap", "amplification", "beat_apart", "calls_of", "retry_after_ms", "told"]

_ERRORS = 500.0
_RETRIED = frozenset({408.0, 409.0, 425.0, 429.0})
_RETRY_COUNT = "x-stainless-retry-count"
_USUAL = 2
"""Pauses after calls that succeeded which show a program's beat."""
_SAME, _SAME_MS = 0.2, 2.0
"""How far pauses of one length lie apart."""


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
        return self.asked.unanswered and known(self.ended_ns)

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


def beat_apart(calls: Sequence[Call]) -> tuple[Call, ...]:
    """Return the calls, with those taken apart whose attempts follow one another as calls of this program always do.

    A program that makes the same call again and again pauses alike after a failure and after a success: what comes
    next is its next call, and only a request that says so of itself is another attempt.
    """
    attempts = sorted((one for call in calls for one in call.attempts), key=lambda one: one.began_ns)
    again = [gap for call in calls for gap in call.gaps if not told(gap.after) and not known(gap.asked_ms)]
    before = {id(gap.before) for call in calls for gap in call.gaps}
    usual = [
        (after.began_ns - one.ended_ns) / 1e6
        for one, after in _in_turn(attempts)
        if not one.failed and id(one) not in before
    ]
    usual = [pause for pause in usual if pause >= 0]
    if len(usual) < _USUAL or not again:
        return tuple(calls)
    beat, pause = median(usual), median(gap.ms for gap in again)
    if abs(pause - beat) > max(_SAME_MS, _SAME * beat):
        return tuple(calls)
    parts: list[list[Attempt]] = []
    for call in calls:
        parts.append([call.attempts[0]])
        for attempt in call.attempts[1:]:
            if told(attempt):
                parts[-1].append(attempt)
            else:
                parts.append([attempt])
    return tuple(sorted((Call(attempts=tuple(part)) for part in parts), key=lambda call: call.attempts[0].began_ns))


def _in_turn(attempts: Sequence[Attempt]) -> Iterable[tuple[Attempt, Attempt]]:
    """Return each request with the next one of its thread."""
    last: dict[float | None, Attempt] = {}
    for one in attempts:
        thread = one.asked.tid if known(one.asked.tid) else None
        if thread in last:
            yield last[thread], one
        last[thread] = one


def told(attempt: Attempt) -> bool:
    """Tell whether the request says itself that it is another attempt."""
    return attempt.asked.request_headers.get(_RETRY_COUNT, "0") != "0"


def retry_after_ms(headers: Mapping[str, str]) -> float:
    """Return the pause that a server asked for in seconds; NaN where it did not, or gave a date."""
    value = headers.get("retry-after", "")
    if not value.replace(".", "", 1).isdigit() or len(value) > 9:
        return NAN
    return float(value) * 1e3


def amplification(calls: Sequence[Call]) -> float:
    """Return attempts per logical call."""
    return sum(len(call.attempts) for call in calls) / len(calls) if calls else NAN
