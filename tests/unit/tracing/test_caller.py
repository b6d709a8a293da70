# SPDX-License-Identifier: Apache-2.0
"""Whose environment CMD gets: the caller's, also behind sudo."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("traces on Linux only", allow_module_level=True)

from netdiag.privilege import User
from netdiag.tracing import caller
from netdiag.tracing.caller import command_environment, environment_before_sudo, own_environment, search_path

ALICE = User(uid=1000, gid=1000, name="alice", home="/home/alice", shell="/bin/zsh")
ME = os.getpid()


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(caller, "PROC", tmp_path)
    monkeypatch.setattr(os, "getppid", lambda: 30)
    monkeypatch.setattr(caller, "_owner", lambda _path: 0)
    process(tmp_path, ME, "python3", 30, b"")
    return tmp_path


def process(proc: Path, pid: int, program: str, parent: int, environ: bytes) -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "exe").symlink_to(f"/usr/bin/{program}")
    (folder / "stat").write_text(f"{pid} (a) b) c) S {parent} 1 1 0\n")
    (folder / "environ").write_bytes(environ)


def test_the_environment_of_the_first_sudo_is_the_callers(proc):
    process(proc, 30, "sudo", 20, b"PATH=/monitor\0")
    process(proc, 20, "sudo", 10, b"PATH=/venv/bin:/bin\0KEY=a=b\0broken\0B\xff=\xfe\0")
    process(proc, 10, "bash", 1, b"PATH=/shell\0")
    assert environment_before_sudo() == {b"PATH": b"/venv/bin:/bin", b"KEY": b"a=b", b"B\xff": b"\xfe"}


def test_another_parent_is_not_sudo(proc):
    process(proc, 30, "bash", 1, b"PATH=/shell\0")
    assert environment_before_sudo() is None


def test_a_users_file_cannot_pretend_to_be_sudo(proc, monkeypatch):
    process(proc, 30, "sudo", 1, b"PATH=/evil\0")
    monkeypatch.setattr(caller, "_owner", lambda _path: 1000)
    assert environment_before_sudo() is None


def test_what_the_caller_had_wins_and_what_sudo_was_given_comes_on_top(proc, monkeypatch):
    assert proc.is_dir()
    now = {b"PATH": b"/sbin", b"USER": b"root", b"SUDO_UID": b"1000", b"SUDO_COMMAND": b"x", b"GIVEN": b"1"}
    monkeypatch.setattr(os, "environb", now)
    before = {b"PATH": b"/venv/bin", b"USER": b"alice", b"HOME": b"/home/alice"}
    assert command_environment(ALICE, before) == {**before, b"GIVEN": b"1"}


def test_without_a_view_of_sudo_names_and_home_are_the_users(proc, monkeypatch):
    assert proc.is_dir()
    monkeypatch.setattr(os, "environb", {b"PATH": b"/sbin", b"HOME": b"/root", b"MAIL": b"/m", b"SUDO_GID": b"1"})
    assert command_environment(ALICE) == {
        b"PATH": b"/sbin",
        b"HOME": b"/home/alice",
        b"SHELL": b"/bin/zsh",
        b"USER": b"alice",
        b"LOGNAME": b"alice",
    }
    nameless = User(uid=7, gid=7, name=None, home="/", shell="/bin/sh")
    assert command_environment(nameless)[b"USER"] == b"7"


def test_what_python_adds_is_taken_away_and_the_order_kept(proc, monkeypatch):
    (proc / str(ME) / "environ").write_bytes(b"Z=1\0A=2\0GONE=3\0")
    monkeypatch.setattr(os, "environb", {b"A": b"2", b"LC_CTYPE": b"C.UTF-8", b"NEW": b"4", b"Z": b"1"})
    assert list(own_environment().items()) == [(b"Z", b"1"), (b"A", b"2"), (b"NEW", b"4")]


def test_a_locale_that_the_caller_set_stays(proc, monkeypatch):
    (proc / str(ME) / "environ").write_bytes(b"LC_CTYPE=C.UTF-8\0")
    monkeypatch.setattr(os, "environb", {b"LC_CTYPE": b"C.UTF-8"})
    assert own_environment() == {b"LC_CTYPE": b"C.UTF-8"}


def test_where_the_first_environment_cannot_be_read_the_present_one_is_taken(proc, monkeypatch):
    (proc / str(ME) / "environ").unlink()
    monkeypatch.setattr(os, "environb", {b"LC_CTYPE": b"C.UTF-8"})
    assert own_environment() == {b"LC_CTYPE": b"C.UTF-8"}


def test_without_a_path_the_systems_is_searched():
    assert search_path({}) == os.defpath
    assert search_path({b"PATH": b"/a:/b\xff"}) == "/a:/b\udcff"
