# SPDX-License-Identifier: Apache-2.0
"""The bytes of a recording: magic, block headers, and the layout of a stream's records.

Standard library only: the privileged recorder imports this module.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from math import isfinite
from typing import Any

__all__ = [
    "BLOCK_HEADER",
    "FILE_HEADER",
    "MAGIC",
    "MAJOR",
    "MAX_JSON_BYTES",
    "MAX_RECORDS_BYTES",
    "MINOR",
    "RING_HEADER_BYTES",
    "UNSIGNED",
    "BlockType",
    "BrokenBlockError",
    "Field",
    "FieldKind",
    "StreamLayout",
    "dump_json",
    "parse_json",
]

MAGIC = b"NETDIAG\0"
MAJOR = 1
MINOR = 0

FILE_HEADER = struct.Struct("<8sHHI")
"""Magic, major, minor, reserved."""

BLOCK_HEADER = struct.Struct("<BBHII")
"""Type, reserved, stream, length of the payload, crc32 of the payload."""

RING_HEADER_BYTES = 8
"""What the kernel's ring buffer puts before each record: length with two flag bits, page offset."""

UNSIGNED: Mapping[int, str] = {1: "B", 2: "H", 4: "I", 8: "Q"}
"""Bytes of a number without a sign → its letter for `struct`."""

MAX_JSON_BYTES = 1 << 20
"""A longer JSON block is not one that netdiag wrote."""

MAX_RECORDS_BYTES = 1 << 28
"""A longer run of records is not one that netdiag wrote: rings are smaller."""

_MAX_JSON_DEPTH = 32
_MAX_FIELDS = 512
_MAX_NAME = 64
_MAX_STRIDE = 1 << 16


class BrokenBlockError(ValueError):
    """A block whose checksum is right holds what no recording may hold."""


class BlockType(IntEnum):
    """What a block's payload is."""

    HEADER = 1
    LAYOUT = 2
    RECORDS = 3
    FACT = 4
    END = 5


