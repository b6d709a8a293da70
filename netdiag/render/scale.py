# SPDX-License-Identifier: Apache-2.0
"""Round numbers on axes, and instants of the document as milliseconds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime

from netdiag.units import format_ms

__all__ = ["Tick", "line", "logarithmic", "since"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A line of an axis."""

    x: float
    label: str


def since(start: str, instant: str) -> float:
    """Return an instant as ms after another, to the nanosecond; both RFC 3339 with nine digits."""
    seconds = (_second(instant) - _second(start)).total_seconds()
    return seconds * 1e3 + (int(instant[20:29]) - int(start[20:29])) / 1e6


def _second(instant: str) -> datetime:
    return datetime.fromisoformat(f"{instant[:19]}+00:00")


def line(low: float, high: float, left: float, width: float, *, most: int = 8) -> tuple[Tick, ...]:
    """Return round milliseconds from low to high, at most so many, labelled from low on."""
    span = max(high - low, 1e-6)
    base = 10.0 ** math.floor(math.log10(span / most))
    step = next(base * factor for factor in (1, 2, 5, 10) if base * factor >= span / most * (1 - 1e-9))
    numbers = range(math.floor(span / step * (1 + 1e-9)) + 1)
    return tuple(Tick(x=round(left + width * step * n / span, 2), label=_label(step * n, step)) for n in numbers)


def _label(at_ms: float, step: float) -> str:
    if step >= 1000:
        return f"{at_ms / 1000:.0f} s"
    return f"{at_ms / 1000:g} s" if step >= 100 else f"{round(at_ms, 9):g} ms"


def logarithmic(low: float, high: float, left: float, width: float) -> tuple[Tick, ...]:
    """Return 1, 2 and 5 of each power of ten between two positive milliseconds; powers alone where that is much."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1, 2, 5) if last - first <= 3 else (1,)
    values = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
    span = math.log(high / low) or 1.0
    return tuple(
        Tick(x=round(left + width * math.log(value / low) / span, 2), label=format_ms(value))
        for value in values
        if low <= value <= high
    )
