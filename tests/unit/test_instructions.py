# SPDX-License-Identifier: Apache-2.0
"""Lengths of instructions: examples of every format, a disassembler's word on real code, and bytes that are no code."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.instructions import NotCodeError, instructions


def one(text):
    (found,) = instructions(bytes.fromhex(text))
    return found


@pytest.mark.parametrize(
    "code",
    [
        "c3",  # ret
        "c2 08 00",  # ret 8
        "f3 0f 1e fa",  # endbr64
        "48 89 e5",  # mov rbp,rsp
        "48 83 ec 08",  # sub rsp,8
        "48 81 ec 00 01 00 00",  # sub rsp,256
        "48 b8 11 22 33 44 55 66 77 88",  # mov rax, a number of eight bytes
        "66 b8 11 22",  # mov ax
        "b8 11 22 33 44",  # mov eax
        "48 8b 05 11 22 33 44",  # mov rax,[rip+…]
        "8b 04 25 11 22 33 44",  # mov eax,[…]
        "48 8b 84 24 11 22 33 44",  # mov rax,[rsp+…]
        "64 48 8b 04 25 28 00 00 00",  # mov rax,fs:[0x28]
        "f6 c1 01",  # test cl,1
        "f6 d1",  # not cl
        "f7 c1 01 00 00 00",  # test ecx,1
        "66 f7 c1 01 00",  # test cx,1
        "f7 d9",  # neg ecx
        "c8 10 00 01",  # enter
        "a1 11 22 33 44 55 66 77 88",  # mov eax,[…]
        "0f 84 11 22 33 44",  # je
        "0f b6 c0",  # movzx
        "0f a2",  # cpuid
        "0f 05",  # syscall
        "66 0f 3a 0f c1 08",  # palignr
        "66 0f 38 00 c1",  # pshufb
        "0f 1f 84 00 00 00 00 00",  # nop
        "c5 f8 77",  # vzeroupper
        "c5 fd 6f 07",  # vmovdqa ymm0,[rdi]
        "c4 e3 7d 39 c1 01",  # vextracti128
        "c4 e2 f9 f7 c1",  # shlx
        "c5 f9 70 c0 0e",  # vpshufd
        "62 f1 fd 48 6f 07",  # vmovdqa64 zmm0,[rdi]
        "62 f3 fd 48 39 c1 01",  # vextracti64x4
        "69 c0 11 22 33 44",  # imul
        "6b c0 11",
        "c7 44 24 08 11 22 33 44",  # mov dword [rsp+8]
        "66 c7 44 24 08 11 22",  # mov word [rsp+8]
        "80 3d 11 22 33 44 00",  # cmp byte [rip+…],0
        "f0 48 0f b1 0f",  # lock cmpxchg
    ],
)
def test_each_is_one_instruction(code):
    assert one(code).length == len(bytes.fromhex(code))


@pytest.mark.parametrize(
    ("code", "target"),
    [("e8 10 00 00 00", 21), ("e9 fb ff ff ff", 0), ("eb fe", 0), ("74 02", 4), ("0f 85 00 01 00 00", 262)],
)
def test_where_calls_and_jumps_lead(code, target):
    found = one(code)
    assert found.target == target
    assert found.calls == code.startswith("e8")
    assert found.jumps != found.calls


def test_returns_are_not_bytes_that_look_like_one():
    code = bytes.fromhex("b8 c3 c3 c3 c3  48 8b 44 24 c3  c3  f3 c3")
    found = list(instructions(code))
    assert [each.at for each in found if each.returns] == [10, 11]


@pytest.mark.parametrize(
    "code", ["06", "0f 04", "e8 00 00", "48", "66 66", "8b 04", "c4 e2", "62 f1 7c", "ea 00 00 00 00 00 00"]
)
def test_what_is_none_is_refused(code):
    with pytest.raises(NotCodeError):
        list(instructions(bytes.fromhex(code)))


@pytest.mark.fuzz
@given(st.binary(max_size=200))
def test_any_bytes_end_or_are_refused(code):
    at = 0
    try:
        for each in instructions(code):
            assert each.at == at
            assert 1 <= each.length <= 15
            at += each.length
        assert at == len(code)
    except NotCodeError:
        pass


def test_a_disassembler_agrees_on_real_code():
    if shutil.which("objdump") is None:
        pytest.skip("needs objdump")
    lines = Path("/proc/self/maps").read_text().splitlines()
    library = next((line.split()[-1] for line in lines if "libssl" in line or "libcrypto" in line), sys.executable)
    said = subprocess.run(
        ["objdump", "-d", "-w", "--insn-width=16", library], capture_output=True, text=True, check=True
    ).stdout
    if "x86-64" not in said:
        pytest.skip("this is no x86-64 machine")
    compared = wrong = 0
    for code, text in re.findall(r"^ *[0-9a-f]+:\t([0-9a-f ]+?) *\t(.*)$", said, re.MULTILINE):
        if "(bad)" in text or re.fullmatch(r"rex\S*|\.byte.*|(?:cs |ds |es |ss |fs |gs |data16 )+", text.strip()):
            continue  # data between functions
        compared += 1
        try:
            wrong += next(instructions(bytes.fromhex(code))).length != len(bytes.fromhex(code))
        except NotCodeError:
            wrong += 1
        if compared == 60_000:
            break
    assert compared > 1000
    assert wrong <= compared / 1000
