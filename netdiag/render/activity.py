# SPDX-License-Identifier: Apache-2.0
"""When data moved on each connection, for the picture of connections over time; it is no part of the document."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from netdiag.tables import Tables

__all__ = ["MAX_PIECES", "activity"]

MAX_PIECES = 12_000
"""Pieces in all: more would neither be told apart on a page nor load well."""

_NS_PER_MS = 1e6
_PHASES = (
    ("send", "began_ns", "sent_ns"),
    ("wait", "sent_ns", "first_byte_ns"),
    ("receive", "first_byte_ns", "last_byte_ns"),
)


def activity(tables: Tables, limit: int = MAX_PIECES) -> dict[str, tuple[tuple[str, float, float], ...]]:
    """Return for each connection id its phases `send`, `wait`, `receive` with begin and end in ms since the start.

    There are about `limit` pieces at most.

    A connection with more exchanges than a picture can hold apart has stretches `busy` instead: no exchange is left
    out, for what is not drawn would look idle.
    """
    ids = tables.connections["id"].tolist()
    turns = tables.turns
    if not len(turns):
        return {}
    rows = turns["connection"].to_numpy(np.int64)
    numbers, counts = np.unique(rows, return_counts=True)
    many = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
    most = limit // len(_PHASES) // len(many) if len(turns) > limit // len(_PHASES) else len(turns)
    found: dict[str, list[tuple[str, float, float]]] = {}
    drawn = turns[np.isin(rows, [number for number, count in many.items() if count <= most])]
    columns = {name: drawn[name].tolist() for _, first, last in _PHASES for name in (first, last)}
    for row, connection in enumerate(drawn["connection"].tolist()):
        found.setdefault(ids[connection], []).extend(_phases(columns, row))
    for number, count in many.items():
        if count > most:
            found[ids[number]] = _busy(turns[rows == number], max(most, 1), tables.span_ms)
    return {id_: tuple(phases) for id_, phases in found.items()}


def _busy(turns: Any, most: int, span_ms: float) -> list[tuple[str, float, float]]:
    """Return stretches of exchanges with pauses shorter than can be seen."""
    began = turns["began_ns"].to_numpy() / _NS_PER_MS
    ended = turns[["began_ns", "sent_ns", "first_byte_ns", "last_byte_ns"]].max(axis=1).to_numpy() / _NS_PER_MS
    known = np.isfinite(began)
    order = np.argsort(began[known], kind="stable")
    began, ended = began[known][order], np.maximum.accumulate(ended[known][order])
    if not len(began):
        return []
    breaks = np.flatnonzero(began[1:] - ended[:-1] > span_ms / most)
    firsts, lasts = began[np.r_[0, breaks + 1]], ended[np.r_[breaks, len(ended) - 1]]
    return [("busy", first, last) for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)]


def _phases(columns: dict[str, list[Any]], row: int) -> list[tuple[str, float, float]]:
    phases = []
    for kind, first, last in _PHASES:
        began, ended = columns[first][row], columns[last][row]
        if math.isfinite(began) and math.isfinite(ended):
            phases.append((kind, began / _NS_PER_MS, ended / _NS_PER_MS))
    return phases
