# SPDX-License-Identifier: Apache-2.0
"""A child that waits, becomes CMD, and ends as it wants."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("traces on Linux only", allow_module_level=True)

from netdiag.tracing.command import NOT_EXECUTABLE, NOT_FOUND, Command, locate

ENVIRONMENT = {b"PATH": b"/usr/bin:/bin"}


@contextmanager
def started(argv: Sequence[str], path: str | None = None) -> Iterator[Command]:
    command = Command(argv, path or argv[0], ENVIRONMENT, user=None)
    try:
        yield command
    finally:
        command.close()


def ended(command: Command) -> int | None:
    assert select.select([command], [], [], 10)[0]
    return command.status()


def test_a_command_waits_until_it_is_let_go(tmp_path):
    witness = tmp_path / "witness"
    with started(["touch", str(witness)], "/usr/bin/touch") as command:
        assert not select.select([command], [], [], 0.1)[0]
        assert command.status() is None
        assert not witness.exists()
        assert command.release() is None
        assert ended(command) == 0
    assert witness.exists()


def test_a_command_that_is_never_let_go_leaves_no_child():
    with started(["/usr/bin/sleep", "30"]) as command:
        pid = command.pid
    assert not Path(f"/proc/{pid}").exists()


def test_a_running_command_outlives_the_one_who_started_it():
    with started(["/usr/bin/sleep", "30"]) as command:
        command.release()
        pid = command.pid
    assert Path(f"/proc/{pid}/comm").read_text() == "sleep\n"
    os.kill(pid, 9)
    os.waitpid(pid, 0)


@pytest.mark.parametrize(("code", "status"), [("exit 3", 3), ("kill -9 $$", 137), ("true", 0)])
def test_the_status_is_the_shells(code, status):
    with started(["sh", "-c", code], "/bin/sh") as command:
        command.release()
        assert ended(command) == status
        assert command.status() == status


def test_a_child_that_was_killed_while_it_waited_is_seen():
    with started(["/usr/bin/sleep", "30"]) as command:
        os.kill(command.pid, 9)
        assert ended(command) == 137
        assert command.release() is None


def test_a_file_that_is_gone_or_unfit_is_told(tmp_path):
    unfit = tmp_path / "unfit"
    unfit.write_bytes(b"\x7fELFnot really")
    unfit.chmod(0o644)
    for path, text, status in (
        (str(tmp_path / "gone"), "No such file or directory", NOT_FOUND),
        (str(unfit), "Permission denied", NOT_EXECUTABLE),
    ):
        with started([path]) as command:
            assert command.release() == text
            assert ended(command) == status


def test_names_are_searched_and_paths_are_not(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, mode in ((first, 0o644), (second, 0o755)):
        folder.mkdir()
        (folder / "tool").write_text("")
        (folder / "tool").chmod(mode)
    path = f"{first}:{second}"
    assert locate("tool", path).path == f"{second}/tool"
    assert locate("tool", str(first)).status == NOT_EXECUTABLE
    assert locate("other", path).status == NOT_FOUND
    assert locate("", path).status == NOT_FOUND
    assert locate(f"{second}/tool", "").path == f"{second}/tool"
    assert locate(f"{first}/tool", path).status == NOT_EXECUTABLE
    assert locate(str(first), path).status == NOT_EXECUTABLE
    assert locate(f"{second}/missing", path).status == NOT_FOUND


def test_an_empty_entry_of_the_path_is_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tool").write_text("")
    (tmp_path / "tool").chmod(0o755)
    assert locate("tool", "/nowhere:").path == "./tool"
