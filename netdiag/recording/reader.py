# SPDX-License-Identifier: Apache-2.0
"""Reads a recording: what was recorded up to the first byte that is missing or broken.

It trusts nothing: lengths are checked against the file, JSON and layouts are bounded and checked. It neither interprets
records nor joins them; `netdiag.tables` does.
"""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from netdiag.errors import InputUnreadable
from netdiag.recording.format import (
    BLOCK_HEADER,
    FILE_HEADER,
    MAGIC,
    MAJOR,
    MAX_JSON_BYTES,
    MAX_RECORDS_BYTES,
    RING_HEADER_BYTES,
    BlockType,
    BrokenBlockError,
    FieldKind,
    StreamLayout,
    parse_json,
)
from netdiag.recording.migrations import migrate

__all__ = ["Recording", "Records", "Source", "dtype_of", "follow", "is_recording", "read", "read_pieces"]

Source = str | os.PathLike[str] | bytes | BinaryIO
"""Path, content, or an open file of a recording."""

Records = NDArray[np.void]
"""A structured array, one element a record, with the members of the C struct as fields."""

_BUSY, _DISCARDED, _LENGTH = 1 << 31, 1 << 30, (1 << 30) - 1
_BYTE_KINDS = {FieldKind.UINT: "<u", FieldKind.INT: "<i", FieldKind.CHAR: "S"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What a recording holds, in the order it was written; also a part of one that still grows."""

    header: dict[str, Any]
    """Members as in `docs/architecture.md`; `clock` is checked."""
    layouts: dict[str, StreamLayout] = field(default_factory=dict)
    """By name of the stream."""
    runs: dict[str, list[Records]] = field(default_factory=dict)
    """By name of the stream: runs of records as they were drained."""
    facts: list[dict[str, Any]] = field(default_factory=list)
    """Each has a `kind`."""
    end: dict[str, Any] | None = None
    """`exit_reason` and `at_ns` (CLOCK_MONOTONIC); None when the recorder could not say them."""
    truncated_at: int | None = None
    """Offset of the first byte that could not be used; None when all of it could."""
    truncated_why: str | None = None

    @property
    def start_ns(self) -> int:
        """CLOCK_MONOTONIC instant of the start, nanoseconds."""
        return int(self.header["clock"]["monotonic_ns"])

    @property
    def end_ns(self) -> int | None:
        """CLOCK_MONOTONIC instant of the end, nanoseconds; None when the recorder did not say."""
        return None if self.end is None else int(self.end["at_ns"])

    def records(self, stream: str) -> Records | None:
        """Return all records of a stream as one array (no copy where there is one run); None without that stream."""
        if stream not in self.layouts:
            return None
        runs = self.runs.get(stream, [])
        if len(runs) == 1:
            return runs[0]
        return np.concatenate(runs) if runs else np.zeros(0, dtype_of(self.layouts[stream]))

    def facts_of(self, kind: str) -> list[dict[str, Any]]:
        """Return the facts of one kind, in order."""
        return [fact for fact in self.facts if fact["kind"] == kind]


def dtype_of(layout: StreamLayout) -> np.dtype[np.void]:
    """Return the NumPy type of one record, `stride` bytes long; opaque members are arrays of bytes."""
    formats: list[Any] = [
        ("u1", (member.size,)) if member.kind is FieldKind.BYTES else f"{_BYTE_KINDS[member.kind]}{member.size}"
        for member in layout.fields
    ]
    return np.dtype(
        {
            "names": [member.name for member in layout.fields],
            "formats": formats,
            "offsets": [layout.offset + member.offset for member in layout.fields],
            "itemsize": layout.stride,
        }
    )


def is_recording(start: bytes) -> bool:
    """Tell from the first bytes of a file whether it is a recording."""
    return start[: len(MAGIC)] == MAGIC


def read(source: Source) -> Recording:
    """Read all that is there; InputUnreadable when it is no recording, too new, or not made by netdiag."""
    if isinstance(source, (str, os.PathLike)):
        with _open(source) as file:
            return _Reader(file).all()
    return _Reader(_seekable(source)).all()


def read_pieces(path: str | os.PathLike[str], *, size: int) -> Iterator[Recording]:
    """Yield a recording in pieces of about `size` bytes, each with only what is new; the last carries how it ends."""
    with _open(path) as file:
        reader = _Reader(file)
        while True:
            part = reader.rest(final=True, most=size)
            if part is None:
                raise reader.headless()
            yield part
            if part.end is not None or part.truncated_at is not None or reader.at_end:
                return


def follow(path: str | os.PathLike[str], *, wait: Callable[[], bool]) -> Iterator[Recording]:
    """Yield a recording while it grows, each time only what is new.

    `wait` is called when there is nothing new: it pauses, and returns False when nobody writes any more. The last part
    carries `end` or `truncated_at`.
    """
    with _open(path) as file:
        reader, alive = _Reader(file), True
        while True:
            part = reader.rest(final=not alive)
            if part is not None and (part.runs or part.facts or part.end is not None or not alive):
                yield part
            if not alive or (part is not None and part.end is not None):
                return
            alive = wait()


def _open(path: str | os.PathLike[str]) -> BinaryIO:
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise InputUnreadable(f"{os.fspath(path)}: {error.strerror}") from error


def _seekable(source: bytes | BinaryIO) -> BinaryIO:
    if isinstance(source, bytes):
        return io.BytesIO(source)
    return source if source.seekable() else io.BytesIO(source.read())


class _Reader:
    """Turns a file into recordings, from where it stopped last time."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._at = 0
        self._major = 0
        self._header: dict[str, Any] | None = None
        self._layouts: dict[int, StreamLayout] = {}
        self._why: str | None = None

    def all(self) -> Recording:
        """Read everything from here on, and tell what is broken; InputUnreadable when not even the header is there."""
        part = self.rest(final=True)
        if part is None:
            raise self.headless()
        return part

    def headless(self) -> InputUnreadable:
        """Return the error of a file that ends in its header."""
        return InputUnreadable(f"the recording ends in its header, at byte {self._at}: {self._why}")

    @property
    def at_end(self) -> bool:
        """Whether nothing lies behind what was read."""
        return self._file.seek(0, os.SEEK_END) == self._at

    def rest(self, *, final: bool, most: int | None = None) -> Recording | None:
        """Read whole blocks up to the end or the first bad one, which is told when it is `final`.

        `most`: stop after about so many bytes. None while not even the header is there.
        """
        try:
            return self._read_blocks(final=final, most=most) if self._begin() else None
        except OSError as error:
            raise InputUnreadable(f"cannot be read at byte {self._at}: {error.strerror}") from error

    def _read_blocks(self, *, final: bool, most: int | None = None) -> Recording:
        part, first = _Part(), self._at
        while part.end is None and (most is None or self._at - first < most):
            start = self._at
            block = self._next_block()
            if block is None:
                break
            try:
                self._take(part, *block)
            except ValueError as error:
                raise InputUnreadable(f"byte {start}: {error}") from error
        bad = final and self._why is not None
        return Recording(
            header=self._header or {},
            layouts={layout.name: layout for layout in self._layouts.values()},
            runs=part.runs,
            facts=part.facts,
            end=part.end,
            truncated_at=self._at if bad else None,
            truncated_why=self._why if bad else None,
        )

    def _begin(self) -> bool:
        """Read magic, version and header block once; False while they are incomplete."""
        if self._header is not None:
            return True
        if self._at == 0 and not self._read_version():
            return False
        start, block = self._at, self._next_block()
        if block is None:
            return False
        try:
            self._header = _checked_header(block[0], self._json(BlockType.HEADER, block[2]))
        except ValueError as error:
            raise InputUnreadable(f"byte {start}: {error}") from error
        return True

    def _read_version(self) -> bool:
        self._file.seek(0)
        start = self._file.read(FILE_HEADER.size)
        if not is_recording(start) and start != MAGIC[: len(start)]:
            raise InputUnreadable("not a recording of netdiag")
        if len(start) < FILE_HEADER.size:
            self._why = "the file ends"
            return False
        _, self._major, minor, _ = FILE_HEADER.unpack(start)
        if self._major > MAJOR:
            raise InputUnreadable(
                f"a recording of format version {self._major}.{minor}; this netdiag reads up to version {MAJOR}",
                hint="Update netdiag.",
            )
        self._at = FILE_HEADER.size
        return True

    def _next_block(self) -> tuple[int, int, bytes] | None:
        """Return type, stream and payload of the next block; None, with the reason kept, when it is not all there."""
        left = self._file.seek(0, os.SEEK_END) - self._at
        self._file.seek(self._at)
        self._why = None if left == 0 else "a block is incomplete"
        if left < BLOCK_HEADER.size:
            return None
        type_, _, stream, length, crc = BLOCK_HEADER.unpack(self._file.read(BLOCK_HEADER.size))
        if length > (MAX_RECORDS_BYTES if type_ == BlockType.RECORDS else MAX_JSON_BYTES):
            self._why = f"a block of {length} bytes"
            return None
        if length > left - BLOCK_HEADER.size:
            return None
        payload = self._file.read(length)
        if len(payload) < length or zlib.crc32(payload) != crc:
            self._why = "the checksum of a block is wrong"
            return None
        self._why = None
        self._at += BLOCK_HEADER.size + length
        return type_, stream, payload

    def _take(self, part: _Part, type_: int, stream: int, payload: bytes) -> None:
        if type_ == BlockType.RECORDS:
            layout = self._layouts.get(stream)
            if layout is None:
                raise BrokenBlockError(f"records of stream {stream} come before their layout")
            part.runs.setdefault(layout.name, []).append(_run(layout, payload))
        elif type_ == BlockType.LAYOUT:
            self._add_layout(stream, StreamLayout.from_json(self._json(BlockType.LAYOUT, payload)))
        elif type_ == BlockType.FACT:
            part.facts.append(_checked_fact(self._json(BlockType.FACT, payload)))
        elif type_ == BlockType.END:
            part.end = _checked_end(self._json(BlockType.END, payload))
        elif type_ == BlockType.HEADER:
            raise BrokenBlockError("a second header")
        # Any other type is of a newer minor version, which may only add what older readers can do without.

    def _add_layout(self, stream: int, layout: StreamLayout) -> None:
        if layout.stream != stream or stream in self._layouts:
            raise BrokenBlockError(f"a second or misplaced layout of stream {stream}")
        if any(known.name == layout.name for known in self._layouts.values()):
            raise BrokenBlockError(f"two streams are named {layout.name}")
        self._layouts[stream] = layout

    def _json(self, type_: BlockType, payload: bytes) -> dict[str, Any]:
        return migrate(self._major, type_, parse_json(payload))


@dataclass(slots=True)
class _Part:
    runs: dict[str, list[Records]] = field(default_factory=dict)
    facts: list[dict[str, Any]] = field(default_factory=list)
    end: dict[str, Any] | None = None


def _run(layout: StreamLayout, payload: bytes) -> Records:
    """Return a run of records as an array over the payload, without those that the kernel program discarded."""
    if len(payload) % layout.stride:
        raise BrokenBlockError(f"{len(payload)} bytes of records of {layout.stride} bytes each")
    records = np.frombuffer(payload, dtype_of(layout))
    if layout.offset != RING_HEADER_BYTES or layout.stride % 4:
        return records
    headers = np.frombuffer(payload, "<u4")[:: layout.stride // 4]
    if np.any((headers & _LENGTH != layout.size) | (headers & _BUSY != 0)):
        raise BrokenBlockError(f"a record of {layout.name} with another length, or not finished")
    discarded = headers & _DISCARDED != 0
    return records[~discarded] if discarded.any() else records


def _checked_header(type_: int, header: dict[str, Any]) -> dict[str, Any]:
    if type_ != BlockType.HEADER:
        raise BrokenBlockError("the first block is no header")
    clock = header.get("clock")
    if not isinstance(clock, dict) or not all(_is_instant(clock.get(name)) for name in _CLOCKS):
        raise BrokenBlockError(f"the header's clock lacks {', '.join(_CLOCKS)}")
    for name, kind in _HEADER_KINDS.items():
        if not isinstance(header.setdefault(name, kind()), kind):
            raise BrokenBlockError(f"{name} of the header is no {kind.__name__}")
    if not isinstance(header.setdefault("command", None), dict | None):
        raise BrokenBlockError("command of the header is neither an object nor null")
    return header


_CLOCKS = ("monotonic_ns", "realtime_ns", "boottime_ns")
_HEADER_KINDS: dict[str, type] = {"version": str, "started": str, "tier": str, "host": dict, "target": dict}


def _checked_fact(fact: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(fact.get("kind"), str):
        raise BrokenBlockError("a fact without a kind")
    return fact


def _checked_end(end: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(end.get("exit_reason"), str) or not _is_instant(end.get("at_ns")):
        raise BrokenBlockError("an end without exit_reason and at_ns")
    return end


def _is_instant(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63
