# SPDX-License-Identifier: Apache-2.0
"""The programs in scripts/ and the Makefile: what is started from a checkout sees what the caller sees."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SETUP = """#!/bin/sh
echo "$@" >>"$(dirname "$0")/setup.log"
exit {status}
"""
NETDIAG = """#!{python}
import json, os, sys
print(json.dumps([dict(os.environ), os.getcwd(), sys.argv[1:]]))
"""


@pytest.fixture
def checkout(root: Path, tmp_path: Path) -> Path:
    """Return a checkout whose setup only notes its call and whose netdiag tells what it was given."""
    folder = tmp_path / "a checkout"
    (folder / "scripts").mkdir(parents=True)
    (folder / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(root / "scripts" / "netdiag", folder / "scripts")
    executable(folder / "scripts" / "setup", SETUP.format(status=0))
    executable(folder / ".venv" / "bin" / "netdiag", NETDIAG.format(python=sys.executable))
    return folder


def executable(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def test_netdiag_sees_the_callers_environment_folder_and_words(checkout, tmp_path):
    environment = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "A_VARIABLE": "with 'quotes' and spaces"}
    words = ["trace", "--", "python", "-c", "print('a b')", ""]
    command = [str(checkout / "scripts" / "netdiag"), *words]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    seen, folder, arguments = json.loads(done.stdout)
    seen.pop("LC_CTYPE", None)  # Python itself sets it where there is no locale
    added = {name: value for name, value in seen.items() if environment.get(name) != value}
    assert set(added) <= {"PWD", "OLDPWD", "_"}, added
    assert folder == str(tmp_path)
    assert arguments == words


def test_netdiag_is_found_through_a_link(checkout, tmp_path):
    (tmp_path / "nd").symlink_to(checkout / "scripts" / "netdiag")
    done = subprocess.run([tmp_path / "nd", "--version"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)[2] == ["--version"]
    assert (checkout / "scripts" / "setup.log").read_text() == "--run\n"


def test_netdiag_does_not_start_when_the_setup_failed(checkout):
    executable(checkout / "scripts" / "setup", SETUP.format(status=3))
    done = subprocess.run([checkout / "scripts" / "netdiag"], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stdout == ""


def test_make_help_lists_every_verb(root):
    done = subprocess.run(["make", "-s", "help"], cwd=root, capture_output=True, text=True, check=True)
    listed = {line.split()[0] for line in done.stdout.splitlines()}
    called = {
        line.split("scripts/")[1].split()[0]
        for line in (root / "Makefile").read_text().splitlines()
        if line.startswith("\tscripts/")
    }
    assert {"setup", "test", "lint", "fuzz", "build"} <= listed
    assert all((root / "scripts" / name).exists() for name in called)


def test_programs_can_be_started(root):
    programs = [path for path in (root / "scripts").iterdir() if path.is_file() and path.read_bytes()[:2] == b"#!"]
    assert programs
    assert [path.name for path in programs if not os.access(path, os.X_OK)] == []


def test_an_unknown_word_for_setup_is_refused(root):
    done = subprocess.run([root / "scripts" / "setup", "--help-me"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "unknown option --help-me" in done.stderr
