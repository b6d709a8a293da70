# SPDX-License-Identifier: Apache-2.0
"""The limit of CPU time, on a made-up tree: the kernel's own needs root."""

from __future__ import annotations

import pytest

from netdiag.errors import Unsupported
from netdiag.lab import cgroup


def of_version(monkeypatch, root, *files):
    """Let every new folder have the files that the kernel would put there."""
    made = type(root).mkdir

    def mkdir(self, *args, **options):
        made(self, *args, **options)
        for name in files:
            (self / name).touch()

    monkeypatch.setattr(type(root), "mkdir", mkdir)


def test_version_2_is_limited_by_one_file(tmp_path, monkeypatch):
    of_version(monkeypatch, tmp_path, "cpu.max")
    with cgroup.limited(0.2, tmp_path) as words:
        (folder,) = tmp_path.glob("ndlab-*")
        assert (folder / "cpu.max").read_text() == "20000 100000"
        assert words[:2] == ["sh", "-c"]
        assert f"{folder}/cgroup.procs" in words[2]
        (folder / "cpu.max").unlink()  # the kernel's files vanish with the folder
    assert list(tmp_path.glob("ndlab-*")) == []


def test_version_1_by_two(tmp_path, monkeypatch):
    (tmp_path / "cpu").mkdir()
    of_version(monkeypatch, tmp_path)
    with cgroup.limited(0.5, tmp_path):
        (folder,) = (tmp_path / "cpu").glob("ndlab-*")
        assert (folder / "cpu.cfs_quota_us").read_text() == "50000"
        for file in folder.iterdir():
            file.unlink()
    assert list((tmp_path / "cpu").glob("ndlab-*")) == []


def test_where_no_limit_can_be_set_that_is_said(tmp_path):
    with pytest.raises(Unsupported, match="CPU time"), cgroup.limited(0.2, tmp_path / "nowhere"):
        pass
