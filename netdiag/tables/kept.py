# SPDX-License-Identifier: Apache-2.0
"""Tables that grow part by part: in memory while they are small, else their columns lie in files without a name.

What is read of such a table comes into memory as it is looked at, and leaves it again when `relax` is called, or when
the machine needs the room. The files are gone with the process, however it ends. They hold numbers only.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Sequence
from typing import IO, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netdiag.errors import Unsupported
from netdiag.recording.scratch import guarded, scratch
from netdiag.tables.schema import COLUMNS, empty

__all__ = ["Grown", "let_go", "relax"]

_DIRECTIONS = pd.CategoricalDtype(pd.Index(["send", "receive"], dtype=object))
"""The texts of the one column that has some; as numbers they take an eighth of the room."""


class Grown:
    """A table to which parts are added."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._length = 0
        self._files: dict[str, IO[bytes]] = {}
        self._unknown: dict[str, bool] = {}
        """Columns of numbers: whether nothing is known in any row; such a one takes no room."""

    def add(self, part: pd.DataFrame) -> None:
        """Add rows; Unsupported where the disk has no room for them, and then nothing of the table is left."""
        if not len(part):
            return
        try:
            for name, kind in COLUMNS[self._table].items():
                self._put(name, kind, part)
        except Unsupported:
            self._drop()
            raise
        self._length += len(part)

    def _put(self, name: str, kind: str, part: pd.DataFrame) -> None:
        values = _packed(part[name], kind)
        unknown = kind == "float64" and bool(np.isnan(values).all())
        if unknown and self._unknown.get(name, True):
            self._unknown[name] = True
            return
        if name not in self._files:
            self._files[name] = scratch()
            if self._unknown.get(name, False):
                with guarded():
                    self._files[name].write(np.full(self._length, np.nan).tobytes())
        self._unknown[name] = False
        with guarded():
            self._files[name].write(values.data)

    def _drop(self) -> None:
        while self._files:
            with contextlib.suppress(OSError):  # what did not fit has been told
                self._files.popitem()[1].close()

    def frame(self) -> pd.DataFrame:
        """Return the table; nothing can be added any more."""
        if not self._length:
            return empty(self._table)
        try:
            for file in self._files.values():
                with guarded():
                    file.flush()
        except Unsupported:
            self._drop()
            raise
        columns = {name: self._column(name, kind) for name, kind in COLUMNS[self._table].items()}
        return pd.DataFrame(columns, copy=False)

    def _column(self, name: str, kind: str) -> Any:
        if name not in self._files:
            return np.broadcast_to(np.float64(np.nan), self._length)
        with self._files.pop(name) as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if kind == "object":
            return pd.Categorical.from_codes(np.frombuffer(mapped, np.int8), dtype=_DIRECTIONS, validate=False)
        return np.frombuffer(mapped, kind)


def _packed(values: pd.Series[Any], kind: str) -> NDArray[Any]:
    if kind == "object":
        return np.ascontiguousarray(pd.Categorical(values, dtype=_DIRECTIONS).codes, np.int8)
    return np.ascontiguousarray(values.to_numpy(), kind)


def relax(frames: Sequence[pd.DataFrame]) -> None:
    """Let go of what was looked at of tables in files; it is read again when it is needed."""
    for frame in frames:
        for name in frame.columns:
            values = frame[name].array
            let_go(np.asarray(values.codes) if isinstance(values, pd.Categorical) else frame[name].to_numpy())


def let_go(values: NDArray[Any]) -> None:
    """Let go of what was looked at of an array in a file; of any other nothing."""
    mapped = _mapping(values)
    if mapped is not None:
        with contextlib.suppress(OSError, ValueError):
            mapped.madvise(mmap.MADV_DONTNEED)


def _mapping(values: Any) -> mmap.mmap | None:
    """Return the file behind an array."""
    while isinstance(values, np.ndarray):
        values = values.base
    if isinstance(values, memoryview):
        values = values.obj
    return values if isinstance(values, mmap.mmap) else None
