# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.errors import InputUnreadable
from netdiag.libraries import detect, load

SITE = "/home/u/venv/lib/python3.11/site-packages"
FOLDERS = {
    "/home/u/venv/lib": ["python3.11"],
    SITE: [
        "requests-2.34.2.dist-info", "httpx-0.28.1.dist-info", "aiohttp-3.14.5.dist-info", "openai-3.57.0.dist-info",
        "urllib3-2.8.0.dist-info", "charset_normalizer-3.5.3.dist-info", "requests", "pip",
    ],
    f"{SITE}/charset_normalizer": ["md.cpython-311-x86_64-linux-gnu.so"],
    f"{SITE}/aiohttp": ["_http_parser.cpython-311-x86_64-linux-gnu.so"],
    f"{SITE}/jiter": ["jiter.cpython-311-x86_64-linux-gnu.so"],
}  # fmt: skip
PYTHON = "/usr/bin/python3.11"


def look(*mapped, exe=PYTHON, invoked="/home/u/venv/bin/python", folders=FOLDERS, head=b""):
    found = detect(exe, mapped, lambda folder: folders.get(folder, ()), invoked=invoked, head=head)
    return [(library.name, library.version, library.certain) for library in found]


def test_a_mapped_file_proves_the_library_and_hides_what_it_brings_along():
    mapped = f"{SITE}/charset_normalizer/md.cpython-311-x86_64-linux-gnu.so"
    assert look(mapped) == [("requests", "2.34.2", True), ("httpx", "0.28.1", False)]


def test_openai_brings_httpx_and_aiohttp():
    mapped = (
        f"{SITE}/jiter/jiter.cpython-311-x86_64-linux-gnu.so",
        f"{SITE}/aiohttp/_http_parser.cpython-311-x86_64-linux-gnu.so",
    )
    assert look(*mapped) == [("openai", "3.57.0", True)]


def test_installed_libraries_that_would_be_mapped_are_not_loaded():
    assert look() == [("httpx", "0.28.1", False), ("urllib3", "2.8.0", False)]


def test_a_library_built_without_compiled_files_may_be_loaded():
    folders = FOLDERS | {f"{SITE}/charset_normalizer": ["md.py"]}
    assert ("requests", "2.34.2", False) in look(folders=folders)


def test_a_python_started_by_name_alone_is_looked_up_beside_the_executable():
    assert look(exe="/home/u/venv/bin/python3", invoked="python3")[0] == ("httpx", "0.28.1", False)


@pytest.mark.parametrize(
    "invoked", ["../bin/python", "/home/u/venv/bin/../bin/python", "/home/u/venv/bin/gunicorn", None]
)
def test_paths_that_lead_elsewhere_are_not_followed(invoked):
    assert look(invoked=invoked) == []


@pytest.mark.parametrize(
    ("exe", "mapped", "head", "name"),
    [
        ("/usr/bin/node", "/usr/bin/node", b"", "node"),
        ("/usr/lib/jvm/java-17/bin/java", "/usr/lib/jvm/java-17/lib/server/libjvm.so", b"", "java"),
        ("/usr/bin/curl", "/usr/lib/x86_64-linux-gnu/libcurl.so.4.8.0", b"", "curl"),
        ("/opt/app", "/usr/lib/x86_64-linux-gnu/libcurl.so.4.8.0", b"", "curl"),
        ("/opt/app", "/opt/app", b"\x7fELF..\x04\x00\x00\x00Go\x00\x00wnWST0", "go"),
    ],
)
def test_programs_that_are_not_python(exe, mapped, head, name):
    assert look(mapped, exe=exe, invoked=exe, head=head) == [(name, None, True)]


def test_a_program_of_its_own_kind():
    assert look("/opt/app", exe="/opt/app", invoked="/opt/app", head=b"\x7fELF") == []


def test_it_reads_no_more_than_it_must():
    asked = []

    def endless(folder):
        asked.append(folder)
        return (f"x-{number}.dist-info" for number in iter(int, 1))

    assert detect(PYTHON, [f"/p{number}/site-packages/a.so" for number in range(50)], endless) == []
    assert len(asked) < 10


@pytest.mark.fuzz
@given(st.text(), st.lists(st.text()), st.lists(st.text()), st.binary())
def test_foreign_names_hurt_nobody(exe, paths, names, head):
    detect(exe, paths, lambda _folder: names, invoked=exe, head=head)


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("schema = 2\nlibrary = []", "schema is not 1"),
        ("schema = 1", "no list of libraries"),
        ("schema = 1\n[[library]]\n", "without a name"),
        ('schema = 1\n[[library]]\nname = "x"\ncolour = 1', "unknown colour"),
        ('schema = 1\n[[library]]\nname = "x"\nmaps = "*"', "lists of texts"),
        ('schema = 1\n[[library]]\nname = "x"\nhead = 1', "lists of texts"),
        ("=", "Invalid"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, page, message):
    path = tmp_path / "libraries.toml"
    path.write_text(page)
    with pytest.raises(InputUnreadable, match=re.escape(message)):
        load(path)
