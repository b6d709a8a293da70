# SPDX-License-Identifier: Apache-2.0
"""Records that are made while a capture is read: the last ones in memory, those before in a file without a name.

What is written is put in order of connections first, so that a few connections' records are found in a few places.
The file is gone with the process, however it ends; it holds times, sizes and numbers only.
"""

from __future__ import annotations

import contextlib
import mmap
from dataclasses import dataclass, replace
from typing import IO

import numpy as np

from netdiag.recording.reader import Recording, Records
from netdiag.recording.scratch import guarded, scratch

__all__ = ["SPOOL_BYTES", "Detached", "Spool", "attached"]

SPOOL_BYTES = 6 << 20
"""So much of a stream waits in memory before it is written: no capture of a few tens of megabytes fills it."""


Index = tuple[tuple[str, "np.dtype[np.void]", int, int], ...]
"""Runs in a file: stream, type of a record, place, number of records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detached:
    """A recording on its way to another process."""

    recording: Recording
    index: Index


class Spool:
    """The records of some streams."""

    def __init__(self, file: IO[bytes] | None = None) -> None:
        """`file` is what to write to in place of a new one: another process may then `attach` what lies in it."""
        self._waiting: dict[str, list[Records]] = {}
        self._sizes: dict[str, int] = {}
        self._types: dict[str, np.dtype[np.void]] = {}
        self._file, self._given = file, file is not None
        self._written: list[tuple[str, int, int]] = []
        """Stream, place in the file and number of records of each run."""

    def add(self, stream: str, rows: Records) -> None:
        """Take records of a stream, which come in order of time; Unsupported where the disk has no room for them."""
        if not len(rows):
            return
        self._waiting.setdefault(stream, []).append(rows)
        self._sizes[stream] = self._sizes.get(stream, 0) + rows.nbytes
        if self._sizes[stream] >= SPOOL_BYTES:
            self._write(stream)

    def runs(self) -> dict[str, list[Records]]:
        """Return all records by stream; what lies in the file comes into memory as it is looked at."""
        found: dict[str, list[Records]] = {stream: [] for stream in self._waiting}
        if self._file is not None and self._written:
            with guarded():
                self._file.flush()
            for stream, runs in _mapped(self._file, self._index).items():
                found[stream] += runs
        for stream, rows in self._waiting.items():
            found[stream] += rows
        return found

    def clear(self) -> None:
        """Forget all records: the capture is read anew."""
        self._waiting.clear()
        self._sizes.clear()
        self._written.clear()

    def close(self) -> None:
        """Let go of the file, unless it was given; records that `runs` returned stay."""
        if self._file is not None and not self._given:
            with contextlib.suppress(OSError):  # what did not fit has been told
                self._file.close()

    def detached(self, recording: Recording) -> Detached:
        """Return a recording that has these records without those that lie in the file."""
        counts = {stream: sum(name == stream for name, _, _ in self._written) for stream in self._waiting}
        rest = {stream: runs[counts.get(stream, 0) :] for stream, runs in recording.runs.items()}
        return Detached(recording=replace(recording, runs=rest), index=self._index)

    @property
    def _index(self) -> Index:
        return tuple((stream, self._types[stream], place, count) for stream, place, count in self._written)

    def _write(self, stream: str) -> None:
        if self._file is None:
            self._file = scratch()
        rows = np.concatenate(self._waiting[stream])
        rows = rows[np.argsort(rows["cookie"], kind="stable")]
        self._types[stream] = rows.dtype
        self._written.append((stream, self._file.tell(), len(rows)))
        with guarded():
            self._file.write(rows.tobytes())
        self._waiting[stream], self._sizes[stream] = [], 0


def attached(file: IO[bytes], part: Detached) -> Recording:
    """Return the recording with the records that lie in the file."""
    runs = {stream: list(rows) for stream, rows in part.recording.runs.items()}
    if part.index:
        for stream, rows in _mapped(file, part.index).items():
            runs[stream] = rows + runs[stream]
    return replace(part.recording, runs=runs)


def _mapped(file: IO[bytes], index: Index) -> dict[str, list[Records]]:
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    found: dict[str, list[Records]] = {}
    for stream, kind, place, count in index:
        found.setdefault(stream, []).append(np.frombuffer(mapped, kind, count, place))
    return found
