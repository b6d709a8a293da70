# SPDX-License-Identifier: Apache-2.0
"""Appends records and facts to a recording that another process writes, block by block. Standard library only.

The file has O_APPEND, so the kernel puts each block at the end, whoever wrote last.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from netdiag.recording.format import (
    BLOCK_HEADER,
    RING_HEADER_BYTES,
    UNSIGNED,
    BlockType,
    FieldKind,
    StreamLayout,
    dump_json,
)

__all__ = ["Appender", "Packer"]


class Packer:
    """Makes records of one layout, as a ring buffer would hold them, from numbers by member."""

    def __init__(self, layout: StreamLayout) -> None:
        """ValueError for a layout that no ring has, or with members that are no unsigned numbers."""
        if layout.offset != RING_HEADER_BYTES:
            raise ValueError(f"{layout.name} has no place for the ring's header")
        shape, at, names, limits = "<II", 0, [], []
        for field in sorted(layout.fields, key=lambda field: field.offset):
            shape += f"{field.offset - at}x"
            if field.kind is FieldKind.UINT:
                shape += UNSIGNED[field.size]
                names.append(field.name)
                limits.append((1 << 8 * field.size) - 1)
            elif field.kind is FieldKind.BYTES:
                shape += f"{field.size}x"
            else:
                raise ValueError(f"{layout.name}.{field.name} is no unsigned number")
            at = field.offset + field.size
        self._struct = struct.Struct(f"{shape}{layout.stride - RING_HEADER_BYTES - at}x")
        self._names, self._limits, self._size = names, limits, layout.size
        self._pick = itemgetter(*names) if len(names) > 1 else lambda row: (row[names[0]],)

    def pack(self, row: Mapping[str, int]) -> bytes:
        """Return a record; members that are missing are 0, numbers that are too large the largest there is."""
        try:
            return self._struct.pack(self._size, 0, *self._pick(row))
        except (KeyError, struct.error):
            limits = zip(self._names, self._limits, strict=True)
            numbers = [min(max(row.get(name, 0), 0), most) for name, most in limits]
            return self._struct.pack(self._size, 0, *numbers)


class Appender:
    """Writes whole blocks to a shared recording; after the first error nothing more."""

    def __init__(self, fd: int) -> None:
        """`fd` is open for appending and stays the caller's to close."""
        self._fd = fd
        self.failed = False
        """A block could not be written: the disk is full, say."""

    def layout(self, layout: StreamLayout) -> None:
        """Write how the records of a stream are laid out; before its first records."""
        self._write(BlockType.LAYOUT, layout.stream, [dump_json(layout.to_json())])

    def records(self, stream: int, rows: Sequence[bytes]) -> None:
        """Write whole records."""
        if rows:
            self._write(BlockType.RECORDS, stream, [b"".join(rows)])

    def fact(self, kind: str, value: Mapping[str, Any]) -> None:
        """Write one fact."""
        self._write(BlockType.FACT, 0, [dump_json({"kind": kind, **value})])

    def _write(self, type_: BlockType, stream: int, payload: list[bytes]) -> None:
        if self.failed:
            return
        body = payload[0]
        block = BLOCK_HEADER.pack(type_, 0, stream, len(body), zlib.crc32(body)) + body
        try:
            self.failed = os.write(self._fd, block) != len(block)
        except OSError:
            self.failed = True
