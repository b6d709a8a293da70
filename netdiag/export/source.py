# SPDX-License-Identifier: Apache-2.0
"""One examined recording as the exporters read it: its lists in pieces, in the order and the words of the document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from netdiag.bulk import figures, pack
from netdiag.document import build, event_rows
from netdiag.recording.reader import Recording
from netdiag.tables import Tables
from netdiag.values import clean

__all__ = ["PIECE", "Progress", "Source", "silent"]

PIECE = 20_000
"""Rows of a list that are in memory as objects at the same time."""

Progress = Callable[[str, int, int], None]
"""Called with what is written, rows done, rows in all."""

_INSTANTS = {
    "requests": "started_ns",
    "connections": "opened_ns",
    "handshakes": "started_ns",
    "resolutions": "started_ns",
    "processes": "started_ns",
}


def silent(what: str, done: int, of: int) -> None:
    """Say nothing."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A recording, its tables, and what was found in it."""

    recording: Recording
    tables: Tables
    findings: Sequence[Mapping[str, Any]]
    """`findings[]` of the document."""
    stalls: Mapping[int, Sequence[Mapping[str, object]]] = field(default_factory=dict)
    """Of streams, by row of requests."""
    ignored: Sequence[Mapping[str, Any]] = ()
    failures: Sequence[tuple[str, str]] = ()

    @property
    def base_ns(self) -> int:
        """The realtime clock at the start, nanoseconds since 1970."""
        return int(self.recording.header["clock"]["realtime_ns"])

    @cached_property
    def ids(self) -> Sequence[Mapping[str, Any]]:
        """For each row of connections an object with its id."""
        if self.packed:
            return _Ids(len(self.tables.connections))
        return [{"id": value} for value in self.tables.connections["id"].tolist()]

    @property
    def packed(self) -> bool:
        """Whether the tables are those of a long recording: packed."""
        return pack.is_packed(self.tables.requests)

    @cached_property
    def hosts(self) -> np.ndarray[Any, np.dtype[np.object_]]:
        """For each row of connections the name of the other end, else its address."""
        ends = self.tables.connections
        name, address = (ends[column].astype(object) for column in ("remote_name", "remote_ip"))
        return name.where(name.notna(), address).to_numpy(object)

    def count(self, kind: str) -> int:
        """Return how many rows a list has."""
        return len(self.findings) if kind == "findings" else len(getattr(self.tables, kind))

    def frame(self, kind: str) -> pd.DataFrame:
        """Return a table in order of time, unknown instants first; its index is the row in `tables`.

        That of a long recording is packed: take its rows by `rows`.
        """
        table: pd.DataFrame = getattr(self.tables, kind).reset_index(drop=True)
        at = np.nan_to_num(table[_INSTANTS[kind]].to_numpy(np.float64).round(), nan=-np.inf)
        return table if np.all(at[1:] >= at[:-1]) else table.iloc[np.argsort(at, kind="stable")]

    def rows(self, kind: str, part: pd.DataFrame) -> pd.DataFrame:
        """Return a part of a frame with the columns that the table has."""
        return pack.unpack(kind, part) if pack.is_packed(part) and kind in pack.PACKED else part

    def pieces(self, kind: str, progress: Progress = silent) -> Iterator[list[dict[str, Any]]]:
        """Yield the rows of a list of the document, in its order, some thousands at a time."""
        if kind == "findings":
            yield [dict(row) for row in self.findings]
            return
        table = self.frame(kind)
        for first in range(0, len(table), PIECE):
            part = self.rows(kind, table.iloc[first : first + PIECE])
            rows = event_rows(kind, _with(self.tables, kind, part), self.base_ns, self.ids)
            if kind == "requests":
                self._add_stalls(rows, part.index.tolist())
            progress(kind, min(first + PIECE, len(table)), len(table))
            yield rows

    def _add_stalls(self, rows: Sequence[dict[str, Any]], numbers: Sequence[int]) -> None:
        if not self.stalls:
            return
        for row, number in zip(rows, numbers, strict=True):
            found = self.stalls.get(number)
            if found is not None and row["stream"] is not None:
                row["stream"]["stalls"] = [clean(dict(stall)) for stall in found]

    lists = tuple(_INSTANTS)
    """Of the document, those that `pieces` gives."""

    def head(self) -> dict[str, Any]:
        """Return the document of packed tables without their rows; the summary is of all of them."""
        few: dict[str, Any] = {name: self.rows(name, getattr(self.tables, name).iloc[:0]) for name in pack.PACKED}
        none = replace(self.tables, **few)
        document = build(self.recording, none, (), ignored=self.ignored, failures=self.failures)
        document["summary"] = figures.summary(self.tables)
        document["findings"] = list(self.findings)
        return document

    def document(self) -> dict[str, Any]:
        """Return the whole document, every row of it in memory."""
        document = build(
            self.recording, self.tables, (), ignored=self.ignored, failures=self.failures, stalls=self.stalls
        )
        document["findings"] = list(self.findings)
        return document


class _Ids(Sequence[Mapping[str, Any]]):
    """Ids that follow from the rows, made when they are asked for."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [self[at] for at in range(*row.indices(self._count))]
        if not 0 <= row < self._count:
            raise IndexError(row)
        return {"id": f"c{row + 1}"}


def _with(tables: Tables, kind: str, part: pd.DataFrame) -> Tables:
    changed: dict[str, Any] = {kind: part}
    return replace(tables, **changed)
