# SPDX-License-Identifier: Apache-2.0
"""The nameless function behind exported ones: followed only where it gets their own arguments."""

from __future__ import annotations

import pytest

from netdiag.recorder.functions import Function, Inner
from netdiag.recorder.inner import inner_function
from netdiag.symbols import Elf

READ = Inner(function=Function(name="", kind="read", cookie=5), of=("read", "read_ex"), not_of=("peek",))


class Code(Elf):
    """A file with functions every 0x100 bytes; a shared one lies at 0x1000, others behind it."""

    machine = 62

    def __init__(self, **functions):
        self.found = {name: 0x100 * (index + 1) for index, name in enumerate(functions)}
        self._code = dict(zip(self.found.values(), functions.values(), strict=True))

    def code(self, address, most):
        return (self._code[address](address) + b"\xc3").ljust(0x100, b"\xcc")[:most]


def calls(*targets, before="48 83 ec 08", jump=False):
    def made(address):
        code = bytes.fromhex(before)
        for target in targets:
            code += (b"\xe9" if jump else b"\xe8") + (target - (address + len(code) + 5)).to_bytes(
                4, "little", signed=True
            )
        return code + b"\x48\x83\xc4\x08"

    return made


def look(**functions):
    elf = Code(**functions)
    return inner_function(elf, READ, elf.found)


def test_it_is_what_both_call_and_the_other_does_not():
    found = look(
        read=calls(0x1000, 0x2000, before="85 d2 48 83 ec 18"), read_ex=calls(0x1000), peek=calls(0x2000, 0x3000)
    )
    assert found == 0x1000


def test_a_jump_leads_there_as_well():
    assert (
        look(read=calls(0x1000), read_ex=calls(0x1000, before="f3 0f 1e fa", jump=True), peek=calls(0x3000)) == 0x1000
    )


@pytest.mark.parametrize(
    "functions",
    [
        {"read": calls(0x1000), "read_ex": calls(0x1000), "peek": calls(0x1000)},  # a helper of all
        {"read": calls(0x1000), "read_ex": calls(0x2000), "peek": calls(0x3000)},  # nothing in common
        {"read": calls(0x1000), "read_ex": calls(0x1000)},  # who knows whether peek calls it
        {"read": calls(0x1000), "peek": calls(0x3000)},
        # a helper that both call with arguments of its own: xor esi,esi
        {"read": calls(0x1000), "read_ex": calls(0x1000, before="31 f6"), "peek": calls(0x3000)},
        {"read": calls(0x1000), "read_ex": lambda _: b"\x06", "peek": calls(0x3000)},
    ],
)
def test_a_doubt_leaves_the_exported_functions(functions):
    assert look(**functions) is None


def test_other_processors_are_not_read():
    elf = Code(read=calls(0x1000), read_ex=calls(0x1000), peek=calls(0x3000))
    elf.machine = 183
    assert inner_function(elf, READ, elf.found) is None
