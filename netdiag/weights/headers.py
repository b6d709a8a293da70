# SPDX-License-Identifier: Apache-2.0
"""Headers of safetensors and GGUF files: which tensor lies where. Foreign bytes: every length is checked first.

Nothing of a file is ever executed, and of the data itself nothing is read.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

__all__ = ["BadHeaderError", "Header", "Tensor", "read_header"]

_MOST_HEADER = 100_000_000
"""Bytes of a safetensors header: the limit of the reference implementation."""
_MOST_TENSORS = 200_000
_MOST_TEXT = 65_536
_MOST_VALUES = 2_000_000
_DTYPES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "F8_E8M0": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
    "I32": 4, "U32": 4, "F32": 4, "F64": 8, "I64": 8, "U64": 8, "C64": 8,
}  # fmt: skip
_GGUF_FIXED = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_GGUF_TEXT, _GGUF_LIST = 8, 9
_ALIGNMENT = "general.alignment"


class BadHeaderError(ValueError):
    """The header is cut, too large, or says what cannot be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One tensor's place in its file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    """Bytes from the start of the file."""
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a file of weights says of itself."""

    format: str
    """safetensors, gguf, torch."""
    tensors: tuple[Tensor, ...]
    """In the order of the file; empty for torch: a pickle is not read."""


def read_header(path: str) -> Header | None:
    """Return the header of a file of weights, None for any other file.

    Raises BadHeaderError for one that is broken, OSError where it cannot be read.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(16)
        if start.startswith(b"GGUF"):
            return _gguf(file, size)
        if start.startswith((b"PK\x03\x04", b"\x80\x02", b"\x80\x04", b"\x80\x05")):
            is_torch = path.endswith((".bin", ".pt", ".pth", ".ckpt"))
            return Header(format="torch", tensors=()) if is_torch else None
        if path.endswith(".safetensors") or (len(start) == 16 and start[8:9] == b"{" and _length(start) < size):
            return _safetensors(file, size)
    return None


def _length(start: bytes) -> int:
    return int(struct.unpack_from("<Q", start)[0])


