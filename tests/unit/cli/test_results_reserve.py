# SPDX-License-Identifier: Apache-2.0
"""A file in another user's folder is opened while root still may."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("root gives up capabilities on Linux only", allow_module_level=True)

from netdiag.cli.results import reserve, write_text


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return another user's folder, root being who looks at it."""
    if os.geteuid() != 0:
        pytest.skip("needs root to make another user's folder")
    monkeypatch.delenv("SUDO_UID", raising=False)
    made = tmp_path / "theirs"
    made.mkdir()
    os.chown(made, 65534, 65534)
    return made


def test_a_file_in_another_users_folder_is_opened_and_written(folder):
    (folder / "out.json").write_text("an older and longer result")
    reserved = reserve(folder / "out.json")
    assert reserved is not None
    write_text("{}\n", folder / "out.json", io.StringIO(), reserved)
    assert (folder / "out.json").read_text() == "{}\n"


def test_what_root_can_write_anyway_is_written_in_the_usual_way(folder, tmp_path, monkeypatch):
    assert reserve(None) is None
    assert reserve(tmp_path / "out.json") is None
    os.mkfifo(folder / "pipe")
    assert reserve(folder / "pipe") is None
    monkeypatch.setenv("SUDO_UID", "1000")
    assert reserve(folder / "out.json") is None
    assert not (folder / "out.json").exists()
