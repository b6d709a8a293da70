# SPDX-License-Identifier: Apache-2.0
"""Geometry of the waterfall: a row for each request, its parts one after the other. Pure numbers and words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from netdiag.render import words
from netdiag.render.scale import Tick, line, since
from netdiag.summary import PARTS
from netdiag.text import safe
from netdiag.units import format_ms

__all__ = ["MAX_ROWS", "Part", "Row", "Waterfall", "draw"]

MAX_ROWS = 60
LABEL_PX, PLOT_PX, ROW_PX, HEAD_PX = 250, 760, 18, 26
_LEAST_PX = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a request's time."""

    kind: str
    x: float
    width: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One request."""

    id: str
    label: str
    y: float
    parts: tuple[Part, ...]
    failed: bool
    end_x: float
    total: str
    connection: str | None
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """All that the template needs."""

    rows: tuple[Row, ...]
    ticks: tuple[Tick, ...]
    width: int
    height: int
    left_out: int


def draw(document: Mapping[str, Any], of: int | None = None) -> Waterfall | None:
    """Return at most 60 requests: those that findings name, the slowest, then the first; None where none is timed.

    `of`: how many there are, where the document has not all of them.
    """
    timed = [row for row in document["requests"] if row["total_ms"] is not None and row["started"] is not None]
    if not timed:
        return None
    chosen = _chosen(timed, document)
    start = document["started"]
    began = [since(start, row["started"]) for row in chosen]
    low = min(began)
    span = max(max(at + row["total_ms"] for at, row in zip(began, chosen, strict=True)) - low, 1e-3)
    hosts = {row["id"]: words.endpoint(row["remote"]) for row in document["connections"]}
    rows = tuple(
        _row(row, number, (at - low) / span, PLOT_PX / span, hosts)
        for number, (row, at) in enumerate(zip(chosen, began, strict=True))
    )
    return Waterfall(
        rows=rows,
        ticks=line(0.0, span, LABEL_PX, PLOT_PX),
        width=LABEL_PX + PLOT_PX + 70,
        height=HEAD_PX + ROW_PX * len(rows) + 6,
        left_out=(len(document["requests"]) if of is None else of) - len(rows),
    )


def _chosen(timed: list[Mapping[str, Any]], document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if len(timed) <= MAX_ROWS:
        return timed
    named = {evidence["id"] for finding in document["findings"] for evidence in finding["evidence"]}
    order = sorted(range(len(timed)), key=lambda n: (timed[n]["id"] not in named, -timed[n]["total_ms"]))
    taken = set(order[: MAX_ROWS // 2])
    rest = [number for number in range(len(timed)) if number not in taken][: MAX_ROWS - len(taken)]
    return [timed[number] for number in sorted([*taken, *rest])]


def _row(row: Mapping[str, Any], number: int, share: float, scale: float, hosts: Mapping[str, str]) -> Row:
    at = LABEL_PX + PLOT_PX * share
    parts = []
    for kind, member in PARTS:
        ms = row[member]
        if not ms or ms < 0:
            continue
        parts.append(
            Part(
                kind=kind,
                x=round(at, 2),
                width=max(round(ms * scale, 2), _LEAST_PX),
                title=f"{words.PARTS[kind]} {format_ms(ms)}",
            )
        )
        at += ms * scale
    failed = row["error"] is not None or (row["status"] or 0) >= 400
    asked = " ".join(safe(str(word)) for word in (row["method"], row["path"]) if word)
    label = asked or hosts.get(row["connection"] or "", "")
    said = [label, f"status {row['status']}" if row["status"] else "", safe(row["error"] or ""), row["model"] or ""]
    return Row(
        id=row["id"],
        label=label,
        y=HEAD_PX + ROW_PX * number,
        parts=tuple(parts),
        failed=failed,
        end_x=round(at + 4, 2),
        total=format_ms(row["total_ms"]),
        connection=row["connection"],
        title=" · ".join(word for word in [row["id"], *said, format_ms(row["total_ms"])] if word),
    )
