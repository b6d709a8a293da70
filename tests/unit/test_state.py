# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

import pytest

from netdiag import state
from netdiag.errors import InputUnreadable


def put(folder: Path, name: str, size: int, age: int) -> Path:
    path = folder / name
    path.write_bytes(bytes(size))
    os.utime(path, ns=(10**18 - age, 10**18 - age))
    return path


def test_where_the_recordings_lie():
    assert state.folder({"XDG_STATE_HOME": "/x/state"}, 1000) == Path("/x/state/netdiag")
    assert state.folder({"HOME": "/home/me"}, 1000) == Path("/home/me/.local/state/netdiag")
    assert state.folder({"HOME": "/home/me", "XDG_STATE_HOME": "relative"}, 1000).is_relative_to("/home/me")


def test_under_sudo_the_home_is_that_of_the_user_and_not_the_environments():
    environ = {"HOME": "/elsewhere", "XDG_STATE_HOME": "/elsewhere", "SUDO_UID": "0"}
    assert not state.folder(environ, os.geteuid()).is_relative_to("/elsewhere")


def test_where_baselines_and_checks_of_routes_lie():
    assert state.data_folder({"XDG_DATA_HOME": "/data", "HOME": "/h"}) == Path("/data/netdiag")
    assert state.data_folder({"XDG_DATA_HOME": "relative", "HOME": "/h"}) == Path("/h/.local/share/netdiag")
    assert state.data_folder({}) == Path("/nonexistent/.local/share/netdiag")
    assert not state.data_folder({"HOME": "/elsewhere", "SUDO_UID": "0"}).is_relative_to("/elsewhere")


def test_a_user_without_a_name_has_no_home():
    assert state.folder({}, 4_000_000_000) == Path("/nonexistent/.local/state/netdiag")


def test_a_new_name_is_new_and_its_folder_private(tmp_path):
    where = tmp_path / "state" / "netdiag"
    first, second = state.new_path(where), state.new_path(where)
    assert first != second
    assert not first.exists()
    assert where.stat().st_mode & 0o777 == 0o700
    assert first.suffix == ".netdiag"


def test_the_newest_is_last(tmp_path):
    put(tmp_path, "a.netdiag", 1, age=5)
    newest = put(tmp_path, "b.netdiag", 1, age=1)
    put(tmp_path, "c.netdiag", 1, age=9)
    put(tmp_path, "note.txt", 1, age=0)
    (tmp_path / "link.netdiag").symlink_to(tmp_path / "note.txt")
    assert state.last(tmp_path) == newest
    assert len(state.recordings(tmp_path)) == 3


def test_without_recordings_there_is_no_last(tmp_path):
    with pytest.raises(InputUnreadable, match="no last recording"):
        state.last(tmp_path / "nothing")


def test_pruning_keeps_the_newest_few(tmp_path):
    paths = [put(tmp_path, f"{age}.netdiag", 10, age=age) for age in range(6)]
    assert state.prune(tmp_path, files=4, size=1000) == paths[4:]
    assert state.recordings(tmp_path) == paths[:4]


def test_pruning_keeps_the_size_and_always_the_newest(tmp_path):
    paths = [put(tmp_path, f"{age}.netdiag", 40, age=age) for age in range(3)]
    assert state.prune(tmp_path, files=9, size=100) == paths[2:]
    big = put(tmp_path, "big.netdiag", 500, age=-1)
    state.prune(tmp_path, files=9, size=100)
    assert state.recordings(tmp_path) == [big]


def test_names_and_last(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("SUDO_UID", raising=False)
    assert state.resolve("some/file") == Path("some/file")
    (tmp_path / "netdiag").mkdir()
    kept = put(tmp_path / "netdiag", "x.netdiag", 1, age=0)
    assert state.resolve("last") == kept
