# SPDX-License-Identifier: Apache-2.0
"""One examined recording as the exporters read it: its lists in pieces, in the order and the words of the document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

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
    def ids(self) -> list[dict[str, Any]]:
        """For each row of connections an object with its id."""
        return [{"id": value} for value in self.tables.connections["id"].tolist()]

    @cached_property
    def hosts(self) -> np.ndarray[Any, np.dtype[np.object_]]:
        """For each row of connections the name of the other end, else its address."""
        ends = self.tables.connections
        return ends["remote_name"].where(ends["remote_name"].notna(), ends["remote_ip"]).to_numpy(object)

    def count(self, kind: str) -> int:
        """Return how many rows a list has."""
        return len(self.findings) if kind == "findings" else len(getattr(self.tables, kind))

    def frame(self, kind: str) -> pd.DataFrame:
        """Return a table in order of time, unknown instants first; its index is the row in `tables`."""
        table: pd.DataFrame = getattr(self.tables, kind).reset_index(drop=True)
        at = np.nan_to_num(table[_INSTANTS[kind]].to_numpy(np.float64).round(), nan=-np.inf)
        return table if np.all(at[1:] >= at[:-1]) else table.iloc[np.argsort(at, kind="stable")]

    def pieces(self, kind: str, progress: Progress = silent) -> Iterator[list[dict[str, Any]]]:
        """Yield the rows of a list of the document, in its order, some thousands at a time."""
        if kind == "findings":
            yield [dict(row) for row in self.findings]
            return
        table = self.frame(kind)
        for first in range(0, len(table), PIECE):
            part = table.iloc[first : first + PIECE]
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

    def document(self) -> dict[str, Any]:
        """Return the whole document, every row of it in memory."""
        document = build(
            self.recording, self.tables, (), ignored=self.ignored, failures=self.failures, stalls=self.stalls
        )
        document["findings"] = list(self.findings)
        return document


def _with(tables: Tables, kind: str, part: pd.DataFrame) -> Tables:
    changed: dict[str, Any] = {kind: part}
    return replace(tables, **changed)