class FieldKind(StrEnum):
    """How the bytes of a field are read."""

    UINT = "uint"
    INT = "int"
    CHAR = "char"
    """Text that ends at the first zero byte."""
    BYTES = "bytes"
    """Opaque: an address, padding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One member of a record's struct."""

    name: str
    type: str
    """Name of the C type; a semantic typedef such as `nd_ktime_ns` carries unit and meaning."""
    offset: int
    """Bytes from the start of the struct."""
    size: int
    """Bytes."""
    kind: FieldKind

    def to_json(self) -> dict[str, Any]:
        """Return the member as it stands in a layout block."""
        return {
            "name": self.name,
            "type": self.type,
            "offset": self.offset,
            "size": self.size,
            "kind": str(self.kind),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLayout:
    """Where to find the struct and its members in a run of records."""

    stream: int
    """Number that the blocks of this stream carry."""
    name: str
    """`tcp`, `tcp_io`, `process`."""
    struct: str
    """Name of the C struct."""
    size: int
    """Bytes of the struct."""
    offset: int
    """Bytes from the start of a record to its struct."""
    stride: int
    """Bytes from one record to the next."""
    fields: tuple[Field, ...]

    @classmethod
    def of_ring(cls, *, stream: int, name: str, struct: str, size: int, fields: tuple[Field, ...]) -> StreamLayout:
        """Return the layout of records as a ring buffer holds them: header in front, rounded up to 8 bytes."""
        stride = RING_HEADER_BYTES + (size + 7) // 8 * 8
        return cls(
            stream=stream, name=name, struct=struct, size=size, offset=RING_HEADER_BYTES, stride=stride, fields=fields
        )

    def to_json(self) -> dict[str, Any]:
        """Return the payload of a layout block."""
        return {
            "stream": self.stream,
            "name": self.name,
            "struct": self.struct,
            "size": self.size,
            "offset": self.offset,
            "stride": self.stride,
            "fields": [field.to_json() for field in self.fields],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> StreamLayout:
        """Check a layout that came from a file; BrokenBlockError says what is wrong with it."""
        fields = value.get("fields")
        if not isinstance(fields, list) or not 0 < len(fields) <= _MAX_FIELDS:
            raise BrokenBlockError(f"a layout needs 1 to {_MAX_FIELDS} fields")
        layout = cls(
            stream=_number(value, "stream", 0, 0xFFFF),
            name=_name(value, "name"),
            struct=_name(value, "struct"),
            size=_number(value, "size", 1, _MAX_STRIDE),
            offset=_number(value, "offset", 0, _MAX_STRIDE),
            stride=_number(value, "stride", 1, _MAX_STRIDE),
            fields=tuple(_field(field) for field in fields),
        )
        if layout.offset + layout.size > layout.stride:
            raise BrokenBlockError(f"struct {layout.struct} does not fit its stride of {layout.stride} bytes")
        _check_fields(layout)
        return layout


def _number(value: Mapping[str, Any], key: str, low: int, high: int) -> int:
    number = value.get(key)
    if not isinstance(number, int) or isinstance(number, bool) or not low <= number <= high:
        raise BrokenBlockError(f"{key} is not a whole number from {low} to {high}")
    return number


def _name(value: Mapping[str, Any], key: str) -> str:
    name = value.get(key)
    if not isinstance(name, str) or not name.isascii() or not name.isidentifier() or len(name) > _MAX_NAME:
        raise BrokenBlockError(f"{key} is not an identifier of at most {_MAX_NAME} letters")
    return name


def _field(value: object) -> Field:
    if not isinstance(value, Mapping):
        raise BrokenBlockError("a field is not an object")
    kind = value.get("kind")
    if kind not in tuple(FieldKind):
        raise BrokenBlockError(f"kind is none of {', '.join(FieldKind)}")
    type_ = value.get("type")
    if not isinstance(type_, str) or len(type_) > _MAX_NAME:
        raise BrokenBlockError("type is not a short text")
    field = Field(
        name=_name(value, "name"),
        type=type_,
        offset=_number(value, "offset", 0, _MAX_STRIDE),
        size=_number(value, "size", 1, _MAX_STRIDE),
        kind=FieldKind(kind),
    )
    if field.kind in {FieldKind.UINT, FieldKind.INT} and field.size not in {1, 2, 4, 8}:
        raise BrokenBlockError(f"field {field.name} is a number of {field.size} bytes")
    return field


def _check_fields(layout: StreamLayout) -> None:
    end, names = 0, set()
    for field in sorted(layout.fields, key=lambda field: field.offset):
        if field.offset < end:
            raise BrokenBlockError(f"field {field.name} overlaps its neighbour")
        end = field.offset + field.size
        if end > layout.size:
            raise BrokenBlockError(f"field {field.name} ends after struct {layout.struct}")
        if field.name in names:
            raise BrokenBlockError(f"field {field.name} comes twice")
        names.add(field.name)


def dump_json(value: Mapping[str, Any]) -> bytes:
    """Return one JSON object as compact ASCII; ValueError when it is longer than a reader takes."""
    payload = json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")
    if len(payload) > MAX_JSON_BYTES:
        raise ValueError(f"{len(payload)} bytes of JSON, at most {MAX_JSON_BYTES} fit a block")
    return payload


def parse_json(payload: bytes) -> dict[str, Any]:
    """Read one JSON object of bounded size and depth; BrokenBlockError says what is wrong with it."""
    if len(payload) > MAX_JSON_BYTES:
        raise BrokenBlockError(f"{len(payload)} bytes of JSON, at most {MAX_JSON_BYTES} are read")
    if _depth(payload) > _MAX_JSON_DEPTH:
        raise BrokenBlockError(f"JSON deeper than {_MAX_JSON_DEPTH} levels")
    value = json.loads(payload.decode("utf-8"), parse_constant=_refuse_constant, parse_float=_finite)
    if not isinstance(value, dict):
        raise BrokenBlockError("not a JSON object")
    return value


def _refuse_constant(name: str) -> float:
    raise BrokenBlockError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise BrokenBlockError(f"{text[:20]} is too large a number")
    return value


def _depth(payload: bytes) -> int:
    """Return an upper bound of the nesting: brackets in strings count as well."""
    deepest = depth = 0
    for byte in payload.translate(None, _NOT_BRACKETS):
        depth += 1 if byte in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
