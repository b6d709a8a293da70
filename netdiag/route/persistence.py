# SPDX-License-Identifier: Apache-2.0
"""A detour seen once may be over in a minute: it is confirmed when it persists, by 3 of 5 checks over 10 minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from netdiag.route.detour import Detour

__all__ = ["Check", "confirm"]

_OF, _NEEDED, _SPAN_S = 5, 3, 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What an earlier check of the same target said."""

    at_s: float
    """Seconds since 1970."""
    verdict: str
    kind: str | None
    rtt_ms: float | None = None
    """Its shortest round trip."""
    place: str | None = None
    """Network and region that it was made from: checks from elsewhere tell nothing about here."""


def confirm(detour: Detour, earlier: Sequence[Check], now_s: float) -> Detour:
    """Return the verdict, confirmed where enough of the last five checks, this one included, say the same."""
    if detour.verdict != "suspect":
        return detour
    last = [*sorted(earlier, key=lambda check: check.at_s)[-(_OF - 1) :]]
    agreeing = [check for check in last if check.verdict in {"suspect", "confirmed"} and check.kind == detour.kind]
    seen = len(agreeing) + 1
    span = now_s - min((check.at_s for check in agreeing), default=now_s)
    if seen >= _NEEDED and span >= _SPAN_S:
        words = f"seen in {seen} of {len(last) + 1} checks over {span / 60:.0f} min"
        return replace(detour, verdict="confirmed", evidence=(*detour.evidence, words))
    return detour
