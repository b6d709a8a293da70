# SPDX-License-Identifier: Apache-2.0
"""Finds the nameless function that several exported ones call to do their work.

A library's plain and extended functions (`SSL_read`, `SSL_read_ex`) mostly pass on to one that they share. A probe
there counts each call once, and often stands on an instruction that the kernel emulates, where the others have none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from netdiag.instructions import NotCodeError, instructions
from netdiag.recorder.functions import Inner
from netdiag.symbols import Elf

__all__ = ["inner_function"]

_X86_64 = 62
_MOST_CODE = 512
_CALL, _JUMP = 0xE8, 0xE9
_NOTHING = re.compile(
    rb"\xf3\x0f\x1e\xfa"  # endbr64
    rb"|\x48\x83\xec.|[\x50-\x57]|\x41[\x50-\x57]"  # room on the stack
    rb"|\x49\x89\xc8|\x31\xc9|\x45\x31\xc0",  # the fourth argument becomes the fifth; the fourth, or fifth, is 0
    re.DOTALL,
)
_ENDS = (0xE9, 0xEB, 0x0F0B)
"""Jumps on no condition, and ud2."""


def inner_function(elf: Elf, inner: Inner, found: Mapping[str, int]) -> int | None:
    """Return the virtual address of the one function that all of `inner.of` call and none of `inner.not_of` does.

    The last of `inner.of` must hand it its own arguments as they came, or it may be any helper that they share. None
    where there is no such function, or a processor whose instructions are not read here.
    """
    if elf.machine != _X86_64 or any(name not in found for name in inner.of):
        return None
    passed_on = _passed_on(elf, found[inner.of[-1]])
    if passed_on is None:
        return None
    shared = {passed_on}.intersection(*(_called(elf, found[name]) for name in inner.of))
    for name in inner.not_of:
        if name not in found:
            return None
        shared -= _called(elf, found[name])
    return shared.pop() if len(shared) == 1 else None


def _passed_on(elf: Elf, address: int) -> int | None:
    """Return where a function leads that does nothing before; None where it does something."""
    code = elf.code(address, _MOST_CODE)
    try:
        for one in instructions(code):
            if one.target is not None and one.opcode in (_CALL, _JUMP):
                return address + one.target
            if not _NOTHING.fullmatch(code, one.at, one.at + one.length):
                return None
    except NotCodeError:
        pass
    return None


def _called(elf: Elf, address: int) -> set[int]:
    """Return where a function calls, or leads to at its end; reads up to what follows its last return."""
    code = elf.code(address, _MOST_CODE)
    targets: set[int] = set()
    reach = 0
    try:
        for one in instructions(code):
            if one.calls and one.target is not None:
                targets.add(address + one.target)
            elif one.jumps and one.target is not None:
                if 0 <= one.target < len(code) and abs(one.target - one.at) < _MOST_CODE:
                    reach = max(reach, one.target)
                if one.opcode == _JUMP and not 0 <= one.target < len(code):
                    targets.add(address + one.target)
            if (one.returns or one.opcode in _ENDS) and one.at + one.length > reach:
                break  # nothing before leads behind it
    except NotCodeError:
        pass
    return targets
