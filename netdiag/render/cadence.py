# SPDX-License-Identifier: Apache-2.0
"""When the pieces of streamed answers came, and where they stalled: geometry of the picture. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from netdiag.render.scale import Tick, line
from netdiag.tables import Tables
from netdiag.text import safe
from netdiag.units import UNKNOWN, format_count, format_ms

__all__ = ["MAX_STREAMS", "Cadence", "Stream", "draw", "pieces"]

MAX_STREAMS = 12
_MAX_TICKS = 400
LABEL_PX, PLOT_PX, ROW_PX, HEAD_PX = 170, 700, 34, 26
_NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One streamed answer."""

    id: str
    label: str
    y: float
    first_x: float | None
    """Where the first token came."""
    path: str
    """A line up for each piece, as SVG's path."""
    stalls: tuple[tuple[float, float, str, str], ...]
    """x, width, whose, words."""
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cadence:
    """All that the template needs."""

    streams: tuple[Stream, ...]
    ticks: tuple[Tick, ...]
    width: int
    height: int
    left_out: int


def pieces(tables: Tables) -> dict[str, tuple[float, ...]]:
    """Return for the streams with most to say when their pieces came, in ms after the request was sent, by id."""
    chunks, requests = tables.chunks, tables.requests
    if not len(chunks):
        return {}
    sent, ids = requests["sent_ns"], requests["id"]
    found: dict[str, tuple[float, ...]] = {}
    for row, times in chunks.groupby("request", sort=True)["at_ns"]:
        number = int(str(row))
        if not 0 <= number < len(ids) or not math.isfinite(sent.iloc[number]):
            continue
        after = ((times.to_numpy() - sent.iloc[number]) / _NS_PER_MS).tolist()
        step = math.ceil(len(after) / _MAX_TICKS)
        found[str(ids.iloc[number])] = tuple(at for at in after[::step] if math.isfinite(at))
    return found


def draw(document: Mapping[str, Any], arrived: Mapping[str, Sequence[float]]) -> Cadence | None:
    """Return the streams with stalls first, then the longest; None where there is none."""
    streams = [row for row in document["requests"] if row["stream"] is not None and row["id"] in arrived]
    if not streams:
        return None
    order = sorted(streams, key=lambda row: (not row["stream"].get("stalls"), -(row["total_ms"] or 0.0)))
    chosen = sorted(order[:MAX_STREAMS], key=lambda row: row["started"] or "")
    span = max([*(max(arrived[row["id"]], default=0.0) for row in chosen), 1.0])
    return Cadence(
        streams=tuple(_stream(row, number, arrived[row["id"]], PLOT_PX / span) for number, row in enumerate(chosen)),
        ticks=line(0.0, span, LABEL_PX, PLOT_PX),
        width=LABEL_PX + PLOT_PX + 20,
        height=HEAD_PX + ROW_PX * len(chosen) + 4,
        left_out=len(streams) - len(chosen),
    )


def _told(stall: Mapping[str, Any]) -> str:
    blame = safe(stall["blame"] or "unknown")
    return f"{format_ms(stall['gap_ms'])} without a piece: {blame}, {safe(str(stall['why']))}"


def _stream(row: Mapping[str, Any], number: int, times: Sequence[float], scale: float) -> Stream:
    stream = row["stream"]
    y = HEAD_PX + ROW_PX * number
    path = "".join(f"M{LABEL_PX + at * scale:.1f} {y + 22}v-14" for at in times)
    stalls = tuple(
        (
            round(LABEL_PX + max(stall["at_ms"], 0.0) * scale, 2),
            max(round(stall["gap_ms"] * scale, 2), 2.0),
            str(stall["blame"] or "unknown"),
            _told(stall),
        )
        for stall in stream.get("stalls") or ()
    )
    first = stream["first_token_ms"]
    gap = f"gap p50 {format_ms(stream['gap_p50_ms'])}, longest {format_ms(stream['gap_max_ms'])}"
    told = [row["id"], safe(row["model"] or ""), f"first token {format_ms(first)}" if first is not None else "", gap]
    return Stream(
        id=row["id"],
        label=safe(row["model"] or row["host"] or UNKNOWN),
        y=y,
        first_x=None if first is None else round(LABEL_PX + first * scale, 2),
        path=path,
        stalls=stalls,
        title=" · ".join(word for word in [*told, f"{format_count(stream['chunks'])} pieces"] if word),
    )
