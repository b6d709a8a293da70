# SPDX-License-Identifier: Apache-2.0
"""Parts of a long capture: neighbouring connections, so that what packets and records need is never all in memory.

A part holds all rows of its connections. What one connection can tell of another (a ticket's size, the other end on
the same machine) is not in it; whoever builds tables in parts sees to that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import pandas as pd

from netdiag.recording.reader import Recording, Records, dtype_of
from netdiag.tables.columns import Columns, Ints
from netdiag.tables.connections import Sockets
from netdiag.tables.hellos import Said
from netdiag.tables.kept import let_go

__all__ = ["PART", "Cut", "Each", "Part", "in_turn"]

PART = 80_000
"""About so many rows of packets and records are in a part: some 40 MB while tables are made of them."""
_STREAMS = ("tcp_io", "tls_record")

T = TypeVar("T")


class Each(Protocol):
    """Does a piece of work for each number from 0 on, here or in other processes."""

    def __call__(self, work: Callable[[int], T], count: int, /) -> Iterator[T]:
        """Yield the results in order."""


def in_turn(work: Callable[[int], T], count: int) -> Iterator[T]:
    """Do the work in this process, one piece after the other."""
    return map(work, range(count))


class _Rows:
    """The rows of one stream, found by connection."""

    def __init__(self, runs: Sequence[Records]) -> None:
        """Look through runs of records; those that are in order of connections are not copied."""
        self._runs = [run for run in runs if len(run)]
        self._orders: list[Ints | None] = []
        self._keys: list[Ints] = []
        self._starts: list[Ints] = []
        for run in self._runs:
            keys = run["cookie"].astype(np.int64)
            sorted_ = bool((keys[1:] >= keys[:-1]).all())
            order = None if sorted_ else np.argsort(keys, kind="stable")
            keys = keys if order is None else keys[order]
            starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
            self._orders.append(order)
            self._keys.append(keys[starts])
            self._starts.append(np.append(starts, len(keys)))
            let_go(run)

    def count(self, cookies: Ints) -> Ints:
        """Return how many rows each of these connections has; they are sorted."""
        found = np.zeros(len(cookies), np.int64)
        for keys, starts in zip(self._keys, self._starts, strict=True):
            place = np.searchsorted(cookies, keys)
            known = place < len(cookies)
            known[known] = cookies[place[known]] == keys[known]
            np.add.at(found, place[known], np.diff(starts)[known])
        return found

    def of(self, cookies: Ints) -> Records | None:
        """Return the rows of these connections, which are sorted, in the order in which they were recorded."""
        parts = []
        for run, order, keys, starts in zip(self._runs, self._orders, self._keys, self._starts, strict=True):
            mine = np.flatnonzero(np.isin(keys, cookies, assume_unique=True))
            if not len(mine):
                continue
            lengths = np.diff(starts)[mine]
            index = np.repeat(starts[mine] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
            parts.append(run[index] if order is None else run[np.sort(order[index])])
        for run in self._runs[:1]:  # all lie in one file
            let_go(run)
        return np.concatenate(parts) if parts else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some connections with all that was recorded of them; rows are numbered within it."""

    first: int
    """Number of its first connection among all."""
    sockets: Sockets
    ends: pd.DataFrame
    said: Mapping[int, Said]
    io: Columns | None
    """Runs of packets; None where the recording has no such stream."""
    headers: Columns | None
    """TLS records."""


class Cut:
    """The connections of a recording, and what was recorded of them, in parts of neighbours."""

    def __init__(
        self,
        recording: Recording,
        found: Sockets,
        ends: pd.DataFrame,
        said: Mapping[int, Said],
        *,
        divisible: bool,
    ) -> None:
        """Cut nothing where it is short, or not `divisible`: then the one part is all of it, and nothing is copied."""
        self._recording, self._found, self._ends, self._said = recording, found, ends, said
        self._rows: dict[str, _Rows] = {}
        self._bounds = [0, len(ends)]
        runs = {name: recording.runs.get(name, ()) for name in _STREAMS}
        if divisible and sum(len(run) for mine in runs.values() for run in mine) > PART:
            self._rows = {name: _Rows(mine) for name, mine in runs.items()}
            self._bounds = self._cut()

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def part(self, number: int) -> Part:
        """Return a part."""
        if len(self) == 1:
            io, headers = (self._all(name) for name in _STREAMS)
            return Part(first=0, sockets=self._found, ends=self._ends, said=self._said, io=io, headers=headers)
        low, high = self._bounds[number], self._bounds[number + 1]
        cookies = np.sort(self._found.cookies[low:high])
        io, headers = (self._some(name, cookies) for name in _STREAMS)
        return Part(
            first=low,
            sockets=self._found.between(low, high),
            ends=self._ends.iloc[low:high].reset_index(drop=True),
            said={row - low: said for row, said in self._said.items() if low <= row < high},
            io=io,
            headers=headers,
        )

    def _cut(self) -> list[int]:
        cookies = self._found.cookies
        order = np.argsort(cookies, kind="stable")
        count = np.zeros(len(cookies), np.int64)
        count[order] = sum(rows.count(cookies[order]) for rows in self._rows.values())
        total = np.cumsum(count)
        limits = np.arange(PART, int(total[-1]) if len(total) else 0, PART)
        inner = np.unique(np.searchsorted(total, limits, side="right"))
        return [0, *(row for row in inner.tolist() if 0 < row < len(cookies)), len(cookies)]

    def _all(self, stream: str) -> Columns | None:
        records = self._recording.records(stream)
        return None if records is None else Columns(records, self._recording.start_ns)

    def _some(self, stream: str, cookies: Ints) -> Columns | None:
        if stream not in self._recording.layouts:
            return None
        found = self._rows[stream].of(cookies)
        if found is None:
            found = np.zeros(0, dtype_of(self._recording.layouts[stream]))
        return Columns(found, self._recording.start_ns)
