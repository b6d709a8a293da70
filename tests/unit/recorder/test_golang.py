# SPDX-License-Identifier: Apache-2.0
"""Functions of Go programs by the runtime's own table, and where they return, compared with Go's own tools."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.recorder import golang
from netdiag.recorder.golang import Span
from netdiag.symbols import BadObjectError, Elf

SOURCE = """
package main
import ("crypto/tls"; "fmt"; "os")
func main() {
	c, err := tls.Dial("tcp", os.Args[1], nil)
	if err == nil { c.Write([]byte("x")); b := make([]byte, 9); n, _ := c.Read(b); fmt.Println(b[:n]); c.Close() }
}
"""
NAMES = ("crypto/tls.(*Conn).Read", "crypto/tls.(*Conn).Write", "crypto/tls.(*Conn).Close", "main.main", "main.no")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    if shutil.which("go") is None:
        pytest.skip("needs the Go compiler")
    folder = tmp_path_factory.mktemp("go")
    (folder / "p.go").write_text(SOURCE)

    def built(*flags):
        out = folder / f"p{len(flags)}"
        if not out.exists():
            env = {**os.environ, "GO111MODULE": "off"}
            subprocess.run(["go", "build", *flags, "-o", out, folder / "p.go"], check=True, env=env)
        return out

    return built


def look(path, names=NAMES):
    with path.open("rb") as file:
        return golang.functions(Elf(file.fileno()), names)


def test_functions_are_where_the_symbols_are(program):
    path = program()
    lines = subprocess.run(["go", "tool", "nm", path], capture_output=True, text=True, check=True).stdout.splitlines()
    told = {line.split()[2]: int(line.split()[0], 16) for line in lines if len(line.split()) == 3}
    found = look(path)
    assert set(found) == set(NAMES[:-1])
    for name, span in found.items():
        assert told[name] == span.start
        assert span.end in told.values()


def test_returns_are_those_of_the_disassembler(program):
    path = program()
    with path.open("rb") as file:
        elf = Elf(file.fileno())
        for name, span in golang.functions(elf, NAMES).items():
            argv = ["go", "tool", "objdump", "-s", f"^{re.escape(name)}$", path]
            said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
            assert golang.returns(elf, span) == [int(at, 16) for at in re.findall(r"(0x\w+)\t+\w+\t+RET", said)]


@pytest.mark.parametrize("flags", [("-ldflags=-s -w",), ("-buildmode=pie", "-ldflags=-s -w")])
def test_a_stripped_program_tells_as_much(program, flags):
    found = look(program(*flags))
    assert set(found) == set(NAMES[:-1])
    assert {span.end - span.start for span in found.values()} == {s.end - s.start for s in look(program()).values()}


def test_another_program_has_none():
    with open("/bin/sh", "rb") as file:  # noqa: PTH123 - a descriptor is needed
        assert golang.functions(Elf(file.fileno()), NAMES) == {}


class Code(Elf):
    """A file that is all code."""

    def __init__(self, code, machine=62):
        self._code, self.machine = bytes.fromhex(code), machine

    def code(self, _address, size):
        return self._code[:size]


@pytest.mark.parametrize(
    "code",
    [
        "eb 01 b8 c3 00 00 00 c3",  # a jump into the mov
        "06 c3",  # no instruction
        "b8 11",  # cut
    ],
)
def test_code_that_cannot_be_read_from_end_to_end_is_not_probed(code):
    with pytest.raises(BadObjectError):
        golang.returns(Code(code), Span(0, len(bytes.fromhex(code))))


def test_returns_of_the_other_processor():
    assert golang.returns(Code("1f2003d5 c0035fd6 1f2003d5 c0035fd6", machine=183), Span(0x100, 0x110)) == [
        0x104,
        0x10C,
    ]


@pytest.mark.fuzz
@given(st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=30))
def test_a_mangled_table_is_read_in_bounded_time_or_refused(program, tmp_path_factory, changes):
    path = program("-ldflags=-s -w")
    with path.open("rb") as file:
        section = Elf(file.fileno()).section(".gopclntab")
    assert section is not None
    data = bytearray(path.read_bytes())
    for share, value in changes:
        data[section.offset + int(share**4 * section.size)] = value  # the head more often than the rest
    mangled = tmp_path_factory.mktemp("mangled") / "p"
    mangled.write_bytes(data)
    with contextlib.suppress(BadObjectError):
        look(mangled)
    mangled.unlink()
