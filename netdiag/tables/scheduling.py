# SPDX-License-Identifier: Apache-2.0
"""How long processes ran and waited for a processor, from the facts of the recorder. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from netdiag.tables.schema import frame

__all__ = ["scheduling"]

_COUNTERS = ("run_ms", "wait_ms", "throttled_ms", "periods")


def scheduling(facts: Iterable[Mapping[str, Any]], start_ns: int) -> pd.DataFrame:
    """Return the looks by process and time; one without process or instant is left out, an odd number is unknown."""
    rows = []
    for fact in facts:
        pid, at = fact.get("pid"), fact.get("at_ns")
        if type(pid) is int and type(at) is int and 0 < pid < 1 << 31 and abs(at - start_ns) < 1 << 62:
            rows.append((pid, float(at - start_ns), *(_number(fact.get(name)) for name in _COUNTERS)))
    rows.sort(key=lambda row: row[:2])
    names = ("pid", "at_ns", *_COUNTERS)
    columns = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else {}
    return frame("scheduling", len(rows), {name: list(cells) for name, cells in columns.items()})


def _number(value: Any) -> float:
    known = type(value) in (int, float) and math.isfinite(value) and value >= 0
    return float(value) if known else math.nan
