# SPDX-License-Identifier: Apache-2.0
"""Records that are made while a capture is read: the last ones in memory, those before in a file without a name.

What is written is put in order of connections first, so that a few connections' records are found in a few places.
The file is gone with the process, however it ends; it holds times, sizes and numbers only.
"""

from __future__ import annotations

import mmap
import tempfile
from typing import IO

import numpy as np

from netdiag.recording.reader import Records

__all__ = ["SPOOL_BYTES", "Spool"]

SPOOL_BYTES = 6 << 20
"""So much of a stream waits in memory before it is written: no capture of a few tens of megabytes fills it."""


class Spool:
    """The records of some streams."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Records]] = {}
        self._sizes: dict[str, int] = {}
        self._types: dict[str, np.dtype[np.void]] = {}
        self._file: IO[bytes] | None = None
        self._written: list[tuple[str, int, int]] = []
        """Stream, place in the file and number of records of each run."""

    def add(self, stream: str, rows: Records) -> None:
        """Take records of a stream, which come in order of time; OSError where the disk has no room for them."""
        if not len(rows):
            return
        self._waiting.setdefault(stream, []).append(rows)
        self._sizes[stream] = self._sizes.get(stream, 0) + rows.nbytes
        if self._sizes[stream] >= SPOOL_BYTES:
            self._write(stream)

    def runs(self) -> dict[str, list[Records]]:
        """Return all records by stream; what lies in the file comes into memory as it is looked at."""
        found: dict[str, list[Records]] = {stream: [] for stream in self._waiting}
        if self._file is not None:
            self._file.flush()
            mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
            self._file.close()
            for stream, place, count in self._written:
                found[stream].append(np.frombuffer(mapped, self._types[stream], count, place))
        for stream, rows in self._waiting.items():
            found[stream] += rows
        return found

    def _write(self, stream: str) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="netdiag-")  # noqa: SIM115 - closed by `runs`
        rows = np.concatenate(self._waiting[stream])
        rows = rows[np.argsort(rows["cookie"], kind="stable")]
        self._types[stream] = rows.dtype
        self._written.append((stream, self._file.tell(), len(rows)))
        self._file.write(rows.tobytes())
        self._waiting[stream], self._sizes[stream] = [], 0
