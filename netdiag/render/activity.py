# SPDX-License-Identifier: Apache-2.0
"""When data moved on each connection, for the picture of connections over time; it is no part of the document."""

from __future__ import annotations

import math
from typing import Any

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


def activity(tables: Tables) -> dict[str, tuple[tuple[str, float, float], ...]]:
    """Return for each connection id its phases `send`, `wait`, `receive` with begin and end in ms since the start."""
    ids = tables.connections["id"].tolist()
    found: dict[str, list[tuple[str, float, float]]] = {}
    turns = tables.turns.head(MAX_PIECES // len(_PHASES))
    columns = {name: turns[name].tolist() for _, first, last in _PHASES for name in (first, last)}
    for row, connection in enumerate(turns["connection"].tolist()):
        found.setdefault(ids[connection], []).extend(_phases(columns, row))
    return {id_: tuple(phases) for id_, phases in found.items()}


def _phases(columns: dict[str, list[Any]], row: int) -> list[tuple[str, float, float]]:
    phases = []
    for kind, first, last in _PHASES:
        began, ended = columns[first][row], columns[last][row]
        if math.isfinite(began) and math.isfinite(ended):
            phases.append((kind, began / _NS_PER_MS, ended / _NS_PER_MS))
    return phases
