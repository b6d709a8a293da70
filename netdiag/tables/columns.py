# SPDX-License-Identifier: Apache-2.0
"""Members of records as columns: kernel conventions (0 = not known) become those of the tables (NaN, None).

A recording brings its own layout. A member that an older netdiag did not record is not known in any row; one that has
another kind than expected makes the recording unreadable.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from netdiag.addresses import to_text
from netdiag.errors import InputUnreadable
from netdiag.recording.reader import Records
from netdiag.tables.schema import objects

__all__ = ["Columns", "Floats", "Ints", "Objects", "decode", "numbers_or_none"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Objects = NDArray[np.object_]


class Columns:
    """The records of one stream, by member."""

    def __init__(self, records: Records, start_ns: int) -> None:
        """`start_ns` is the instant that becomes 0."""
        self._records, self._start = records, start_ns

    def __len__(self) -> int:
        return len(self._records)

    def take(self, index: Any) -> Columns:
        """Return the records at these positions."""
        return Columns(self._records[index], self._start)

    def integers(self, name: str) -> Ints:
        """Return a number as it was recorded; 0 where it was not."""
        return self._member(name, "ui").astype(np.int64)

    def count(self, name: str) -> Floats:
        """Return a number, 0 included; NaN where the recording has no such member."""
        if name not in (self._records.dtype.names or ()):
            return np.full(len(self), np.nan)
        return self._member(name, "ui").astype(np.float64)

    def known(self, name: str, scale: float = 1.0) -> Floats:
        """Return a number times `scale`, NaN for 0."""
        values = self._member(name, "ui").astype(np.float64)
        return np.where(values == 0, np.nan, values * scale)

    def instant(self, name: str) -> Floats:
        """Return nanoseconds since the start, NaN for 0."""
        raw = self._member(name, "ui").astype(np.uint64)
        since = (raw - np.uint64(self._start)).astype(np.int64).astype(np.float64)
        return np.where(raw == 0, np.nan, since)

    def text(self, name: str) -> Objects:
        """Return text, None where it is empty."""
        return _unique_map(self._member(name, "S"), decode)

    def address(self, name: str) -> Objects:
        """Return addresses as text, None where they are unspecified."""
        if name not in (self._records.dtype.names or ()):
            return objects([None] * len(self))
        raw = np.ascontiguousarray(self._records[name])
        if raw.ndim != 2 or raw.shape[1] != 16:
            raise InputUnreadable(f"member {name} of a record is no address of 16 bytes")
        pairs = raw.view(np.uint64).reshape(len(raw), 2) if len(raw) else np.zeros((0, 2), np.uint64)
        keys, inverse = np.unique(pairs, axis=0, return_inverse=True)
        return objects([to_text(key.tobytes()) for key in keys])[inverse.reshape(-1)]

    def octets(self, name: str, lengths: list[int]) -> list[bytes]:
        """Return the first bytes of an opaque member, so many of each record as its length says."""
        if name not in (self._records.dtype.names or ()):
            return [b""] * len(self)
        raw = np.ascontiguousarray(self._records[name])
        if raw.ndim != 2 or raw.dtype != np.uint8:
            raise InputUnreadable(f"member {name} of a record is of another kind than netdiag knows")
        return [row[: max(length, 0)].tobytes() for row, length in zip(raw, lengths, strict=True)]

    def _member(self, name: str, kinds: str) -> NDArray[Any]:
        if name not in (self._records.dtype.names or ()):
            return np.zeros(len(self), "S1" if kinds == "S" else np.uint64)
        member: NDArray[Any] = self._records[name]
        if member.dtype.kind not in kinds or member.ndim != 1:
            raise InputUnreadable(f"member {name} of a record is of another kind than netdiag knows")
        return member


def decode(raw: bytes) -> str | None:
    """Return a name up to its first zero byte as text, strange bytes as escapes; None for an empty one."""
    return raw.split(b"\0", 1)[0].decode("utf-8", "backslashreplace") or None


def numbers_or_none(values: Ints) -> Objects:
    """Return whole numbers as Python objects, None for 0: for ids too large for a float."""
    return objects([value or None for value in values.tolist()])


def _unique_map(values: NDArray[Any], convert: Any) -> Objects:
    keys, inverse = np.unique(values, return_inverse=True)
    return objects([convert(key) for key in keys.tolist()])[inverse]
