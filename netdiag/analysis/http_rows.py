# SPDX-License-Identifier: Apache-2.0
"""Rows of large tables by what they belong to, without going over the whole table each time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netdiag.analysis.links import number
from netdiag.tables import kept

if TYPE_CHECKING:
    from netdiag.tables import Tables

__all__ = ["Index", "Rows", "blocks"]


_BLOCK = 1 << 17
"""Rows that are looked at together, so that what is made of them takes some megabytes."""


def blocks(frame: pd.DataFrame, key: str) -> Iterator[pd.DataFrame]:
    """Yield stretches of a table that hold all rows of each number in `key`; all of it where that is in no order.

    Of a table in files no more than a stretch is in memory.
    """
    keys = frame[key].to_numpy()
    if len(keys) <= _BLOCK or not bool(np.all(keys[1:] >= keys[:-1])):
        yield frame
        return
    low = 0
    while low < len(keys):
        high = int(np.searchsorted(keys, keys[min(low + _BLOCK, len(keys)) - 1], side="right"))
        yield frame.iloc[low:high]
        kept.relax((frame,))
        low = high


class Rows:
    """One table, by the numbers in its column `key`; the order of the rows of one number is that of the table."""

    def __init__(self, frame: pd.DataFrame, key: str) -> None:
        keys = frame[key].to_numpy()
        sorted_ = len(keys) < 2 or bool(np.all(keys[1:] >= keys[:-1]))
        self._order = None if sorted_ else np.argsort(keys, kind="stable")
        self._keys = keys if self._order is None else keys[self._order]
        self._frame = frame
        self._columns: dict[str, Any] = {}
        self._names: dict[str, Any] = {}
        self._spans: dict[float, tuple[int, int]] | None = None

    def __bool__(self) -> bool:
        """Whether there are any."""
        return len(self._keys) > 0

    def of(self, key: float, *names: str) -> list[tuple[Any, ...]]:
        """Return the columns `names` of the rows with that number as tuples; None for a column that is not there."""
        low, high = self._span(key)
        if low == high:
            return []
        return list(zip(*(self._cells(name, low, high) for name in names), strict=True))

    def part(self, key: float, name: str) -> NDArray[np.float64]:
        """Return one column of the rows with that number as numbers, NaN where there is none."""
        low, high = self._span(key)
        cells = self._column(name)[low:high]
        if cells.dtype.kind in "fiub":
            return np.asarray(cells, np.float64)
        return np.array([number(one) for one in cells], float)

    def received(self, key: float) -> NDArray[np.bool_]:
        """Tell which of the rows with that number are of what came in."""
        low, high = self._span(key)
        cells = self._column("direction")[low:high]
        return np.asarray(cells == self._code("direction", "receive"), bool)

    def _span(self, key: float) -> tuple[int, int]:
        if self._spans is None:
            keys = self._keys
            starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if len(keys) else np.zeros(0, np.int64)
            ends = [*starts[1:].tolist(), len(keys)]
            self._spans = dict(zip(keys[starts].tolist(), zip(starts.tolist(), ends, strict=False), strict=True))
        return self._spans.get(key, (0, 0))

    def _cells(self, name: str, low: int, high: int) -> list[Any]:
        cells: list[Any] = self._column(name)[low:high].tolist()
        return [self._names[name][cell] for cell in cells] if name in self._names else cells

    def _code(self, name: str, cell: str) -> Any:
        """Return what stands for a text in a column."""
        return self._names[name].index(cell) if name in self._names else cell

    def _column(self, name: str) -> Any:
        """Return a column in order of the numbers; one with few texts as their numbers in `_names`."""
        if name not in self._columns:
            if name not in self._frame:
                whole = np.full(len(self._keys), None)
            elif isinstance(values := self._frame[name].array, pd.Categorical):
                whole = np.asarray(values.codes)
                self._names[name] = [*values.categories, None]  # -1, none, is the last
            else:
                whole = self._frame[name].to_numpy()
            self._columns[name] = whole if self._order is None else whole[self._order]
        return self._columns[name]

    def numbers(self) -> list[float]:
        """Return all numbers that occur, in order."""
        return [float(key) for key in np.unique(self._keys)]


class Index:
    """The tables of a case by connection, request or process."""

    def __init__(self, tables: Tables) -> None:
        self._keys: Mapping[str, str] = {
            "chunks": "request", "records": "connection", "bursts": "connection", "retransmits": "connection",
            "scheduling": "pid",
        }  # fmt: skip
        self._tables = tables
        self.memo: dict[tuple[str, float], Any] = {}
        """What was once made of a row, for the next who asks: a name for what it is, and the number of the row."""
        self._made: dict[str, Rows] = {}

    def __getitem__(self, name: str) -> Rows:
        """Return a table's rows, indexed at its first use."""
        if name not in self._made:
            self._made[name] = Rows(getattr(self._tables, name), self._keys[name])
        return self._made[name]

    def relax(self) -> None:
        """Let go of what was looked at of tables that lie in files."""
        kept.relax((self._tables.bursts, self._tables.records))
