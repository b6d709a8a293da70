# SPDX-License-Identifier: Apache-2.0
"""Writes a recording: whole blocks, appended, so that a crash at any moment leaves a readable file.

Standard library only, and small: the privileged recorder imports this module.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from netdiag.recording.format import (
    BLOCK_HEADER,
    FILE_HEADER,
    MAGIC,
    MAJOR,
    MAX_RECORDS_BYTES,
    MINOR,
    BlockType,
    StreamLayout,
    dump_json,
)

__all__ = ["RecordingWriter"]

_MAX_PIECES = 512
"""Buffers in one system call; the kernel takes 1024."""


class RecordingWriter:
    """Appends blocks to an empty file; each call writes whole blocks or raises OSError.

    After an error (a full disk, say) the half-written block is cut off again: the file stays readable and the writer
    usable, for the end block that says why recording stopped. A file that two processes append to keeps the half block,
    at which a reader stops.
    """

    def __init__(self, fd: int, header: Mapping[str, Any], *, shared: bool = False) -> None:
        """Write magic and header to the descriptor, which stays the caller's to close.

        `shared`: from then on another process appends whole blocks to the same file as well. The descriptor gets
        O_APPEND, with which the kernel puts each write at the end of the file, whoever wrote last.
        """
        self._fd = fd
        self._shared = shared
        if shared:
            fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)
        self._at = 0
        self._strides: dict[int, int] = {}
        self._write([FILE_HEADER.pack(MAGIC, MAJOR, MINOR, 0), *_block(BlockType.HEADER, 0, [dump_json(header)])])

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._at

    def layout(self, stream: int, layout: StreamLayout) -> None:
        """Write how the records of a stream are laid out; before its first records."""
        if stream != layout.stream:
            raise ValueError(f"stream {stream} with the layout of stream {layout.stream}")
        self._strides[stream] = layout.stride
        self._write(_block(BlockType.LAYOUT, stream, [dump_json(layout.to_json())]))

    def records(self, stream: int, data: Sequence[memoryview | bytes]) -> None:
        """Write runs of whole records, each record with the ring's header in front; the buffers are not copied."""
        stride = self._strides[stream]
        pieces = [memoryview(piece).cast("B") for piece in data if len(piece)]
        if sum(map(len, pieces)) % stride:
            raise ValueError(f"runs that are no multiple of {stride} bytes")
        largest = MAX_RECORDS_BYTES // stride * stride
        pieces = [piece[at : at + largest] for piece in pieces for at in range(0, len(piece), largest)]
        while pieces:
            count = _fitting(pieces)
            self._write(_block(BlockType.RECORDS, stream, pieces[:count]))
            del pieces[:count]

    def fact(self, kind: str, value: Mapping[str, Any]) -> None:
        """Write one fact: what user space knows and the kernel does not say."""
        self._write(_block(BlockType.FACT, 0, [dump_json({"kind": kind, **value})]))

    def end(self, reason: str, at_ns: int) -> None:
        """Write the last block: who ended the recording, and the CLOCK_MONOTONIC instant."""
        self._write(_block(BlockType.END, 0, [dump_json({"exit_reason": reason, "at_ns": at_ns})]))

    def _write(self, buffers: list[memoryview | bytes]) -> None:
        try:
            self._at += _write_all(self._fd, buffers, self._at)
        except OSError:
            if not self._shared:  # there is no telling whose bytes come last
                with contextlib.suppress(OSError):  # whatever happens here, the next block overwrites the half one
                    os.ftruncate(self._fd, self._at)
            raise


def _block(type_: BlockType, stream: int, payload: Sequence[memoryview | bytes]) -> list[memoryview | bytes]:
    length = crc = 0
    for piece in payload:
        length += len(piece)
        crc = zlib.crc32(piece, crc)
    return [BLOCK_HEADER.pack(type_, 0, stream, length, crc), *payload]


def _fitting(pieces: Sequence[memoryview]) -> int:
    """Return how many of the first pieces go into one block; at least one."""
    total = 0
    for count, piece in enumerate(pieces[:_MAX_PIECES]):
        total += len(piece)
        if total > MAX_RECORDS_BYTES and count:
            return count
    return min(len(pieces), _MAX_PIECES)


def _write_all(fd: int, buffers: list[memoryview | bytes], at: int) -> int:
    """Write everything at a position, however many calls it takes; return the number of bytes."""
    done, rest = 0, [memoryview(buffer) for buffer in buffers if len(buffer)]
    while rest:
        written = os.pwritev(fd, rest, at + done)
        done += written
        while rest and written >= len(rest[0]):
            written -= len(rest.pop(0))
        if rest:
            rest[0] = rest[0][written:]
    return done
