# SPDX-License-Identifier: Apache-2.0
"""Geometry of distributions: how often calls took how long, on a logarithmic axis, with percentiles. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from netdiag.render.scale import Tick, logarithmic
from netdiag.units import UNKNOWN, format_count, format_ms

__all__ = ["Mark", "Spread", "draw", "of"]

PLOT_PX, HEIGHT_PX, HEAD_PX, FOOT_PX = 660, 84, 16, 18
_BINS = 60
_FEWEST = 5
_LEAST_MS = 1e-3
_MEASURES = (
    ("total", "total_ms", "whole call"),
    ("wait", "wait_ms", "server until first byte"),
    ("token", "first_token_ms", "request sent until first token"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A percentile."""

    name: str
    x: float
    value: str
    end: bool
    """Its label stands at its left, for at the right there is no room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """One distribution."""

    kind: str
    name: str
    count: str
    bars: tuple[tuple[float, float, float, str], ...]
    """x, y, height, title."""
    bar_width: float
    marks: tuple[Mark, ...]
    ticks: tuple[Tick, ...]
    figures: tuple[tuple[str, str], ...]
    """Mean, percentiles and σ/μ, as a table has them."""


def draw(document: Mapping[str, Any], values_of: Mapping[str, Sequence[float]] | None = None) -> list[Spread]:
    """Return the distribution of each measure that at least five requests have.

    `values_of` are the known values by measure, where the document has not all requests.
    """
    found = []
    for kind, member, name in _MEASURES:
        told: list[float | None]
        if values_of is not None:
            told = list(values_of.get(member, ()))
        elif member == "first_token_ms":
            told = [(row["stream"] or {}).get(member) for row in document["requests"]]
        else:
            told = [row[member] for row in document["requests"]]
        values = sorted(value for value in told if value is not None)
        if len(values) >= _FEWEST:
            found.append(of(kind, name, values, document["summary"][member]))
    return found


def of(kind: str, name: str, values: Sequence[float], summary: Mapping[str, float | None]) -> Spread:
    """Return one distribution of sorted milliseconds, with the figures of the summary."""
    low, high = max(values[0], _LEAST_MS), max(values[-1], _LEAST_MS)
    low, high = low / 1.15, max(high * 1.15, low * 2)
    span = math.log(high / low)
    width = PLOT_PX / _BINS
    counts = [0] * _BINS
    for value in values:
        counts[min(int(math.log(max(value, low) / low) / span * _BINS), _BINS - 1)] += 1
    tallest = max(counts)
    bars = []
    for number, count in enumerate(counts):
        if count:
            tall = max(HEIGHT_PX * count / tallest, 1.5)
            edges = [low * math.exp(span * (number + add) / _BINS) for add in (0, 1)]
            title = f"{format_ms(edges[0])} to {format_ms(edges[1])}: {format_count(count)}"
            bars.append((round(width * number, 2), round(HEAD_PX + HEIGHT_PX - tall, 2), round(tall, 2), title))
    marks = []
    for key in ("p50", "p95", "p99"):
        told = summary[key]
        if told is not None:
            x = PLOT_PX * min(max(math.log(max(told, low) / low) / span, 0.0), 1.0)
            marks.append(Mark(name=key, x=round(x, 2), value=format_ms(told), end=x > PLOT_PX - 60))
    jitter = summary["jitter"]
    figures = [(key, format_ms(summary[key])) for key in ("mean", "p50", "p90", "p95", "p99")]
    return Spread(
        kind=kind,
        name=name,
        count=format_count(len(values)),
        bars=tuple(bars),
        bar_width=round(width - 1, 2),
        marks=tuple(marks),
        ticks=logarithmic(low, high, 0.0, PLOT_PX),
        figures=(*figures, ("σ/μ", UNKNOWN if jitter is None else f"{jitter:.2f}")),
    )
