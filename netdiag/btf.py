# SPDX-License-Identifier: Apache-2.0
"""Reads struct and enum layouts from BTF, the type information inside a compiled kernel program.

Standard library only. It reads little-endian BTF of netdiag's own objects (some hundred types), never the kernel's
whole dump, and refuses what a record must not hold: bit-fields, pointers, floating point.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from netdiag.errors import InputUnreadable
from netdiag.recording.format import Field, FieldKind, StreamLayout

__all__ = ["Source", "StructLayout", "enums", "structs"]

Source = str | os.PathLike[str] | bytes
"""Path or content of an ELF object, or a raw BTF blob."""

_MAGIC = b"\x9f\xeb"
_HEADER = struct.Struct("<HBBIIIII")
_TYPE = struct.Struct("<III")
_TRIPLE = struct.Struct("<III")
_PAIR_UNSIGNED, _PAIR_SIGNED = struct.Struct("<II"), struct.Struct("<Ii")
_INT, _ARRAY, _STRUCT, _UNION, _ENUM, _TYPEDEF = 1, 3, 4, 5, 6, 8
_VOLATILE, _CONST, _RESTRICT, _TYPE_TAG = 9, 10, 11, 18
_FUNC_PROTO, _VAR, _DATASEC, _DECL_TAG, _ENUM64 = 13, 14, 15, 17, 19
_QUALIFIERS = frozenset({_VOLATILE, _CONST, _RESTRICT, _TYPE_TAG})
_FIXED_TAIL = {_INT: 4, _ARRAY: 12, _VAR: 4, _DECL_TAG: 4}
_TAIL_EACH = {_STRUCT: 12, _UNION: 12, _ENUM: 8, _FUNC_PROTO: 8, _DATASEC: 12, _ENUM64: 12}
_SIGNED = 1
_MAX_ALIASES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class StructLayout:
    """A C struct: its size in bytes and its members in order of offset."""

    name: str
    size: int
    fields: tuple[Field, ...]

    def in_ring(self, *, stream: int, name: str) -> StreamLayout:
        """Return how a ring buffer holds records of this struct, as a recording tells it."""
        return StreamLayout.of_ring(stream=stream, name=name, struct=self.name, size=self.size, fields=self.fields)


@dataclass(frozen=True, slots=True)
class _Type:
    name: str
    kind: int
    count: int
    flag: bool
    ref: int
    """Size in bytes, or the id of the type referred to."""
    tail: bytes


def structs(source: Source, names: Iterable[str]) -> dict[str, StructLayout]:
    """Return the layouts of the named structs.

    InputUnreadable when there is no BTF, or not of those structs: clang drops a struct that no program refers to.
    """
    with _reading(source):
        table = _Table(_btf_of(source))
        return {name: table.layout(name) for name in names}


def enums(source: Source, names: Iterable[str]) -> dict[str, dict[str, int]]:
    """Return the enumerators of the named enums, name to value; InputUnreadable as for structs."""
    with _reading(source):
        table = _Table(_btf_of(source))
        return {name: table.enumerators(name) for name in names}


@contextmanager
def _reading(source: Source) -> Iterator[None]:
    label = "BTF" if isinstance(source, bytes) else os.fspath(source)
    try:
        yield
    except (struct.error, ValueError, IndexError, OSError) as error:
        raise InputUnreadable(f"{label}: {error}") from error


class _Table:
    """All types of one BTF blob; the id of a type is its index."""

    def __init__(self, blob: bytes) -> None:
        if blob[:2] != _MAGIC:
            raise ValueError("no little-endian BTF")
        _, _, _, header, type_at, type_len, string_at, string_len = _HEADER.unpack_from(blob)
        self._strings = blob[header + string_at : header + string_at + string_len]
        self._types = [_Type("void", 0, 0, False, 0, b""), *self._parse(blob[header + type_at :][:type_len])]

    def _parse(self, data: bytes) -> Iterator[_Type]:
        at = 0
        while at < len(data):
            name, info, ref = _TYPE.unpack_from(data, at)
            kind, count = info >> 24 & 0x1F, info & 0xFFFF
            if not 0 < kind <= _ENUM64:
                raise ValueError(f"unknown kind {kind} of type")
            tail = _FIXED_TAIL.get(kind, 0) + _TAIL_EACH.get(kind, 0) * count
            start, at = at + _TYPE.size, at + _TYPE.size + tail
            yield _Type(self._string(name), kind, count, bool(info >> 31), ref, data[start:at])

    def _string(self, at: int) -> str:
        return self._strings[at : self._strings.index(b"\0", at)].decode("ascii", "replace")

    def _find(self, name: str, kinds: frozenset[int]) -> _Type:
        for type_ in self._types:
            if type_.kind in kinds and type_.name == name:
                return type_
        raise ValueError(f"no BTF of {name}: nothing in the program refers to it, so clang left it out")

    def layout(self, name: str) -> StructLayout:
        """Return the struct's members by offset; ValueError for a member that no record may hold."""
        type_ = self._find(name, frozenset({_STRUCT}))
        fields = [self._field(type_, *member) for member in _TRIPLE.iter_unpack(type_.tail)]
        fields.sort(key=lambda field: field.offset)
        return StructLayout(name=name, size=type_.ref, fields=tuple(fields))

    def enumerators(self, name: str) -> dict[str, int]:
        """Return name to value; only enums of up to 32 bits."""
        type_ = self._find(name, frozenset({_ENUM}))
        pair = _PAIR_SIGNED if type_.flag else _PAIR_UNSIGNED
        return {self._string(label): value for label, value in pair.iter_unpack(type_.tail)}

    def _field(self, parent: _Type, name: int, type_id: int, bits: int) -> Field:
        label = self._string(name)
        if bits % 8 or parent.flag:
            raise ValueError(f"{parent.name}.{label} is a bit-field")
        type_name, base = self._resolve(type_id)
        kind, size = self._shape(base, f"{parent.name}.{label}")
        return Field(name=label, type=type_name or self._element_name(base), offset=bits // 8, size=size, kind=kind)

    def _resolve(self, type_id: int) -> tuple[str, _Type]:
        """Return the outermost typedef's name ("" when there is none) and the type behind all aliases."""
        outermost, type_ = "", self._types[type_id]
        for _ in range(_MAX_ALIASES):
            if type_.kind == _TYPEDEF:
                outermost = outermost or type_.name
            elif type_.kind not in _QUALIFIERS:
                return outermost, type_
            type_ = self._types[type_.ref]
        raise ValueError("aliases without end")

    def _shape(self, base: _Type, label: str) -> tuple[FieldKind, int]:
        """Return how to read a member of this type, and its size in bytes."""
        if base.kind == _INT:
            encoding = int.from_bytes(base.tail, "little") >> 24
            return (FieldKind.INT if encoding & _SIGNED else FieldKind.UINT), base.ref
        if base.kind == _ENUM:
            return (FieldKind.INT if base.flag else FieldKind.UINT), base.ref
        if base.kind == _STRUCT:
            return FieldKind.BYTES, base.ref
        if base.kind == _ARRAY:
            element_id, _, count = _TRIPLE.unpack(base.tail)
            _, element = self._resolve(element_id)
            if element.kind == _INT:
                return (FieldKind.CHAR if element.name == "char" else FieldKind.BYTES), element.ref * count
        raise ValueError(f"{label} is of a type that no record may hold")

    def _element_name(self, base: _Type) -> str:
        if base.kind != _ARRAY:
            return base.name
        outermost, element = self._resolve(_TRIPLE.unpack(base.tail)[0])
        return outermost or element.name


def _btf_of(source: Source) -> bytes:
    data = source if isinstance(source, bytes) else Path(source).read_bytes()
    return _elf_section(data, b".BTF") if data[:4] == b"\x7fELF" else data


def _elf_section(data: bytes, wanted: bytes) -> bytes:
    """Return the content of a section of a 64-bit little-endian ELF file; ValueError when it has none."""
    if data[4:6] != b"\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    table_at = int.from_bytes(data[0x28:0x30], "little")
    each, count, names_index = struct.unpack_from("<HHH", data, 0x3A)
    rows = [struct.unpack_from("<IIQQQQ", data, table_at + index * each) for index in range(count)]
    names_at = rows[names_index][4]
    for name, _, _, _, at, size in rows:
        start = names_at + name
        if data[start : start + len(wanted) + 1] == wanted + b"\0":
            return data[at : at + size]
    raise ValueError(f"no section {wanted.decode()}: built without -g, or stripped of everything")
