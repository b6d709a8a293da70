# SPDX-License-Identifier: Apache-2.0
"""What the recorder is told, and what the user is told about CMD. Whole traces: tests/integration/test_tracing.py."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

if sys.platform != "linux":
    pytest.skip("traces on Linux only", allow_module_level=True)

from netdiag.errors import UsageError
from netdiag.privilege import User
from netdiag.processes import Target
from netdiag.recorder.link import MAX_LINE_BYTES
from netdiag.tracing import TraceRequest, session, trace
from netdiag.tracing.command import locate

ALICE = User(uid=1000, gid=1000, name="alice", home="/home/alice", shell="/bin/sh")


def program(folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "tool").touch(mode=0o755)
    return str(folder / "tool")


def test_the_start_message_has_the_target_with_the_command_in_it(tmp_path):
    command: Any = SimpleNamespace(pid=4711)
    request = TraceRequest(
        command=("tool", "--key=secret"),
        target=Target(ports=(443,), pids=(os.getpid(),)),
        save=tmp_path / "x.netdiag",
        keep=False,
        probes=("tcp",),
        options={"cost": False},
    )
    start, file = session._prepared(request, command)
    file.abandon()
    assert start["target"]["pids"] == [os.getpid(), 4711]
    assert start["target"]["port"] == 443
    assert start["command"] == {"pid": 4711, "argv": ["tool", "--key={…}"]}
    assert (start["do"], start["probes"], start["options"]) == ("start", ["tcp"], {"cost": False, "keep_argv": False})


def test_without_a_command_none_is_told(tmp_path):
    start, file = session._prepared(TraceRequest(save=tmp_path / "x.netdiag", keep=False), None)
    file.abandon()
    assert start["command"] is None


def test_a_kept_command_line_is_printable_and_fits_a_message():
    assert session._shown(["tool", "x\udcff"], keep=True) == ["tool", "x\\xff"]
    assert len(json.dumps(session._shown(["é" * 100_000] * 1000, keep=True))) < MAX_LINE_BYTES
    assert session._shown(["tool"] + ["--x"] * 500, keep=False)[-1] == "{…}"


@pytest.mark.parametrize("as_root", [False, True])
def test_another_program_for_root_than_for_the_user_is_told(tmp_path, monkeypatch, as_root):
    theirs, roots = program(tmp_path / "venv"), program(tmp_path / "sbin")
    monkeypatch.setenv("PATH", str(tmp_path / "sbin"))
    before = {b"PATH": os.fsencode(tmp_path / "venv")}
    told: list[str] = []
    session._compare("tool", locate("tool", str(tmp_path / "venv")), ALICE, before, told.append, as_root=as_root)
    expected = f"{roots}; for alice it would be {theirs}" if as_root else f"{theirs}; for root it would be {roots}"
    assert told == [f"tool runs {expected}"]


def test_the_same_program_for_both_needs_no_word(tmp_path, monkeypatch):
    program(tmp_path / "bin")
    path = str(tmp_path / "bin")
    monkeypatch.setenv("PATH", path)
    told: list[str] = []
    session._compare("tool", locate("tool", path), ALICE, {b"PATH": os.fsencode(path)}, told.append, as_root=False)
    assert told == []


def test_where_sudo_cannot_be_seen_the_user_is_told_who_runs_what(tmp_path):
    path = program(tmp_path / "bin")
    told: list[str] = []
    session._compare("tool", locate(path, ""), ALICE, None, told.append, as_root=False)
    session._compare("tool", locate(path, ""), ALICE, None, told.append, as_root=True)
    assert told == [f"tool is {path} and runs as alice, who called sudo (--as-root keeps root)"]


def test_a_wrong_target_ends_it_before_anything_is_started():
    with pytest.raises(UsageError, match="there is no process"):
        trace(TraceRequest(target=Target(pids=(2**22,))))


def test_what_cannot_be_found_is_a_result():
    told: list[str] = []
    result = trace(TraceRequest(command=("no-such-program",)), on_notice=told.append)
    assert (result.command_status, result.recording) == (127, None)
    assert told == ["no-such-program: command not found"]
