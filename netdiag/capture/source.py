# SPDX-License-Identifier: Apache-2.0
"""The bytes of a capture file: from a path, a pipe or memory, unpacked where gzip, zstd or xz packed them.

Reads in pieces, so that memory does not grow with the file. What a packed file grows to is bounded: a file that claims
to hold hundreds of times its size is none that a capture tool wrote.
"""

from __future__ import annotations

import io
import lzma
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Protocol

from netdiag.errors import InputUnreadable, Unsupported

__all__ = ["Input", "Source", "kind_of", "open_source"]

Source = str | os.PathLike[str] | bytes | BinaryIO
"""Path, content, or an open file or pipe."""

_PIECE = 1 << 20
_MOST_RATIO, _FREE_BYTES = 300, 64 << 20
"""A packed file that grows by more than this is refused, once it has grown to so many bytes."""
_MOST_KEPT = 32 << 20
"""Bytes of a pipe that are kept, as they came, because they may be wanted again."""

_PCAP = (
    b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d",
    b"\x34\xcd\xb2\xa1", b"\xa1\xb2\xcd\x34",
)  # fmt: skip
_PCAPNG = b"\x0a\x0d\x0d\x0a"
_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\x00": "xz"}


def kind_of(start: bytes) -> str | None:
    """Return what the first six bytes of a file are: pcap, pcapng, gzip, zstd, xz; None for anything else."""
    if start.startswith(_PCAPNG):
        return "pcapng"
    if start[:4] in _PCAP:
        return "pcap"
    return next((name for magic, name in _PACKED.items() if start.startswith(magic)), None)


class _Unpacker(Protocol):
    """What the decompressors of zlib, lzma and zstandard have in common."""

    @property
    def unused_data(self) -> bytes: ...
    @property
    def eof(self) -> bool: ...
    def decompress(self, data: bytes, /) -> bytes: ...


class Input:
    """A file that is read once, from start to end."""

    def __init__(self, file: BinaryIO, name: str, size: int | None) -> None:
        """`size` is that of the file as it lies there, packed or not; None where it is not known."""
        self._file, self.name, self.size = file, name, size
        self._begins = _place(file)
        self._kept: list[bytes] | None = [] if self._begins is None else None
        self.taken = 0
        """Bytes taken from the file so far, to show progress."""
        self._ready = self._raw(16)
        packing = kind_of(self._ready)
        self.packing = packing if packing in _PACKED.values() else None
        self._make: Callable[[], _Unpacker] | None = _maker(self.packing) if self.packing else None
        self._unpacker: _Unpacker | None = self._make() if self._make else None
        self._packed, self._grown = self._ready, 0
        if self._unpacker is not None:
            self._ready = b""

    def read(self, count: int) -> bytes:
        """Return up to `count` bytes, fewer only at the end; InputUnreadable where the packing is broken.

        A packed file that ends in the middle, or is broken there, gives what came before; then `broken` tells.
        """
        if len(self._ready) >= count:
            data, self._ready = self._ready[:count], self._ready[count:]
            return data
        parts, have = [self._ready] if self._ready else [], len(self._ready)
        while have < count:
            piece = self._next(self._unpacker) if self._unpacker is not None else self._raw(count - have)
            if not piece:
                break
            parts.append(piece)
            have += len(piece)
        data = b"".join(parts)  # one part alone is not copied
        self._ready = data[count:]
        return data[:count]

    broken: str | None = None
    """Why a packed file could not be unpacked to its end."""

    def _next(self, unpacker: _Unpacker) -> bytes:
        while self.broken is None:
            packed, self._packed = self._packed or self._raw(_PIECE), b""
            if not packed:
                self.broken = None if (self._unpacker or unpacker).eof else "the packed file ends too early"
                return b""
            piece = self._unpack(packed)
            if piece:
                return piece
        return b""

    def _unpack(self, packed: bytes) -> bytes:
        if self._unpacker is None or self._make is None:
            return packed
        try:
            if self._unpacker.eof:  # several packed files one after the other are one
                self._unpacker = self._make()
            piece = self._unpacker.decompress(packed)
        except Exception as error:  # noqa: BLE001 - zlib.error, LZMAError, ZstdError: each library has its own
            self.broken = f"the {self.packing} data is broken: {error}"
            return b""
        if self._unpacker.eof:
            self._packed = self._unpacker.unused_data
        self._grown += len(piece)
        if self._grown > _FREE_BYTES and self._grown > _MOST_RATIO * self.taken:
            raise InputUnreadable(f"{self.name}: unpacks to more than {_MOST_RATIO} times its size")
        return piece

    def _raw(self, count: int) -> bytes:
        try:
            data = self._file.read(count)
        except OSError as error:
            raise InputUnreadable(f"{self.name}: cannot be read: {error.strerror}") from error
        self.taken += len(data)
        if self._kept is not None:
            self._kept.append(data)
            if self.taken > _MOST_KEPT:
                self._kept = None
        return data

    def forget(self) -> None:
        """Keep nothing of a pipe: it will not be wanted again."""
        self._kept = None

    def again(self) -> Input | None:
        """Return the same from its start, and do not use this one any more; None for a pipe too long to be kept."""
        if self._begins is not None:
            self._file.seek(self._begins)
            return Input(self._file, self.name, self.size)
        if self._kept is None:
            return None
        kept, self._kept = io.BytesIO(b"".join(self._kept)), None
        return Input(kept, self.name, None)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _place(file: BinaryIO) -> int | None:
    """Return where a file stands, None where it cannot be set back."""
    try:
        return file.tell() if file.seekable() else None
    except (OSError, ValueError):
        return None


def _maker(packing: str) -> Callable[[], _Unpacker]:
    if packing == "gzip":
        return lambda: zlib.decompressobj(zlib.MAX_WBITS | 16)
    if packing == "xz":
        return lambda: lzma.LZMADecompressor(memlimit=128 << 20)
    return _zstd()


def _zstd() -> Callable[[], _Unpacker]:
    try:
        import zstandard
    except ImportError as error:
        raise Unsupported(
            "zstd is not unpacked here: the Python package zstandard is missing",
            hint="pip install zstandard, or unpack the file first: zstd -d FILE",
        ) from error
    return lambda: zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()


def open_source(source: Source) -> Input:
    """Open a capture file; InputUnreadable where it cannot be."""
    if isinstance(source, bytes):
        return Input(io.BytesIO(source), "the capture", len(source))
    if isinstance(source, (str, os.PathLike)):
        name = os.fspath(source)
        try:
            file = Path(source).open("rb")  # noqa: SIM115 - Input closes it
            size = os.fstat(file.fileno()).st_size
        except OSError as error:
            raise InputUnreadable(f"{name}: {error.strerror}") from error
        return Input(file, name, size or None)
    return Input(source, "standard input", None)
