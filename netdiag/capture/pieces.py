# SPDX-License-Identifier: Apache-2.0
"""New bytes of connections on their way to those who read them, and the TLS records on their way back.

A packet that is one whole record of data, as those of streamed answers are, is known by its header and length: where
all packets of a direction are, they stay columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from netdiag.capture.flows import Sorted
from netdiag.capture.follow import Talk
from netdiag.capture.rows import record_rows
from netdiag.capture.sequence import Order, Piece
from netdiag.capture.walker import Record
from netdiag.recording.reader import Records
from netdiag.tables.codes import RecordType

__all__ = ["Columns", "Found", "Pieces", "pieces_of"]

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_HEADER, _MAX_FRAGMENT = 5, 16384 + 2048
_DATA = RecordType.APPLICATION_DATA


class Pieces:
    """What one direction of a connection brought, in order of the stream."""

    even = False
    """Each is one whole record of data."""

    def __init__(self, whole: Sequence[Piece]) -> None:
        """Hold pieces that are in order."""
        self._whole = whole

    def all(self) -> Sequence[Piece]:
        """Return them one by one."""
        return self._whole


class Columns(Pieces):
    """Segments of a batch that are in order: offset, new bytes, and index of each."""

    def __init__(self, s: Sorted, offset: Ints, size: Ints, at: Ints, *, even: bool) -> None:
        """Hold them as columns."""
        super().__init__(())
        self._s, self._offset, self._size, self._at = s, offset, size, at
        self.even = even

    @property
    def start(self) -> int:
        """Offset of the first byte, of even ones."""
        return int(self._offset[0])

    @property
    def end(self) -> int:
        """Offset behind the last byte, of even ones."""
        return int(self._offset[-1] + self._size[-1])

    def all(self) -> Sequence[Piece]:
        """Return them one by one."""
        if not self._whole:
            s, at = self._s, self._at
            columns = (self._offset, self._size, s.held[at], s.time[at])
            rows = zip(*(column.tolist() for column in columns), s.payload[at].tolist(), strict=True)
            self._whole = [(offset, size, held, time, s.raw, place) for offset, size, held, time, place in rows]
        return self._whole

    def records(self) -> Ints:
        """Return the records that even ones are, as rows of instant, length, version."""
        data, place = np.frombuffer(self._s.raw, np.uint8), self._s.payload[self._at]
        return np.stack((self._s.time[self._at], self._size - _HEADER, data[place + 2].astype(np.int64)), axis=1)


class Found:
    """TLS records in the order in which they were found."""

    def __init__(self) -> None:
        self._single: list[tuple[int, bool, Record]] = []
        self._even: list[tuple[int, int, bool, Ints]] = []
        """Before how many single ones they lie, the connection, who sent them, instants with lengths and versions."""

    def take(self, number: int, talk: Talk) -> None:
        """Take what a connection told of its records."""
        if talk.records:
            self._single += [(number, send, record) for send, record in talk.records]
            talk.records = []

    def even(self, number: int, pieces: Columns, *, send: bool) -> None:
        """Take packets that are one record each."""
        self._even.append((len(self._single), number, send, pieces.records()))

    def rows(self) -> Records:
        """Return them as the kernel program writes them."""
        single = record_rows(self._single)
        if not self._even:
            return single
        parts, done = [], 0
        for place, number, send, values in self._even:
            table = np.zeros(len(values), single.dtype)
            table["cookie"], table["direction"], table["type"] = number + 1, 2 - send, _DATA
            table["time"], table["length"], table["version"] = values.T
            parts += [single[done:place], table]
            done = place
        return np.concatenate((*parts, single[done:]))


def pieces_of(s: Sorted, order: Order, follow: Bools) -> dict[int, dict[int, Pieces]]:
    """Return the new bytes by connection and direction, of those connections that somebody reads."""
    groups = order.groups
    if not len(groups):
        return {}
    first = groups[order.group_starts]
    flow, direction = s.flow[first], s.direction[first]
    wanted = follow[flow]
    mended = np.zeros(len(first), bool)
    mended[list(order.mended)] = True
    length = order.group_ends - order.group_starts
    row = np.flatnonzero(np.repeat(wanted & ~mended, length) & (order.new[groups] > 0))
    at = groups[row]
    offset, size = order.offset[at], order.new[at]
    odd = np.append(0, np.cumsum(~_even(s, at, size)))
    begins, ends = np.searchsorted(row, order.group_starts), np.searchsorted(row, order.group_ends)
    even = (odd[ends] == odd[begins]).tolist()
    begin, end = begins.tolist(), ends.tolist()
    found: dict[int, dict[int, Pieces]] = {}
    for number in np.flatnonzero(wanted & ((ends > begins) | mended)).tolist():
        if mended[number]:
            if not order.mended[number]:
                continue
            pieces: Pieces = Pieces(order.mended[number])
        else:
            part = slice(begin[number], end[number])
            pieces = Columns(s, offset[part], size[part], at[part], even=even[number])
        found.setdefault(int(flow[number]), {})[int(direction[number])] = pieces
    return found


def _even(s: Sorted, at: Ints, size: Ints) -> Bools:
    """Tell which segments are one whole record of data."""
    data, place = np.frombuffer(s.raw, np.uint8), s.payload[at]
    even: Bools = (data[place] == _DATA) & (data[place + 1] == 3) & (data[place + 2] <= 4)
    even &= (data[place + 3].astype(np.int64) << 8 | data[place + 4]) + _HEADER == size
    even &= (size > _HEADER) & (size <= _MAX_FRAGMENT + _HEADER) & (s.held[at] == size) & (s.length[at] == size)
    return even
