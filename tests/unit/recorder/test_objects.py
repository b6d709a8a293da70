# SPDX-License-Identifier: Apache-2.0
"""Files with TLS libraries in them, as this very process has them."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from netdiag.recorder.objects import Objects


@pytest.fixture(scope="module")
def libssl():
    lines = Path("/proc/self/maps").read_text().splitlines()
    paths = {line.split()[-1] for line in lines if "/libssl" in line}
    if not paths:
        pytest.skip(f"no libssl is mapped for {ssl.OPENSSL_VERSION}")
    return paths.pop()


def test_a_library_is_probed_where_its_functions_are(libssl):
    found = Objects().library((libssl,), libssl)
    assert found is not None
    assert found.table.library == "openssl"
    assert found.shakes
    ((entries, returns),) = found.sites.values()
    assert {site.cookie & 0xFF for site in entries} == {1, 2, 3, 4}
    assert {site.cookie & 0xFF for site in returns} == {1, 2, 3}  # an end has no return
    assert os.path.samestat(os.stat(found.attach_path), os.stat(libssl))  # noqa: PTH116


def test_plaintext_is_probed_where_it_was_asked_for(libssl):
    without, found = (
        Objects().library((libssl,), libssl),
        Objects(probes=frozenset({"ssl", "plain"})).library((libssl,), libssl),
    )
    assert without is not None
    assert found is not None
    assert (without.plaintext, set(without.sites)) == (None, {"ssl"})
    assert found.plaintext in {"symbols", "calls"}
    entries, returns = found.sites["plain"]
    assert {site.cookie & 0xFF for site in entries} >= {4, 5, 6}
    assert {site.cookie & 0xFF for site in returns} == {site.cookie & 0xFF for site in entries} - {4}
    assert {site.offset for site in returns} <= {site.offset for site in entries}


def test_an_open_program_is_taken_over(tmp_path):
    objects = Objects(probes=frozenset({"ssl", "plain"}))
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert objects.opened(os.open("/dev/null", os.O_RDONLY)) is None  # no file of a program
    assert objects.opened(os.open(tmp_path, os.O_RDONLY)) is None
    text = tmp_path / "script"
    text.write_text("#!/bin/sh\n")
    assert objects.opened(os.open(text, os.O_RDONLY)) is None
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_library_without_functions_to_probe_is_named(tmp_path):
    path = tmp_path / "libjvm.so"
    shutil.copy("/bin/sh", path)
    found = Objects().library((str(path),), str(path))
    assert found is not None
    assert (found.table.library, found.sites, found.is_sure) == ("java", {}, True)


def test_a_large_program_is_named_only_where_its_texts_say_so(tmp_path):
    data = Path("/bin/sh").read_bytes()
    for name, text in (("plain", b""), ("secure", b"/index/rustls-0.23.46/src/conn.rs")):
        path = tmp_path / name
        path.write_bytes(_with_text(data, text) + bytes(1 << 20))
        with path.open("rb") as file:
            found = Objects().opened(os.dup(file.fileno()))
        assert found is not None
        assert (found.table.library, found.is_sure) == ("rustls", bool(text))


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("lib/python3.11/site-packages/pyreqwest/_pyreqwest.cpython-311-x86_64-linux-gnu.so", True),
        ("usr/lib/python3/dist-packages/x/_native.abi3.so", True),
        ("app/node_modules/x/index.linux-x64-gnu.node", True),
        ("lib/librustls.so.0.14", True),
        ("lib/other.so", False),
    ],
)
def test_a_library_inside_a_module_is_named_where_the_texts_of_the_module_say_so(tmp_path, place, found):
    data = Path("/bin/sh").read_bytes()
    text = b"/index/rustls-0.23.46/src/conn.rs"
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    for content, sure in ((_with_text(data, text) + bytes(1 << 20), True), (data + bytes(1 << 20), False)):
        path.write_bytes(content)
        module = Objects().library((str(path),), str(path))
        assert (module is not None) is found
        if module is not None:
            assert (module.table.library, module.is_sure, module.sites) == ("rustls", sure, {})
    path.write_bytes(_with_text(data, text))  # too small to hold it
    assert Objects().library((str(path),), str(path)) is None


def test_a_module_beside_openssl_is_named_as_well(libssl):
    """What the process maps are both, and both have a row."""
    module = next(Path(".cache").glob("lab-venv/lib/python3*/site-packages/pyreqwest/_pyreqwest*.so"), None)
    if module is None:
        pytest.skip("needs the lab's client libraries: scripts/setup")
    objects = Objects()
    found = [objects.library((str(path),), str(path)) for path in (libssl, module.absolute())]
    assert [one.table.library for one in found if one is not None and one.is_sure] == ["openssl", "rustls"]


def _with_text(data, text):
    """Return a program with a text where it has a message of its own."""
    at = data.index(b"cannot") if b"cannot" in data else data.index(b"GLIBC_")
    return data[:at] + text + data[at + len(text) :]


def test_a_file_is_known_by_its_inode(libssl, tmp_path):
    objects = Objects()
    first = objects.library((libssl,), libssl)
    link = tmp_path / "libssl.so.3"
    link.symlink_to(libssl)
    assert objects.library((str(link),), str(link)) is first
    copy = tmp_path / "libssl-1.so.3"
    shutil.copy(libssl, copy)
    other = objects.library((str(copy),), str(copy))
    assert other is not None
    assert first is not None
    assert other is not first
    assert other.sites == first.sites
    assert other.path == str(copy)


def test_looking_again_opens_nothing_more(libssl):
    objects = Objects()
    objects.library((libssl,), libssl)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        objects.library((libssl,), libssl)
        objects.library(("/nowhere", sys.executable), sys.executable)
        objects.program(os.getpid())
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1


def test_the_second_place_is_tried_where_the_first_leads_nowhere(libssl):
    assert Objects().library(("/nowhere", libssl), libssl) is not None
    assert Objects().library(("/nowhere",), libssl) is None


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", b"\x7fELF" + bytes(200)])
def test_what_is_no_library_is_left_alone(tmp_path, content):
    path = tmp_path / "libssl.so.9"
    path.write_bytes(content)
    assert Objects().library((str(path),), str(path)) is None


def test_other_files_are_not_even_opened():
    assert Objects().library(("/dev/null",), "/usr/lib/libc.so.6") is None


@pytest.mark.skipif(not shutil.which("node"), reason="needs a program with the library inside")
def test_a_program_with_the_library_inside():
    with subprocess.Popen(["node", "-e", "setTimeout(() => 0, 20000)"]) as child:
        found = Objects().program(child.pid)
        child.kill()
    if found is None:
        pytest.skip("this build of node has it in a library of its own")
    assert (found.table.library, found.shakes) == ("openssl", True)


def test_a_program_without_one():
    with subprocess.Popen(["sleep", "20"]) as child:
        objects = Objects()
        assert objects.program(child.pid) is None
        assert not objects.loads_others(child.pid)
        child.kill()


def test_a_program_that_may_load_one():
    assert Objects().loads_others(os.getpid())


def test_a_process_that_is_gone():
    child = subprocess.Popen(["true"])
    child.wait()
    assert Objects().program(child.pid) is None
    assert not Objects().loads_others(child.pid)
    assert list(Objects().usual(child.pid)) == []


def test_the_version_is_what_the_library_says_itself():
    lines = Path("/proc/self/maps").read_text().splitlines()
    path = next((line.split()[-1] for line in lines if "/libcrypto" in line), None)
    if path is None:
        pytest.skip("no libcrypto is mapped")
    found = Objects().library((path,), path)
    assert found is not None
    assert found.find_version() == ssl.OPENSSL_VERSION.split()[1]


def test_without_a_version_there_is_the_build(libssl):
    found = Objects().library((libssl,), libssl)
    assert found is not None
    version = found.find_version()
    assert version is None or version.startswith("build ") or version == ssl.OPENSSL_VERSION.split()[1]


def test_that_a_file_was_left_out_for_others_is_remembered(monkeypatch, libssl, tmp_path):
    monkeypatch.setattr("netdiag.recorder.objects._MOST", 1)
    objects = Objects()
    other = shutil.copy(libssl, tmp_path / "libssl.so.3")
    assert objects.library((libssl,), libssl) is not None
    assert not objects.full
    assert objects.library((str(other),), str(other)) is None
    assert objects.full
    assert objects.library((libssl,), libssl) is not None  # it is known already


def test_what_may_not_be_opened_is_remembered(monkeypatch):
    def barred(*_):
        raise PermissionError

    objects = Objects()
    with monkeypatch.context() as patch:
        patch.setattr("os.open", barred)
        assert objects.library(("/x/libssl.so.3",), "/x/libssl.so.3") is None
    assert objects.denied == {"/x/libssl.so.3"}
