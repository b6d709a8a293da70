# SPDX-License-Identifier: Apache-2.0
"""Finds functions in programs and libraries (ELF, 64 bit, little endian) and the cheapest place for a probe on each.

Exported functions come from the hash table that the dynamic linker uses, so a look-up touches a few hundred bytes of a
file of any size; others from .symtab, which is read piece by piece. Files are foreign: every number is checked against
the file, and all that is wrong with one is told as BadObjectError.

Why the place matters: the kernel emulates a few kinds of instructions (push, nop, call, jump) and lets the processor
step through all others, which takes ten times as long in a virtual machine.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, NamedTuple

__all__ = ["BadObjectError", "Elf", "Keeps", "Place", "Section", "cheap_place"]

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC = struct.Struct("<QQ")
_X86_64 = 62
_LOAD, _DYNAMIC_SEGMENT, _NOTE = 1, 2, 4
_NEEDED, _HASH, _STRTAB, _SYMTAB, _STRSZ, _GNU_HASH = 1, 4, 5, 6, 10, 0x6FFFFEF5
_SYMBOL_TABLE, _FUNCTION, _INDIRECT = 2, 2, 10
_NO_BITS = 8
_BUILD_ID = 3
_MOST_SEGMENTS, _MOST_SECTIONS, _MOST_DYNAMIC = 128, 4096, 512
_MOST_STRIDE = 256
_MOST_CHAIN = 4096
"""Symbols that are compared for one name: hash chains of real files hold a handful."""
_PIECE = 1 << 20
_MOST_TEXT = 64 << 20
_MOST_SYMBOL_BYTES = 256 << 20
_MOST_TAILS = 256
_LONGEST_NAME = 256
_CODE_BYTES = 48


class BadObjectError(ValueError):
    """The file is no ELF object that can be read, or says something that can't be."""


class Keeps(Enum):
    """What a probe needs of a function's arguments."""

    NOTHING = 0
    FIRST = 1
    ALL = 2
    GO = 3
    """All, as Go passes them."""


class Place(NamedTuple):
    """Where a probe on a function goes."""

    offset: int
    """Bytes from the start of the file."""
    cheap: bool
    """The kernel emulates the instruction there."""


class Section(NamedTuple):
    """A named part of the file."""

    address: int
    offset: int
    size: int


class _Range(NamedTuple):
    address: int
    offset: int
    size: int


