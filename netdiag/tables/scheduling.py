# SPDX-License-Identifier: Apache-2.0
"""How long processes ran and waited for a processor, from the facts of the recorder. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from netdiag.tables.schema import frame

__all__ = ["scheduling"]

_MOST_WAITS = 64
_COUNTERS = ("run_ms", "wait_ms", "throttled_ms", "periods")


def scheduling(facts: Iterable[Mapping[str, Any]], start_ns: int) -> pd.DataFrame:
    """Return the looks by process and time; one without process or instant is left out, an odd number is unknown."""
    rows = []
    for fact in facts:
        pid, at = fact.get("pid"), fact.get("at_ns")
        if type(pid) is int and type(at) is int and 0 < pid < 1 << 31 and abs(at - start_ns) < 1 << 62:
            counters = (_number(fact.get(name)) for name in _COUNTERS)
            rows.append((pid, float(at - start_ns), *counters, _waits(fact.get("waits"))))
    rows.sort(key=lambda row: row[:2])
    names = ("pid", "at_ns", *_COUNTERS, "waits")
    columns = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else {}
    return frame("scheduling", len(rows), {name: list(cells) for name, cells in columns.items()})


def _number(value: Any) -> float:
    known = type(value) in (int, float) and math.isfinite(value) and value >= 0
    return float(value) if known else math.nan


def _waits(value: Any) -> dict[int, float] | None:
    """Return how long threads had waited since the look before (ms); None where that was not recorded."""
    if not isinstance(value, list):
        return None
    pairs = [pair for pair in value[:_MOST_WAITS] if isinstance(pair, list) and len(pair) == 2]
    return {tid: ms for tid, wait in pairs if type(tid) is int and not math.isnan(ms := _number(wait))}
