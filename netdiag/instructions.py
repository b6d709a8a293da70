# SPDX-License-Identifier: Apache-2.0
"""How long the instructions of a piece of x86-64 code are, and where they lead: enough to find returns and calls.

Knows the lengths of all instructions of 64-bit mode up to AVX-512 and refuses what is none: Intel's manual, volume 2,
chapter 2 (formats) and appendix A (opcode maps). Nothing is executed, and all work is bounded by the code's length.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Instruction", "NotCodeError", "instructions"]


class NotCodeError(ValueError):
    """Bytes that are no instruction of 64-bit mode, or a cut one."""


class Instruction(NamedTuple):
    """One instruction."""

    at: int
    """Bytes from the start of the code."""
    length: int
    opcode: int
    """One byte; of a two-byte opcode 0x0f00 and the second. -1 for longer ones."""
    target: int | None
    """Where a direct call or jump leads, from the start of the code; None for other instructions."""

    @property
    def returns(self) -> bool:
        """Tell whether it is a near return."""
        return self.opcode in (0xC2, 0xC3)

    @property
    def calls(self) -> bool:
        """Tell whether it is a direct call."""
        return self.opcode == 0xE8

    @property
    def jumps(self) -> bool:
        """Tell whether it is a direct jump, on a condition or not."""
        return self.target is not None and self.opcode != 0xE8


def _set(*ranges: int | tuple[int, int]) -> frozenset[int]:
    found: set[int] = set()
    for each in ranges:
        found.update((each,) if isinstance(each, int) else range(each[0], each[1] + 1))
    return frozenset(found)


_PREFIXES = _set(0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x66, 0x67, 0xF0, 0xF2, 0xF3)
_ARITHMETIC = tuple(range(0x00, 0x40, 8))
_MODRM = _set(
    *((base, base + 3) for base in _ARITHMETIC), 0x63, 0x69, 0x6B, (0x80, 0x81), (0x83, 0x8F), 0xC0, 0xC1, 0xC6, 0xC7,
    (0xD0, 0xD3), (0xD8, 0xDF), 0xF6, 0xF7, 0xFE, 0xFF,
)  # fmt: skip
_BYTE = _set(
    *(base + 4 for base in _ARITHMETIC), 0x6A, 0x6B, (0x70, 0x7F), 0x80, 0x83, 0xA8, (0xB0, 0xB7), 0xC0, 0xC1, 0xC6,
    0xCD, (0xE0, 0xE7), 0xEB,
)  # fmt: skip
_WORD = _set(*(base + 5 for base in _ARITHMETIC), 0x68, 0x69, 0x81, 0xA9, (0xB8, 0xBF), 0xC7, 0xE8, 0xE9)
"""An operand of four bytes, or two with the prefix 0x66, which the processors of AMD and Intel read apart for jumps."""
_PLAIN = _set(
    (0x50, 0x5F), (0x6C, 0x6F), (0x90, 0x99), (0x9B, 0x9F), (0xA4, 0xA7), (0xAA, 0xAF), 0xC3, 0xC9, 0xCB, 0xCC, 0xCF,
    0xD7, (0xEC, 0xEF), 0xF1, 0xF4, 0xF5, (0xF8, 0xFD),
)  # fmt: skip
_TWO_PLAIN = _set((0x05, 0x09), 0x0B, 0x0E, (0x30, 0x35), 0x37, 0x77, (0xA0, 0xA2), (0xA8, 0xAA), (0xC8, 0xCF))
_TWO_BYTE = _set((0x70, 0x73), 0xA4, 0xAC, 0xBA, 0xC2, (0xC4, 0xC6))
_TWO_NONE = _set(0x04, 0x0A, 0x0C, 0x0F, (0x24, 0x27), 0x36, 0x39, (0x3B, 0x3F))
_JUMPS = _set((0x70, 0x7F), (0xE0, 0xE3), 0xE8, 0xE9, 0xEB)


def instructions(code: bytes, start: int = 0) -> Iterator[Instruction]:
    """Yield the instructions one after another up to the end of the code; NotCodeError where one can't be read."""
    at = start
    while at < len(code):
        one = _read(code, at)
        yield one
        at += one.length


