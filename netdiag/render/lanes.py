# SPDX-License-Identifier: Apache-2.0
"""Geometry of the picture of connections over time: a lane each, bars for what happened, a mark for who closed it.

Pure numbers and words; `reports/templates` draws them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from netdiag.render import words
from netdiag.units import UNKNOWN, format_bytes, format_ms

__all__ = ["Bar", "Lane", "Picture", "Tick", "draw"]

MAX_LANES = 150
LABEL_PX, PLOT_PX, LANE_PX, HEAD_PX = 250, 760, 16, 26
_LEAST_PX = 1.2
"""A bar that is shorter would not be seen."""
_TICKS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One stretch of time on a lane."""

    kind: str
    """`connect`, `open`, `send`, `wait`, `receive`, `busy`, `failed`."""
    x: float
    width: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One connection."""

    id: str
    label: str
    y: float
    bars: tuple[Bar, ...]
    mark: str | None
    """How it ended: `local`, `remote`, `reset-local`, `reset-remote`, `timeout`, `failed`; None = it was still open."""
    mark_x: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A line of the time axis."""

    x: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """All that the template needs."""

    lanes: tuple[Lane, ...]
    ticks: tuple[Tick, ...]
    width: int
    height: int
    left_out: int
    """Connections that have no lane."""


def draw(
    document: Mapping[str, Any], activity: Mapping[str, Sequence[tuple[str, float, float]]], of: int | None = None
) -> Picture:
    """Return the picture of at most 150 connections: those that findings name, then the first ones, by time.

    `of`: how many there are, where the document has not all of them.
    """
    rows = _chosen(document)
    scale = _Scale(document, rows)
    lanes = tuple(_lane(row, number, scale, activity.get(row["id"], ())) for number, row in enumerate(rows))
    return Picture(
        lanes=lanes,
        ticks=scale.ticks(),
        width=LABEL_PX + PLOT_PX + 20,
        height=HEAD_PX + LANE_PX * len(lanes) + 6,
        left_out=(len(document["connections"]) if of is None else of) - len(rows),
    )


def _chosen(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rows = document["connections"]
    if len(rows) <= MAX_LANES:
        return list(rows)
    named = {evidence["id"] for finding in document["findings"] for evidence in finding["evidence"]}
    first = [number for number, row in enumerate(rows) if row["id"] in named][:MAX_LANES]
    taken = set(first)
    others = (number for number in range(len(rows)) if number not in taken)
    return [rows[number] for number in sorted([*first, *islice(others, MAX_LANES - len(first))])]


class _Scale:
    """From instants of the document to pixels; where lanes are left out it ends with the last that is drawn."""

    def __init__(self, document: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
        self._start = document["started"]
        times = [self.ms(row[key]) for row in rows for key in ("opened", "closed") if row[key]]
        whole = len(rows) == len(document["connections"]) or not times
        self.span_ms = max([(document["duration_ms"] or 0.0) if whole else 0.0, *times, 1e-3])

    def ms(self, instant: str) -> float:
        """Return an instant as ms since the start of the trace, to the nanosecond."""
        seconds = (_whole_second(instant) - _whole_second(self._start)).total_seconds()
        return seconds * 1e3 + (_fraction_ns(instant) - _fraction_ns(self._start)) / 1e6

    def x(self, at_ms: float) -> float:
        """Return pixels from the left edge."""
        return round(LABEL_PX + PLOT_PX * min(max(at_ms, 0.0), self.span_ms) / self.span_ms, 2)

    def bar(self, kind: str, began_ms: float, ended_ms: float, title: str) -> Bar:
        """Return a bar that can be seen, however short."""
        x = self.x(began_ms)
        return Bar(kind=kind, x=x, width=max(round(self.x(ended_ms) - x, 2), _LEAST_PX), title=title)

    def ticks(self) -> tuple[Tick, ...]:
        """Return round instants, at most eight of them."""
        step = _round_step(self.span_ms / _TICKS)
        count = math.floor(self.span_ms / step)
        return tuple(Tick(x=self.x(step * number), label=_tick(step * number, step)) for number in range(count + 1))


def _whole_second(instant: str) -> datetime:
    return datetime.fromisoformat(f"{instant[:19]}+00:00")


def _fraction_ns(instant: str) -> int:
    return int(instant[20:].rstrip("Z") or 0)


def _round_step(least: float) -> float:
    base = 10.0 ** math.floor(math.log10(least))
    return next(base * factor for factor in (1, 2, 5, 10) if base * factor >= least * (1 - 1e-9))


def _tick(at_ms: float, step: float) -> str:
    if step >= 1000:
        return f"{at_ms / 1000:.0f} s"
    return f"{at_ms / 1000:g} s" if step >= 100 else f"{at_ms:g} ms"


def _lane(row: Mapping[str, Any], number: int, scale: _Scale, phases: Sequence[tuple[str, float, float]]) -> Lane:
    began = scale.ms(row["opened"]) if row["opened"] else 0.0
    ended = scale.ms(row["closed"]) if row["closed"] else scale.span_ms
    closing = scale.ms(row["closing"]) if row["closing"] else ended
    bars = [scale.bar("failed" if _failed(row) else "open", began, ended, _life(row))]
    if row["connect_ms"] is not None and row["opened"] and not _failed(row):
        bars.append(scale.bar("connect", began, began + row["connect_ms"], f"connect {format_ms(row['connect_ms'])}"))
    bars += [scale.bar(kind, first, last, f"{kind} {format_ms(last - first)}") for kind, first, last in phases]
    return Lane(
        id=row["id"],
        label=f"{row['comm'] or UNKNOWN} {'←' if row['role'] == 'server' else '→'} {words.endpoint(row['remote'])}",
        y=HEAD_PX + LANE_PX * number,
        bars=tuple(bars),
        mark=_mark(row),
        mark_x=scale.x(closing),
        title=_life(row),
    )


def _failed(row: Mapping[str, Any]) -> bool:
    return row["outcome"] not in {"established", "pending", None}


def _mark(row: Mapping[str, Any]) -> str | None:
    if _failed(row):
        return "failed"
    if row["close"] == "timeout":
        return "timeout"
    if row["closed_by"] is None:
        return None
    return f"reset-{row['closed_by']}" if row["close"] == "rst" else str(row["closed_by"])


def _life(row: Mapping[str, Any]) -> str:
    """Return one connection in a sentence, for the pointer that rests on it."""
    parts = [f"{row['id']}: {words.endpoint(row['remote'])}", row["outcome"] or "outcome unknown"]
    if row["requests"] is not None:
        parts.append(words.plural(row["requests"], "request"))
    parts.append(f"{format_bytes(row['bytes_sent'])} sent, {format_bytes(row['bytes_received'])} received")
    if row["closed_by"]:
        who = "this side" if row["closed_by"] == "local" else "the other end"
        idle = row["idle_before_close_ms"]
        parts.append(f"closed by {who}" + (f" after {format_ms(idle)} idle" if idle is not None else ""))
    return " · ".join(parts)
