# SPDX-License-Identifier: Apache-2.0
"""The tables of functions: what is shipped agrees with the kernel program, and mistakes are named."""

from __future__ import annotations

import re

import pytest

from netdiag.assets import data_dir
from netdiag.errors import InputUnreadable
from netdiag.recorder.functions import FREE, HANDSHAKE, load, tables

GOOD = """
schema = 1
library = "openssl"
version = 'OpenSSL (\\d+)'
files = ["*/libssl.so.*"]
programs = ["node"]
inside = "OPENSSL_init_ssl"

[functions]
step = { kind = "handshake", works = "one" }
SSL_do_handshake = { kind = "handshake", works = "one", instead = "step" }
SSL_free = { kind = "free" }
"""


@pytest.fixture
def table(tmp_path):
    def written(text=GOOD):
        path = tmp_path / "x.toml"
        path.write_text(text)
        return load(path)

    return written


def test_every_shipped_table_has_what_a_handshake_needs():
    found = {table.library: table for table in tables() if table.probe == "ssl" and table.functions}
    assert set(found) == {"openssl", "boringssl", "gnutls"}
    for shipped in found.values():
        assert {HANDSHAKE, FREE, "context", "trust"} == {function.kind for function in shipped.functions}
        names = {function.name for function in shipped.functions}
        assert {f.instead for f in shipped.functions if f.instead} <= names


def test_numbers_are_those_of_the_kernel_program():
    folder = data_dir("bpf")
    header, source = (folder / "include/netdiag/event.h").read_text(), (folder / "ssl.bpf.c").read_text()
    numbers = {name: int(value) for name, value in re.findall(r"\b(ND_TLS_\w+|RETURNS_\w+) = (\d+)", header + source)}
    for shipped in (table for table in tables() if table.probe == "ssl"):
        for function in shipped.functions:
            kind, library, works = (function.cookie >> shift & 0xFF for shift in (0, 8, 16))
            assert kind == numbers[f"ND_TLS_CALL_{function.kind.upper()}"]
            assert library == numbers[f"ND_TLS_{shipped.library.upper()}"]
            assert (works == 0) == (function.kind == FREE)
            assert works in {0, *(value for name, value in numbers.items() if name.startswith("RETURNS_"))}


def test_numbers_of_plaintext_are_those_of_its_kernel_program():
    folder = data_dir("bpf")
    header, source = (folder / "include/netdiag/event.h").read_text(), (folder / "plain.bpf.c").read_text()
    numbers = {name: int(value) for name, value in re.findall(r"\b([A-Z_]+) = (\d+)", header + source)}
    kinds = {"file": "SEND_FILE"}
    moves = {numbers[name] for name in ("RETURNS_INT", "RETURNS_LONG", "FOURTH", "LAST")}
    for shipped in (table for table in tables() if table.plain):
        for function in (*shipped.plain, *(inner.function for inner in shipped.inner)):
            kind, library, how = (function.cookie >> shift & 0xFF for shift in (0, 8, 16))
            assert kind == numbers[kinds.get(function.kind, function.kind.upper().replace("-", "_"))]
            assert library == numbers[f"ND_TLS_{shipped.library.upper()}"]
            assert (how in moves) == function.returns
            if function.return_cookie is not None:
                assert function.return_cookie & 0xFF == numbers[f"GO_{function.kind[3:].upper()}_RETURN"]


def test_functions_that_only_look_are_never_probed():
    for shipped in tables():
        assert not [function.name for function in shipped.plain if "peek" in function.name]
        for inner in shipped.inner:
            assert any("peek" in name for name in inner.not_of)


def test_one_function_stands_in_for_another_only_where_that_is_missing(table):
    chosen = table().chosen
    assert [function.name for function in chosen({"step", "SSL_do_handshake"})] == ["step"]
    assert [function.name for function in chosen({"SSL_do_handshake", "SSL_free"})] == ["SSL_do_handshake", "SSL_free"]
    assert chosen(set()) == []


@pytest.mark.parametrize(
    ("path", "library"),
    [
        ("/usr/lib/x86_64-linux-gnu/libssl.so.3", "openssl"),
        ("/opt/venv/lib/python3.11/site-packages/pycurl.libs/libssl-0a1b2c3d.so.3", "openssl"),
        ("/usr/lib64/libssl.so.1.1", "openssl"),
        ("/usr/lib/libcrypto.so.3", "openssl"),
        ("/usr/lib/x86_64-linux-gnu/libgnutls.so.30.34.3", "gnutls"),
        ("/usr/lib/x86_64-linux-gnu/libssl3.so", None),  # of NSS
        ("/usr/lib/libc.so.6", "libc"),
        ("/lib/ld-musl-x86_64.so.1", "libc"),
        ("/usr/lib/libcrypt.so.1", None),
    ],
)
def test_which_files_are_which_library(path, library):
    assert [each.library for each in tables() if each.is_file(path)] == ([library] if library else [])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("schema = 1", "schema = 2"),
        ('library = "openssl"', 'library = "nss"'),
        ('library = "openssl"', ""),
        ("OpenSSL (", "OpenSSL (("),
        ("[functions]", "strange = 1\n[functions]"),
        ('kind = "free"', 'kind = "other"'),
        ('kind = "free"', 'kind = "free", more = 1'),
        (', works = "one" }', " }"),
        ("[functions]", "functions = 3"),
        ("schema = 1", "schema = "),
    ],
)
def test_mistakes_are_named_with_the_file(table, old, new):
    with pytest.raises(InputUnreadable, match=r"x\.toml"):
        table(GOOD.replace(old, new))


def test_numbers_of_lookups_are_those_of_the_kernel_program():
    folder = data_dir("bpf")
    header, source = (
        (folder / "include/netdiag/dns.h").read_text(),
        (folder / "include/netdiag/name_calls.h").read_text(),
    )
    numbers = {
        name: int(value) for name, value in re.findall(r"\b(ND_LOOKUP_\w+|RETURNS_\w+) = (\d+)", header + source)
    }
    (libc,) = [table for table in tables() if table.probe == "dns"]
    for function in libc.functions:
        assert function.cookie & 0xFF == numbers[f"ND_LOOKUP_{function.kind.upper()}"]
        assert function.cookie >> 16 & 0xFF in {value for name, value in numbers.items() if name.startswith("RETURNS_")}