def _read(code: bytes, start: int) -> Instruction:
    try:
        return _decoded(code, start)
    except IndexError as error:
        raise NotCodeError(f"the instruction at {start} is cut") from error


def _decoded(code: bytes, start: int) -> Instruction:
    at = start
    short = False
    while code[at] in _PREFIXES:
        short = short or code[at] == 0x66
        at += 1
    wide = False
    if code[at] & 0xF0 == 0x40:
        wide = bool(code[at] & 8)
        at += 1
    first = code[at]
    if first in (0xC4, 0xC5, 0x62):
        return _instruction(code, start, _vector(code, at), -1, 0)
    if first == 0x0F:
        return _two(code, start, at + 1)
    at += 1
    end = at + (_modrm(code, at) if first in _MODRM else 0)
    size = _operand(code, at, first, short=short, wide=wide)
    if first not in _MODRM and not size and first not in _PLAIN:
        raise NotCodeError(f"{first:#04x} at {start} begins no instruction")
    return _instruction(code, start, end + size, first, size if first in _JUMPS else 0)


def _operand(code: bytes, at: int, opcode: int, *, short: bool, wide: bool) -> int:
    """Return the size of the operand that stands in the instruction itself."""
    word = 2 if short and not wide else 4
    if opcode in (0xF6, 0xF7):
        return 0 if code[at] & 0x30 else (1 if opcode == 0xF6 else word)
    if 0xB8 <= opcode <= 0xBF and wide:
        return 8
    if opcode in (0xE8, 0xE9):
        return 4
    if opcode in _WORD:
        return word
    if opcode in _BYTE:
        return 1
    return {0xC2: 2, 0xCA: 2, 0xC8: 3, 0xA0: 8, 0xA1: 8, 0xA2: 8, 0xA3: 8}.get(opcode, 0)


def _two(code: bytes, start: int, at: int) -> Instruction:
    """Read an instruction whose opcode begins with 0x0f."""
    second = code[at]
    if second in (0x38, 0x3A):
        end = at + 2 + _modrm(code, at + 2) + (second == 0x3A)
        return _instruction(code, start, end, -1, 0)
    if second in _TWO_NONE:
        raise NotCodeError(f"0x0f {second:#04x} at {start} begins no instruction")
    at += 1
    opcode = 0x0F00 | second
    if 0x80 <= second <= 0x8F:
        return _instruction(code, start, at + 4, opcode, 4)
    if second in _TWO_PLAIN:
        return _instruction(code, start, at, opcode, 0)
    return _instruction(code, start, at + _modrm(code, at) + (second in _TWO_BYTE), opcode, 0)


def _vector(code: bytes, at: int) -> int:
    """Return where an instruction with a VEX or EVEX prefix ends."""
    if code[at] == 0xC5:
        which, at = 1, at + 2
    elif code[at] == 0xC4:
        which, at = code[at + 1] & 0x1F, at + 3
    else:
        which, at = code[at + 1] & 7, at + 4
    opcode = code[at]
    at += 1
    if which not in (1, 2, 3, 5, 6):
        raise NotCodeError(f"a vector instruction of map {which}")
    if which == 1 and opcode == 0x77:
        return at
    return at + _modrm(code, at) + (which == 3 or (which == 1 and opcode in _TWO_BYTE))


def _modrm(code: bytes, at: int) -> int:
    """Return the size of the byte that names the operands and of what belongs to it."""
    byte = code[at]
    mode, register = byte >> 6, byte & 7
    if mode == 3:
        return 1
    size = 1
    if register == 4:
        size += 1
        if mode == 0 and code[at + 1] & 7 == 5:
            size += 4
    elif mode == 0 and register == 5:
        size += 4
    return size + (0, 1, 4)[mode]


def _instruction(code: bytes, start: int, end: int, opcode: int, relative: int) -> Instruction:
    if end > len(code) or end - start > 15:
        raise NotCodeError(f"the instruction at {start} is cut, or too long")
    target = end + int.from_bytes(code[end - relative : end], "little", signed=True) if relative else None
    return Instruction(start, end - start, opcode, target)