def _safetensors(file: BinaryIO, size: int) -> Header:
    file.seek(0)
    head = file.read(8)
    if len(head) < 8:
        raise BadHeaderError("the file ends before the length of its header")
    length = _length(head)
    if length > _MOST_HEADER:
        raise BadHeaderError(f"the header would have {length:,} bytes, over the limit of {_MOST_HEADER:,}")
    if 8 + length > size:
        raise BadHeaderError(f"the header would have {length:,} bytes, and the file has {size:,}")
    try:
        table = json.loads(file.read(length), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise BadHeaderError(f"the header is no JSON: {str(error)[:100]}") from error
    if not isinstance(table, dict) or len(table) > _MOST_TENSORS:
        raise BadHeaderError("the header is no table of tensors")
    tensors = [_tensor(name, one, 8 + length, size) for name, one in table.items() if name != "__metadata__"]
    tensors.sort(key=lambda tensor: (tensor.offset, tensor.size))
    end = 8 + length
    for tensor in tensors:
        if tensor.offset < end:
            raise BadHeaderError(f"tensor {tensor.name[:80]} lies on top of another one")
        end = tensor.offset + tensor.size
    return Header(format="safetensors", tensors=tuple(tensors))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a name stands there twice")
    return table


def _tensor(name: str, one: Any, base: int, size: int) -> Tensor:
    where = f"tensor {name[:80]}"
    if not isinstance(one, dict):
        raise BadHeaderError(f"{where} is no table")
    shape, offsets, dtype = _whole(one.get("shape")), _whole(one.get("data_offsets")), one.get("dtype")
    if shape is None or offsets is None or len(offsets) != 2 or not isinstance(dtype, str):
        raise BadHeaderError(f"{where} lacks shape, data_offsets or dtype")
    begin, end = offsets
    if not begin <= end <= size - base:
        raise BadHeaderError(f"{where} ends at byte {base + end:,} of a file of {size:,}")
    width = _DTYPES.get(dtype)
    if width is not None and math.prod(shape) * width != end - begin:
        raise BadHeaderError(f"{where} has another size than its shape says")
    return Tensor(name=name[:512], dtype=dtype[:16], shape=tuple(shape), offset=base + begin, size=end - begin)


def _whole(value: Any) -> list[int] | None:
    """Return a short list of whole numbers as it is, None for anything else."""
    if not isinstance(value, list) or len(value) > 16:
        return None
    return value if all(type(number) is int and 0 <= number < 1 << 62 for number in value) else None


class _Walk:
    """Reads numbers and texts one behind the other; BadHeaderError at the end of the file."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size = file, size
        self._values = 0

    def bytes(self, count: int) -> bytes:
        if count > self._size - self._file.tell():
            raise BadHeaderError(f"the file ends at byte {self._size:,}, inside its header")
        return self._file.read(count)

    def number(self, form: str) -> int:
        return int(struct.unpack(form, self.bytes(struct.calcsize(form)))[0])

    def text(self) -> str:
        length = self.number("<Q")
        if length > _MOST_TEXT * 16:
            raise BadHeaderError(f"a text would have {length:,} bytes")
        return self.bytes(length).decode("utf-8", "backslashreplace")

    def value(self, kind: int, depth: int = 0) -> int | None:
        """Pass over a value; return it where it is a whole number."""
        self._values += 1
        if self._values > _MOST_VALUES or depth > 4:
            raise BadHeaderError("the header holds too many values")
        if kind in _GGUF_FIXED:
            return int.from_bytes(self.bytes(_GGUF_FIXED[kind]), "little")
        if kind == _GGUF_TEXT:
            self.text()
        elif kind == _GGUF_LIST:
            inner, count = self.number("<I"), self.number("<Q")
            if inner in _GGUF_FIXED:
                self.skip(_GGUF_FIXED[inner] * count)
            else:
                for _ in range(min(count, _MOST_VALUES + 1)):
                    self.value(inner, depth + 1)
        else:
            raise BadHeaderError(f"a value is of the unknown kind {kind}")
        return None

    def skip(self, count: int) -> None:
        if count > self._size - self._file.tell():
            raise BadHeaderError(f"the file ends at byte {self._size:,}, inside its header")
        self._file.seek(count, os.SEEK_CUR)

    def place(self) -> int:
        return self._file.tell()


def _gguf(file: BinaryIO, size: int) -> Header:
    file.seek(4)
    walk = _Walk(file, size)
    version = walk.number("<I")
    if version not in (2, 3):
        raise BadHeaderError(f"GGUF version {version} is not known")
    count, pairs = walk.number("<Q"), walk.number("<Q")
    if count > _MOST_TENSORS or pairs > _MOST_TENSORS:
        raise BadHeaderError(f"the header would have {count:,} tensors and {pairs:,} values")
    alignment = 32
    for _ in range(pairs):
        key = walk.text()
        value = walk.value(walk.number("<I"))
        if key == _ALIGNMENT and value is not None:
            alignment = value
    if not 0 < alignment <= 1 << 20:
        raise BadHeaderError(f"the alignment would be {alignment:,}")
    found = list(_gguf_tensors(walk, count))
    base = -(-walk.place() // alignment) * alignment
    found.sort(key=lambda one: one[3])
    ends = [*(one[3] for one in found[1:]), size - base][: len(found)]  # files of words alone have no tensors
    tensors = []
    for (name, kind, shape, offset), end in zip(found, ends, strict=True):
        if offset > end or base + offset > size:
            raise BadHeaderError(f"tensor {name[:80]} begins at byte {base + offset:,} of a file of {size:,}")
        tensors.append(
            Tensor(name=name[:512], dtype=f"ggml {kind}", shape=shape, offset=base + offset, size=end - offset)
        )
    return Header(format="gguf", tensors=tuple(tensors))


def _gguf_tensors(walk: _Walk, count: int) -> Iterator[tuple[str, int, tuple[int, ...], int]]:
    for _ in range(count):
        name = walk.text()
        dimensions = walk.number("<I")
        if dimensions > 8:
            raise BadHeaderError(f"tensor {name[:80]} would have {dimensions:,} dimensions")
        shape = tuple(walk.number("<Q") for _ in range(dimensions))
        kind = walk.number("<I")
        yield name, kind, shape, walk.number("<Q")
