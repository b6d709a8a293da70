# SPDX-License-Identifier: Apache-2.0
"""Finds functions in Go programs, stripped or not, by the table that the Go runtime itself needs to print its stacks.

The table (`.gopclntab`, Go's src/runtime/symtab.go) says where each function begins and what it is called; read is the
layout of Go 1.18 and newer. Where a function returns is read from its instructions: a return probe in the usual way
would overwrite a return address on a stack that Go moves. Programs are foreign: every number is checked.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from netdiag.instructions import NotCodeError, instructions
from netdiag.symbols import BadObjectError, Elf, Section

__all__ = ["Span", "functions", "returns"]

_SECTIONS = (".gopclntab", ".data.rel.ro.gopclntab")
_MAGIC = (0xFFFFFFF0, 0xFFFFFFF1)
"""Of Go 1.18 and of Go 1.20."""
_HEADER = struct.Struct("<IHBB8Q")
_ENTRY = struct.Struct("<II")
_MOST_TABLE_BYTES = 256 << 20
_MOST_FUNCTIONS = 1 << 22
_PIECE = 1 << 20
_LONGEST_NAME = 256
_MOST_CODE = 1 << 16
_X86_64, _ARM64 = 62, 183
_ARM64_RETURN = 0xD65F03C0
_PADDING = 0xCC


class Span(NamedTuple):
    """Where a function's instructions lie: virtual addresses."""

    start: int
    end: int


def functions(elf: Elf, names: Iterable[str]) -> dict[str, Span]:
    """Return name → place of those functions that a program of Go 1.18 or newer has; nothing for other programs."""
    section = next((found for name in _SECTIONS if (found := elf.section(name)) is not None), None)
    if section is None or not _HEADER.size <= section.size <= _MOST_TABLE_BYTES:
        return {}
    magic, _, _, pointer, count, _, start, name_at, _, _, _, table_at = _HEADER.unpack(
        elf.read(section.offset, _HEADER.size)
    )
    if magic not in _MAGIC or pointer != 8 or not 0 < count <= _MOST_FUNCTIONS or not name_at < table_at < section.size:
        return {}
    if not start:  # filled in when the program is loaded
        text = elf.section(".text")
        start = text.address if text else 0
    table = _Table(elf, section, start, name_at, table_at, count)
    spans = {}
    for name in names:
        span = table.find(name)
        if span is not None:
            spans[name] = span
    return spans


class _Table:
    def __init__(self, elf: Elf, section: Section, start: int, name_at: int, table_at: int, count: int) -> None:
        self._elf, self._section, self._start, self._count = elf, section, start, count
        self._names, self._entries = section.offset + name_at, section.offset + table_at
        self._names_size = table_at - name_at

    def find(self, name: str) -> Span | None:
        """Look for the name, then for the function that has it: its entry says where it begins and what its name is."""
        at = self._position(self._names, self._names_size, b"\0" + name.encode() + b"\0")
        if at is None:
            return None
        wanted = struct.pack("<I", at + 1)
        size = self._section.offset + self._section.size - self._entries
        start = self._entries + self._count * _ENTRY.size
        while True:
            found = self._position(start, self._entries + size - start, wanted)
            if found is None:
                return None
            span = self._checked(start + found - 4)
            if span is not None:
                return span
            start += found + 1

    def _position(self, start: int, size: int, wanted: bytes) -> int | None:
        done = 0
        while done < size:
            piece = self._elf.read(start + done, min(_PIECE + _LONGEST_NAME, size - done))
            at = piece.find(wanted)
            if at >= 0:
                return done + at
            done += _PIECE
        return None

    def _checked(self, offset: int) -> Span | None:
        """Return the span of the function that is told at `offset` of the file; None where none is told there."""
        (entry,) = struct.unpack("<I", self._elf.read(offset, 4))
        low, high = 0, self._count - 1
        while low < high:  # the entries are in order of address
            middle = (low + high + 1) // 2
            if self._entry(middle)[0] <= entry:
                low = middle
            else:
                high = middle - 1
        begins, told_at = self._entry(low)
        if begins != entry or self._entries + told_at != offset:
            return None
        end = struct.unpack("<I", self._elf.read(self._entries + (low + 1) * _ENTRY.size, 4))[0]
        return Span(self._start + entry, self._start + end) if entry < end else None

    def _entry(self, index: int) -> tuple[int, int]:
        begins, told_at = _ENTRY.unpack(self._elf.read(self._entries + index * _ENTRY.size, _ENTRY.size))
        return begins, told_at


def returns(elf: Elf, span: Span) -> list[int]:
    """Return the virtual addresses of all return instructions of a function.

    BadObjectError where its instructions cannot be read from the first to the last, or where a jump inside it leads
    between two of them: then a byte that looks like a return may be none.
    """
    size = span.end - span.start
    if not 0 < size <= _MOST_CODE:
        raise BadObjectError(f"a function of {size} bytes")
    code = elf.code(span.start, size)
    if elf.machine == _ARM64:
        words = struct.unpack(f"<{len(code) // 4}I", code[: len(code) // 4 * 4])
        return [span.start + 4 * index for index, word in enumerate(words) if word == _ARM64_RETURN]
    if elf.machine != _X86_64:
        raise BadObjectError("instructions of this processor cannot be read")
    code = code.rstrip(bytes([_PADDING]))
    try:
        read = list(instructions(code))
    except NotCodeError as error:
        raise BadObjectError(str(error)) from error
    starts = {one.at for one in read}
    for one in read:
        if one.jumps and one.target is not None and 0 <= one.target < len(code) and one.target not in starts:
            raise BadObjectError(f"a jump to {one.target} leads into an instruction")
    return [span.start + one.at for one in read if one.returns]
