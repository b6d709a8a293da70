# SPDX-License-Identifier: Apache-2.0
"""Layouts come from BTF: of a compiled object where clang is there, of blobs made by hand elsewhere."""

from __future__ import annotations

import contextlib
import shutil
import struct
import subprocess

import hypothesis
import hypothesis.strategies as st
import pytest

from netdiag.assets import data_dir
from netdiag.btf import enums, structs
from netdiag.errors import InputUnreadable
from netdiag.recording.format import FieldKind
from netdiag.testing import struct_layout

CLANG = next((found for name in ("clang", "clang-19", "clang-16", "clang-14") if (found := shutil.which(name))), None)
INT, ARRAY, STRUCT, ENUM, TYPEDEF, CONST, PTR = 1, 3, 4, 6, 8, 10, 2


class Blob:
    """Writes BTF, type by type."""

    def __init__(self):
        self.strings, self.types = b"\0", b""

    def name(self, text):
        at = len(self.strings) if text else 0
        self.strings += text.encode() + b"\0" if text else b""
        return at

    def add(self, name, kind, ref, tail=b"", count=0, flag=0):
        self.types += struct.pack("<III", self.name(name), kind << 24 | count | flag << 31, ref) + tail
        return self

    def member(self, name, type_id, bits):
        return struct.pack("<III", self.name(name), type_id, bits)

    def to_bytes(self):
        size = len(self.types)
        return struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, size, size, len(self.strings)) + self.types + self.strings


def integer(blob, name, size, signed=0):
    return blob.add(name, INT, size, struct.pack("<I", signed << 24 | size * 8))


def sample():
    blob = integer(Blob(), "unsigned int", 4)  # 1
    integer(blob, "int", 4, signed=1)  # 2
    integer(blob, "char", 1, signed=1)  # 3
    blob.add("nd_pid", TYPEDEF, 1).add("", CONST, 4)  # 4, 5
    blob.add("", ARRAY, 0, struct.pack("<III", 3, 1, 16))  # 6
    blob.add("", ARRAY, 0, struct.pack("<III", 1, 1, 2))  # 7
    members = [("text", 6, 64), ("pid", 5, 0), ("error", 2, 32), ("pair", 7, 192)]
    tail = b"".join(blob.member(*each) for each in members)
    blob.add("x_event", STRUCT, 32, tail, count=4)
    return blob


def test_members_have_the_name_of_their_typedef_and_their_kind():
    layout = structs(sample().to_bytes(), ["x_event"])["x_event"]
    assert layout.size == 32
    assert [(f.name, f.type, f.offset, f.size, f.kind) for f in layout.fields] == [
        ("pid", "nd_pid", 0, 4, FieldKind.UINT),
        ("error", "int", 4, 4, FieldKind.INT),
        ("text", "char", 8, 16, FieldKind.CHAR),
        ("pair", "unsigned int", 24, 8, FieldKind.BYTES),
    ]


def test_a_ring_record_has_its_header_in_front():
    stream = structs(sample().to_bytes(), ["x_event"])["x_event"].in_ring(stream=7, name="x")
    assert (stream.stream, stream.name, stream.struct, stream.offset, stream.stride) == (7, "x", "x_event", 8, 40)


@pytest.mark.parametrize(("flag", "values"), [(0, {"A": 0, "B": 0xFFFFFFFF}), (1, {"A": 0, "B": -1})])
def test_enumerators_are_signed_as_the_flag_says(flag, values):
    blob = Blob()
    tail = b"".join(struct.pack("<II", blob.name(name), value & 0xFFFFFFFF) for name, value in values.items())
    assert enums(blob.add("e", ENUM, 4, tail, count=2, flag=flag).to_bytes(), ["e"])["e"] == values


def pointer_member(blob):
    blob.add("", PTR, 1)
    return blob.add("bad", STRUCT, 8, blob.member("p", 9, 0), count=1)


def bit_field(blob):
    return blob.add("bad", STRUCT, 4, blob.member("b", 1, 3 << 24), count=1, flag=1)


def endless_alias(blob):
    return blob.add("loop", TYPEDEF, 9).add("bad", STRUCT, 4, blob.member("l", 9, 0), count=1)


@pytest.mark.parametrize(
    ("spoil", "word"),
    [(pointer_member, "no record may hold"), (bit_field, "bit-field"), (endless_alias, "aliases without end")],
)
def test_what_no_record_may_hold_is_refused(spoil, word):
    with pytest.raises(InputUnreadable, match=word):
        structs(spoil(sample()).to_bytes(), ["bad"])


def test_a_struct_that_nothing_refers_to_is_explained():
    with pytest.raises(InputUnreadable, match="clang left it out"):
        structs(sample().to_bytes(), ["tcp_event"])


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"\x7fELF\x01\x01" + bytes(80), b"GIF89a", b"\x9f\xeb\1"])
def test_other_files_are_refused(data):
    with pytest.raises(InputUnreadable):
        structs(data, ["tcp_event"])


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputUnreadable, match=r"none\.bpf\.o"):
        structs(tmp_path / "none.bpf.o", ["tcp_event"])


@pytest.mark.fuzz
@hypothesis.given(st.integers(0, 400), st.integers(1, 255))
def test_a_mangled_blob_gives_a_layout_or_a_plain_refusal(at, flip):
    data = bytearray(sample().to_bytes())
    data[at % len(data)] ^= flip
    with contextlib.suppress(InputUnreadable):
        structs(bytes(data), ["x_event"])


@pytest.fixture(scope="session")
def objects(tmp_path_factory):
    """Compile every struct of the header into one object."""
    if CLANG is None:
        pytest.skip("needs clang")
    folder = tmp_path_factory.mktemp("btf")
    names = ("tcp_event", "tcp_io_event", "process_event")
    source = '#include "netdiag/event.h"\n' + "".join(f"struct {name} keep_{name};\n" for name in names)
    (folder / "all.bpf.c").write_text(source + "enum nd_role keep_role;\n")
    include = ["-I", str(data_dir("bpf") / "include")]
    command = [CLANG, "-target", "bpf", "-g", "-O2", *include, "-c", "all.bpf.c", "-o", "all.bpf.o"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "all.bpf.o"


@pytest.mark.parametrize("name", ["tcp_event", "tcp_io_event", "process_event"])
def test_the_compilers_layout_is_that_of_the_header(objects, name):
    assert structs(objects, [name])[name] == struct_layout(name)


def test_enums_of_an_object(objects):
    assert enums(objects, ["nd_role"])["nd_role"] == {"ND_ROLE_UNKNOWN": 0, "ND_ROLE_CLIENT": 1, "ND_ROLE_SERVER": 2}
