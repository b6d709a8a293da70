# SPDX-License-Identifier: Apache-2.0
"""Look-ups in real libraries, and in mangled ones, which must raise nothing but the module's own error."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netdiag.symbols import BadObjectError, Elf, Keeps, Place, cheap_place

SOURCE = """
int exported_one(int a) { return a + 1; }
static __attribute__((noinline)) int hidden(int a) { return a * 3; }
int ex_exported_one(int a) { return hidden(a) + exported_one(a); }
int data_only = 5;
const char *version(void) { return "Library 12.34.5a built today"; }
"""


def compiled(folder, *flags):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("needs a C compiler")
    (folder / "x.c").write_text(SOURCE)
    path = folder / "x.so"
    subprocess.run([compiler, "-O1", "-fPIC", "-shared", *flags, "-o", path, folder / "x.c"], check=True)
    return path


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("elf"), "-Wl,--build-id=sha1")


@pytest.fixture
def opened(library):
    fd = os.open(library, os.O_RDONLY)
    yield Elf(fd)
    os.close(fd)


def listed(path, *flags):
    """Return what binutils says: name → address."""
    if shutil.which("nm") is None:
        pytest.skip("needs nm")
    lines = subprocess.check_output(["nm", *flags, str(path)], text=True).splitlines()
    found = (re.fullmatch(r"([0-9a-f]+) [Tt] (\w+)(?:@@?\S+)?", line) for line in lines)
    return {match[2]: int(match[1], 16) for match in found if match}


def test_exported_functions_are_where_nm_says(library, opened):
    known = listed(library, "-D")
    names = ["exported_one", "ex_exported_one", "version"]
    assert opened.exported(names) == {name: known[name] for name in names}


def test_what_is_not_there_is_left_out(opened):
    assert opened.exported(["hidden", "data_only", "missing", "one", ""]) == {}


def test_local_functions_come_from_the_symbol_table(library, opened):
    known = listed(library)
    names = ["hidden", "exported_one", "ex_exported_one"]
    assert opened.local(names) == {name: known[name] for name in names}
    assert opened.local(["data_only", "missing"]) == {}


def test_a_name_at_the_end_of_a_longer_one_is_found(library, opened):
    """The linker stores `exported_one` inside `ex_exported_one`: there is no zero byte in front of it."""
    data = library.read_bytes()
    assert b"ex_exported_one\0" in data
    assert opened.local(["exported_one"])["exported_one"] == listed(library)["exported_one"]


def test_a_stripped_library_has_no_local_functions(tmp_path):
    path = compiled(tmp_path, "-s")
    with path.open("rb") as file:
        elf = Elf(file.fileno())
        assert elf.local(["hidden", "exported_one"]) == {}
        assert elf.exported(["exported_one"]) == {"exported_one": listed(path, "-D")["exported_one"]}


def test_the_older_hash_table_is_read_as_well(tmp_path):
    path = compiled(tmp_path, "-Wl,--hash-style=sysv")
    with path.open("rb") as file:
        names = ["exported_one", "version", "missing"]
        known = listed(path, "-D")
        assert Elf(file.fileno()).exported(names) == {name: known[name] for name in names[:2]}


def test_build_id(library, opened):
    if shutil.which("readelf") is None:
        pytest.skip("needs readelf")
    told = subprocess.check_output(["readelf", "-n", str(library)], text=True)
    assert [opened.build_id()] == re.findall(r"Build ID: (\w+)", told)


def test_version_is_what_the_pattern_says(opened):
    assert opened.version(r"Library (\d+\.\d+\.\d+[a-z]?) ") == "12.34.5a"
    assert opened.version(r"Nothing (\d+)") is None


def test_what_it_needs(tmp_path):
    with compiled(tmp_path, "-Wl,--no-as-needed", "-lm").open("rb") as file:
        assert any(name.startswith("libm.") for name in Elf(file.fileno()).needed())


def test_names_that_it_uses_or_defines(opened):
    assert opened.mentions("exported_one")
    assert not opened.mentions("dlopen")


def test_a_place_is_an_offset_in_the_file(library, opened):
    address = opened.exported(["exported_one"])["exported_one"]
    place = opened.place(address)
    code = library.read_bytes()[opened.offset_of(address) :][:64]
    assert place.offset - opened.offset_of(address) == (cheap_place(code) or 0 if opened.machine == 62 else 0)


def test_other_processors_get_the_entry(library, tmp_path):
    data = bytearray(library.read_bytes())
    struct.pack_into("<H", data, 18, 183)
    (tmp_path / "arm").write_bytes(data)
    with (tmp_path / "arm").open("rb") as file:
        elf = Elf(file.fileno())
        address = elf.exported(["exported_one"])["exported_one"]
        assert elf.place(address) == Place(elf.offset_of(address), cheap=False)


@pytest.mark.parametrize(
    ("code", "place"),
    [
        ("55 48 89 e5", 0),  # push rbp
        ("41 57 41 56", 0),  # push r15
        ("f3 0f 1e fa 55", 4),  # endbr64; push
        ("f3 0f 1e fa 31 f6 e9 00 00 00 00", 6),  # endbr64; xor esi,esi; jmp
        ("48 85 ff 74 10", 3),  # test rdi,rdi; je
        ("0f 1f 44 00 00", 0),  # nop
        ("e8 00 00 00 00", 0),  # call
        ("48 83 ec 08 e8 00 00 00 00", None),  # sub rsp: the return address is elsewhere then
        ("31 ff e9 00 00 00 00", None),  # xor edi,edi: the argument is gone
        ("48 89 fa 31 f6 31 ff e9", None),
        ("48 8b 7f 28 e9 00 00 00 00", None),  # mov rdi,[rdi+0x28]
        ("c3", None),
        ("", None),
        ("f3 0f 1e fa", None),
    ],
)
def test_cheap_places(code, place):
    assert cheap_place(bytes.fromhex(code.replace(" ", ""))) == place


@given(st.binary(max_size=64))
def test_any_bytes_have_a_place_or_none(code):
    place = cheap_place(code)
    assert place is None or 0 <= place < len(code)


# --- mangled files ------------------------------------------------------------------------------------------------


def everything(data):
    """Ask all that there is to ask of a file with this content."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        elf = Elf(file.fileno())
        for ask in (
            lambda: [elf.place(address) for address in elf.exported(["exported_one", "missing", "version"]).values()],
            lambda: [elf.place(address) for address in elf.local(["hidden", "exported_one"]).values()],
            elf.build_id,
            elf.needed,
            lambda: elf.mentions("dlopen"),
            lambda: elf.version(r"Library (\d+\.\d+)"),
        ):
            try:
                ask()
            except BadObjectError:
                continue


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_mangled_library_raises_only_its_own_error(library, data):
    content = bytearray(library.read_bytes())
    interesting = _interesting(content)
    for _ in range(data.draw(st.integers(1, 12))):
        at = data.draw(st.one_of(st.sampled_from(interesting), st.integers(0, len(content) - 8)))
        value = data.draw(st.one_of(st.sampled_from([0, 1, 0xFF, 2**31, 2**63, 2**64 - 1]), st.integers(0, 2**64 - 1)))
        size = data.draw(st.sampled_from([1, 2, 4, 8]))
        content[at : at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
    cut = data.draw(st.one_of(st.none(), st.integers(0, len(content))))
    try:
        everything(bytes(content[:cut]))
    except BadObjectError:
        return


def _interesting(content):
    """Return offsets in the headers, where a wrong number does most."""
    segments, sections = struct.unpack_from("<QQ", content, 32)
    count, entry = struct.unpack_from("<H", content, 60)[0], 64
    dynamic = next(
        (
            struct.unpack_from("<Q", content, segments + 56 * number + 8)[0]
            for number in range(struct.unpack_from("<H", content, 56)[0])
            if struct.unpack_from("<I", content, segments + 56 * number)[0] == 2
        ),
        0,
    )
    ranges = (range(64), range(segments, segments + 56 * 8, 4), range(sections, sections + count * entry, 8))
    return [at for part in (*ranges, range(dynamic, dynamic + 400, 8)) for at in part if at < len(content) - 8]


@given(st.binary(max_size=200))
def test_any_bytes_are_no_library(data):
    for content in (data, b"\x7fELF\x02\x01" + data):
        try:
            everything(content)
        except BadObjectError:
            continue


def test_an_empty_file(tmp_path):
    (tmp_path / "empty").touch()
    with (tmp_path / "empty").open("rb") as file, pytest.raises(BadObjectError):
        Elf(file.fileno())


@pytest.mark.skipif(not shutil.which("node"), reason="needs a large program")
def test_a_large_program_is_searched_fast():
    """100 MB in some 40 ms of CPU time; the least of five, since the machine may be busy."""
    path = Path(shutil.which("node") or "node").resolve()
    names = ["SSL_do_handshake", "SSL_CTX_new", "missing_function"]
    times = []
    for _ in range(5):
        with path.open("rb") as file:
            began = os.times().user + os.times().system
            Elf(file.fileno()).local(names)
            times.append(os.times().user + os.times().system - began)
    assert min(times) < 0.3


@pytest.mark.parametrize(
    ("code", "place"),
    [
        ("48 89 fa 31 f6 31 ff e9 00 00 00 00", 7),  # mov rdx,rdi; xor esi,esi; xor edi,edi; jmp
        ("48 8b 7f 28 e9 00 00 00 00", 4),  # mov rdi,[rdi+0x28]; jmp
        ("48 89 f0 48 09 d0 74 58", 6),  # mov rax,rsi; or rax,rdx; je
        ("48 83 ec 08 e8 00 00 00 00", None),  # sub rsp
        ("48 89 e5 55", None),  # mov rbp,rsp
        ("48 8b 24 25 00 00 00 00 55", None),  # mov rsp,[0]
        ("5c 55", None),  # pop rsp
    ],
)
def test_cheap_places_of_probes_that_need_no_argument(code, place):
    assert cheap_place(bytes.fromhex(code.replace(" ", "")), Keeps.NOTHING) == place