class Elf:
    """An open ELF file; it is read by position, so the descriptor may be shared."""

    def __init__(self, fd: int) -> None:
        """Read the headers of `fd`, which stays the caller's; BadObjectError when it is no such file."""
        self._fd = fd
        self._size = os.fstat(fd).st_size
        head = self._unpack(_HEADER, 0)
        ident, _, self.machine = head[0], head[1], head[2]
        if ident[:6] != b"\x7fELF\x02\x01":
            raise BadObjectError("not a 64-bit little-endian ELF file")
        self._sections_at, section_size, sections = head[6], head[11], head[12]
        segments = self._table(head[5], _SEGMENT, head[9], min(head[10], _MOST_SEGMENTS))
        self._loads = [_Range(s[3], s[2], s[5]) for s in segments if s[0] == _LOAD]
        self._notes = [_Range(s[3], s[2], s[5]) for s in segments if s[0] == _NOTE]
        self._dynamic = next((_Range(s[3], s[2], s[5]) for s in segments if s[0] == _DYNAMIC_SEGMENT), None)
        self._section_size, self._sections = section_size, min(sections, _MOST_SECTIONS)
        self._names_at = head[13]

    # --- bytes ----------------------------------------------------------------------------------------------------

    def _bytes(self, offset: int, size: int) -> bytes:
        if offset < 0 or size < 0 or offset + size > self._size:
            raise BadObjectError(f"{size} bytes at {offset} lie outside the file")
        data = os.pread(self._fd, size, offset)
        if len(data) != size:
            raise BadObjectError("the file became shorter while it was read")
        return data

    def _unpack(self, shape: struct.Struct, offset: int) -> tuple[Any, ...]:
        return shape.unpack(self._bytes(offset, shape.size))

    def _table(self, offset: int, shape: struct.Struct, stride: int, count: int) -> list[tuple[Any, ...]]:
        if not count:
            return []
        if not shape.size <= stride <= _MOST_STRIDE:
            raise BadObjectError(f"entries of {stride} bytes")
        data = self._bytes(offset, stride * (count - 1) + shape.size)
        return [shape.unpack_from(data, stride * index) for index in range(count)]

    def _pieces(self, offset: int, size: int, *, overlap: int) -> Iterator[tuple[int, bytes]]:
        """Yield (start, bytes) over a part of the file, each piece with the end of the one before it."""
        end = offset + size
        while offset < end:
            yield offset, self._bytes(offset, min(_PIECE + overlap, end - offset))
            offset += _PIECE

    def offset_of(self, address: int) -> int:
        """Return where in the file a virtual address lies; BadObjectError when it is in none of its segments."""
        for load in self._loads:
            if load.address <= address < load.address + load.size:
                return load.offset + address - load.address
        raise BadObjectError(f"address {address:#x} is not in the file")

    # --- symbols --------------------------------------------------------------------------------------------------

    def exported(self, names: Iterable[str]) -> dict[str, int]:
        """Return name → virtual address of those functions that the dynamic symbol table defines."""
        tags = dict(self._tags())
        if _SYMTAB not in tags or _STRTAB not in tags:
            return {}
        symbols, texts = self.offset_of(tags[_SYMTAB]), self.offset_of(tags[_STRTAB])
        if _GNU_HASH in tags:
            look_up = _GnuHash(self, self.offset_of(tags[_GNU_HASH])).candidates
        elif _HASH in tags:
            look_up = _SysvHash(self, self.offset_of(tags[_HASH])).candidates
        else:
            return {}
        found = {}
        for name in names:
            wanted = name.encode("ascii") + b"\0"
            for index in look_up(wanted[:-1]):
                at, info, _, section, address, _ = self._unpack(_SYMBOL, symbols + index * _SYMBOL.size)
                if section and info & 15 == _FUNCTION and self._text_is(texts + at, wanted):
                    found[name] = address
                    break
        return found

    def needed(self) -> list[str]:
        """Return the libraries that are loaded with it, by the names that it gives them."""
        tags = list(self._tags())
        texts = dict(tags).get(_STRTAB)
        if texts is None:
            return []
        start = self.offset_of(texts)
        return [self._text(start + value) for tag, value in tags if tag == _NEEDED]

    def mentions(self, name: str) -> bool:
        """Tell whether a name is among those of the dynamic symbols, or the end of one: used or defined."""
        tags = dict(self._tags())
        if _STRTAB not in tags or _STRSZ not in tags:
            return False
        start, size = self.offset_of(tags[_STRTAB]), min(tags[_STRSZ], _MOST_TEXT)
        wanted = name.encode("ascii") + b"\0"
        return any(wanted in piece for _, piece in self._pieces(start, size, overlap=_LONGEST_NAME))

    def _text(self, offset: int) -> str:
        data = self._bytes(offset, max(min(_LONGEST_NAME, self._size - offset), 0))
        return data.split(b"\0", 1)[0].decode("utf-8", "backslashreplace")

    def _tags(self) -> Iterator[tuple[int, int]]:
        if self._dynamic is None:
            return
        count = min(self._dynamic.size // _DYNAMIC.size, _MOST_DYNAMIC)
        for tag, value in self._table(self._dynamic.offset, _DYNAMIC, _DYNAMIC.size, count):
            if not tag:
                return
            yield tag, value

    def _text_is(self, offset: int, wanted: bytes) -> bool:
        return offset + len(wanted) <= self._size and self._bytes(offset, len(wanted)) == wanted

    def local(self, names: Iterable[str]) -> dict[str, int]:
        """Return name → virtual address of those functions that .symtab has; nothing where the file was stripped."""
        sections = self._table(self._sections_at, _SECTION, self._section_size, self._sections)
        found: dict[str, int] = {}
        for section in sections:
            if section[1] == _SYMBOL_TABLE and section[6] < len(sections):
                texts = sections[section[6]]
                found |= self._in_table(section, texts, list(names))
        return found

    def _in_table(self, table: tuple[Any, ...], texts: tuple[Any, ...], names: list[str]) -> dict[str, int]:
        """Find where the names stand, be it at the end of longer ones, then which symbols are called so."""
        if max(table[5], texts[5]) > _MOST_SYMBOL_BYTES:
            raise BadObjectError("a symbol table of this size is not read")
        places: dict[int, str] = {}
        wanted = [name.encode("ascii") + b"\0" for name in names]
        for start, piece in self._pieces(texts[4], texts[5], overlap=_LONGEST_NAME):
            for name, text in zip(names, wanted, strict=True):
                at = piece.find(text)
                while at >= 0 and len(places) < _MOST_TAILS:
                    places[start + at - texts[4]] = name
                    at = piece.find(text, at + 1)
        return self._called(table, places) if places else {}

    def _called(self, table: tuple[Any, ...], places: dict[int, str]) -> dict[str, int]:
        step = _PIECE // _SYMBOL.size * _SYMBOL.size
        found: dict[str, int] = {}
        for start in range(0, table[5] // _SYMBOL.size * _SYMBOL.size, step):
            size = min(step, table[5] - start) // _SYMBOL.size * _SYMBOL.size
            piece = self._bytes(table[4] + start, size)
            # the first of the six words of each symbol: compared all at once
            starts = memoryview(piece).cast("I")[:: _SYMBOL.size // 4].tolist()
            for at in places.keys() & set(starts):
                _, info, _, section, address, _ = _SYMBOL.unpack_from(piece, starts.index(at) * _SYMBOL.size)
                if section and info & 15 == _FUNCTION:
                    found.setdefault(places[at], address)
        return found

    def section(self, name: str) -> Section | None:
        """Return the section of this name; None where the file has none, or lost its table of sections."""
        sections = self._table(self._sections_at, _SECTION, self._section_size, self._sections)
        if not self._names_at < len(sections):
            return None
        texts = sections[self._names_at]
        wanted = name.encode("ascii") + b"\0"
        for each in sections:
            if each[1] != _NO_BITS and self._text_is(texts[4] + each[0], wanted):
                return Section(each[3], each[4], each[5])
        return None

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes of the file; BadObjectError where it has not as many."""
        return self._bytes(offset, size)

    def code(self, address: int, most: int) -> bytes:
        """Return up to `most` bytes of code from a virtual address on."""
        offset = self.offset_of(address)
        return self._bytes(offset, min(most, self._size - offset))

    # --- what it is -----------------------------------------------------------------------------------------------

    def build_id(self) -> str | None:
        """Return the number that the linker gave the file, in hex; None where it gave none."""
        for note in self._notes:
            data = self._bytes(note.offset, min(note.size, 4096))
            at = 0
            while at + 12 <= len(data):
                name_size, size, kind = struct.unpack_from("<III", data, at)
                name = data[at + 12 : at + 12 + name_size]
                start = at + 12 + (name_size + 3) // 4 * 4
                if kind == _BUILD_ID and name == b"GNU\0" and 0 < size <= 64:
                    return data[start : start + size].hex()
                at = start + (size + 3) // 4 * 4
        return None

    def version(self, pattern: str) -> str | None:
        """Return the first group of the first match of a regular expression in the loaded parts of the file, or None.

        At most 64 MiB are looked at, and a match is at most 256 bytes long.
        """
        expression = re.compile(pattern.encode("ascii"))
        left = _MOST_TEXT
        for load in self._loads:
            size = max(min(load.size, left, self._size - load.offset), 0)
            for _, piece in self._pieces(load.offset, size, overlap=_LONGEST_NAME):
                match = expression.search(piece)
                if match:
                    return match[1].decode("ascii", "replace")
            left -= size
        return None

    def place(self, address: int, keeps: Keeps = Keeps.FIRST) -> Place:
        """Return where a probe on the function at `address` goes, for its entry and its return alike."""
        offset = self.offset_of(address)
        if self.machine != _X86_64:
            return Place(offset, cheap=False)
        code = self._bytes(offset, min(_CODE_BYTES, self._size - offset))
        skip = cheap_place(code, keeps)
        return Place(offset + (skip or 0), cheap=skip is not None)


class _GnuHash:
    """DT_GNU_HASH: a filter, buckets, and chains of hash values beside the symbols."""

    def __init__(self, elf: Elf, offset: int) -> None:
        self._read, self._at = elf._unpack, offset  # noqa: SLF001 - one module, one reader
        self._buckets, self._first, self._words, self._shift = self._read(struct.Struct("<IIII"), offset)
        if not self._buckets or not self._words:
            raise BadObjectError("a hash table without buckets")

    def candidates(self, name: bytes) -> Iterator[int]:
        number = 5381
        for byte in name:
            number = (number * 33 + byte) & 0xFFFFFFFF
        filters = self._at + 16
        (word,) = self._read(struct.Struct("<Q"), filters + number // 64 % self._words * 8)
        if not word >> number % 64 & word >> (number >> self._shift % 32) % 64 & 1:
            return
        buckets = filters + self._words * 8
        (index,) = self._read(_WORD, buckets + number % self._buckets * 4)
        chains = buckets + self._buckets * 4
        for _ in range(_MOST_CHAIN if index >= self._first else 0):
            (value,) = self._read(_WORD, chains + (index - self._first) * 4)
            if value | 1 == number | 1:
                yield index
            if value & 1:
                return
            index += 1


class _SysvHash:
    """DT_HASH: buckets and chains of symbols."""

    def __init__(self, elf: Elf, offset: int) -> None:
        self._read, self._at = elf._unpack, offset  # noqa: SLF001 - one module, one reader
        self._buckets, self._symbols = self._read(struct.Struct("<II"), offset)
        if not self._buckets:
            raise BadObjectError("a hash table without buckets")

    def candidates(self, name: bytes) -> Iterator[int]:
        number = 0
        for byte in name:
            number = (number << 4) + byte
            high = number & 0xF0000000
            number = (number ^ high >> 24) & ~high & 0xFFFFFFFF
        (index,) = self._read(_WORD, self._at + 8 + number % self._buckets * 4)
        for _ in range(_MOST_CHAIN):
            if not index or index >= self._symbols:
                return
            yield index
            (index,) = self._read(_WORD, self._at + 8 + (self._buckets + index) * 4)


_WORD = struct.Struct("<I")

_EMULATED = re.compile(
    rb"[\x50-\x57]|\x41[\x50-\x57]"  # push of a register
    rb"|\x90|\x66\x90|\x66?\x0f\x1f[\x00-\x07\x40-\x47\x80-\x87]"  # nop
    rb"|\xe8|\xe9|\xeb"  # call, jmp
    rb"|[\x70-\x7f]|\x0f[\x80-\x8f]",  # jump on a condition
    re.DOTALL,
)
"""Instructions that the kernel emulates: arch/x86/kernel/uprobes.c, branch_setup_xol_ops() and push_setup_xol_ops()."""

_ANYWAY = (
    rb"\xf3\x0f\x1e\xfa"  # endbr64
    rb"|[\x48-\x4f]?[\x84\x85][\xc0-\xff]"  # test of registers
    rb"|[\x48-\x4f]?[\x38-\x3b][\xc0-\xff]"  # cmp of registers
    rb"|\x48?\x83[\x78-\x7b\x7d-\x7f].."  # cmp of a member with a small number
    rb"|[\x31\x33](?:\xc0|\xc9|\xd2|\xdb|\xed|\xf6)"  # xor of a register with itself, but for the first argument
    rb"|\x45[\x31\x33](?:\xc0|\xc9|\xd2|\xdb|\xe4|\xed|\xf6|\xff)"
    rb"|\x48?\x89[\xc0-\xc3\xc5-\xc6\xc8-\xcb\xcd-\xce\xd0-\xd3\xd5-\xd6\xd8-\xdb\xdd-\xde]"  # mov
    rb"|\x48?\x89[\xe8-\xeb\xed-\xee\xf0-\xf3\xf5-\xf6\xf8-\xfb\xfd-\xfe]"
    rb"|\x49\x89[\xc0-\xc3\xc5-\xcb\xcd-\xd3\xd5-\xdb\xdd-\xdf\xe8-\xeb\xed-\xf3\xf5-\xfb\xfd-\xff]"
    rb"|[\xb8-\xbb\xbd\xbe]...."  # mov of a number into a register
)
_PASSED = re.compile(_ANYWAY, re.DOTALL)
"""Instructions that leave stack and first argument as they are: behind them a probe sees what it sees at the entry."""
_PASSED_WITHOUT_ARGUMENT = re.compile(
    _ANYWAY + rb"|[\x31\x33]\xff"  # xor of the first argument
    rb"|\x48?\x89[\xc7\xcf\xd7\xdf\xef\xf7]|\xbf...."  # mov into it
    rb"|[\x48\x4c]\x8b[\x40-\x43\x45-\x4b\x4d-\x53\x55-\x5b\x5d-\x5f\x68-\x6b\x6d-\x73\x75-\x7b\x7d-\x7f]."
    rb"|[\x48\x4c]\x8b[\x80-\x83\x85-\x8b\x8d-\x93\x95-\x9b\x9d-\x9f\xa8-\xab\xad-\xb3\xb5-\xbb\xbd-\xbf]...."
    rb"|[\x48\x4c]\x8b[\x00-\x03\x06-\x0b\x0e-\x13\x16-\x1b\x1e-\x1f\x28-\x2b\x2e-\x33\x36-\x3b\x3e-\x3f]"
    rb"|\x48\x8b[\x05\x0d\x15\x1d\x2d\x35\x3d]...."
    rb"|\x48\x09[\xc0-\xc3\xc5-\xcb\xcd-\xd3\xd5-\xdb\xdd-\xdf]",  # load of a member; or of registers
    re.DOTALL,
)
"""Those and others that leave the stack as it is."""


_PASSED_WITH_ALL = re.compile(
    rb"\xf3\x0f\x1e\xfa"  # endbr64
    rb"|[\x48-\x4f]?[\x84\x85][\xc0-\xff]"  # test of registers
    rb"|[\x48-\x4f]?[\x38-\x3b][\xc0-\xff]"  # cmp of registers
    rb"|\x48?\x83[\x78-\x7b\x7d-\x7f]..|\x48?\x83\x3f."  # cmp of a member with a small number
    rb"|[\x31\x33](?:\xc0|\xdb|\xed)"  # xor of rax, rbx, rbp with itself
    rb"|\x45[\x31\x33](?:\xd2|\xdb|\xe4|\xed|\xf6|\xff)",  # the same of r10 to r15
    re.DOTALL,
)
"""Instructions that leave the stack and all arguments as they are."""
_PASSED_OF_GO = re.compile(
    rb"\x49\x3b\x66."  # cmp of the stack pointer with the goroutine's limit
    rb"|\x4c\x8d\x64\x24.|\x4c\x8d\xa4\x24....|\x4d\x3b\x66."  # the same of where a large frame would end
    rb"|\x4c\x8b\x66.|\x49\x89\xe4|\x49\x81\xec....",
    re.DOTALL,
)
"""How a Go function begins: the arguments, the goroutine and the stack stay as they are."""
_PATTERNS = {
    Keeps.FIRST: _PASSED,
    Keeps.NOTHING: _PASSED_WITHOUT_ARGUMENT,
    Keeps.ALL: _PASSED_WITH_ALL,
    Keeps.GO: _PASSED_OF_GO,
}


def cheap_place(code: bytes, keeps: Keeps = Keeps.FIRST) -> int | None:
    """Return how many bytes behind the entry of an x86-64 function the first emulated instruction lies.

    None when something else comes before it: then only the entry itself will do.
    """
    pattern = _PATTERNS[keeps]
    at = 0
    while at < len(code):
        if _EMULATED.match(code, at):
            return at
        passed = pattern.match(code, at)
        if passed is None:
            return None
        at = passed.end()
    return None
