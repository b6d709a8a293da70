# SPDX-License-Identifier: Apache-2.0
"""Loss, said only of the target and only with its bounds: a few failures in a few attempts prove little."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from netdiag.route.model import Attempt, Connect, ConnectOutcome

__all__ = ["Loss", "lower", "of", "upper"]

_NO_LOSS = frozenset({ConnectOutcome.FAILED, ConnectOutcome.UNREACHABLE})
_Z95 = 1.6448536269514722
"""One-sided 95 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """How many attempts failed, and the share that this allows for."""

    lost: int
    sent: int
    low: float | None
    """Share of 1 that loss exceeds with 95 % confidence; None: nothing was sent."""
    high: float | None
    """Share of 1 that loss stays under with 95 % confidence."""


def lower(lost: int, sent: int) -> float:
    """Return the one-sided 95 % lower bound of the share (Wilson's score interval); `sent` is above 0."""
    if not lost:
        return 0.0
    share, z2 = lost / sent, _Z95 * _Z95
    middle = share + z2 / (2 * sent)
    margin = _Z95 * math.sqrt(share * (1 - share) / sent + z2 / (4 * sent * sent))
    return max(0.0, (middle - margin) / (1 + z2 / sent))


def upper(lost: int, sent: int) -> float:
    """Return the one-sided 95 % upper bound of the share (Clopper and Pearson: exact); `sent` is above 0."""
    if lost >= sent:
        return 1.0
    low, high = lost / sent, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most(lost, sent, middle) > 0.05 else (low, middle)
    return high


def _at_most(lost: int, sent: int, share: float) -> float:
    """Return the probability of at most `lost` losses."""
    if share >= 1:
        return 0.0
    log_share, log_rest = math.log(share), math.log1p(-share)
    return sum(
        math.exp(
            math.lgamma(sent + 1)
            - math.lgamma(k + 1)
            - math.lgamma(sent - k + 1)
            + k * log_share
            + (sent - k) * log_rest
        )
        for k in range(lost + 1)
    )


def of(connects: Iterable[Connect]) -> Loss:
    """Return the loss of attempts to connect: a SYN sent again counts as lost as much as an attempt without answer.

    Refusals are answers, and so is the word of a router that there is no way. What failed here was never sent.
    """
    sent = lost = 0
    for connect in connects:
        for attempt in connect.attempts:
            if attempt.outcome in _NO_LOSS:
                continue
            sent += 1
            lost += _lost(attempt)
    if not sent:
        return Loss(lost=0, sent=0, low=None, high=None)
    return Loss(lost=lost, sent=sent, low=lower(lost, sent), high=upper(lost, sent))


def _lost(attempt: Attempt) -> bool:
    return attempt.outcome is ConnectOutcome.TIMEOUT or bool(attempt.retransmits)
