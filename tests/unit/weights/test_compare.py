# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from netdiag.errors import InputUnreadable, NetdiagError
from netdiag.weights import compare as module
from netdiag.weights.compare import METHODS, Run, compare, to_json, why

MIB = 1 << 20
SIZE = 3 * MIB + 5
"""No multiple of a page nor of a piece."""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "m"
    path.write_bytes(os.urandom(SIZE))
    return path


def run(method, ms, *, state="warm", **more):
    plain = {"user_ms": 0.0, "system_ms": ms, "minor_faults": 0, "major_faults": 0, "device_bytes": 0, "cached": 1.0}
    return Run(method=method, state=state, ms=ms, **{**plain, **more})


def test_each_way_is_measured_and_the_file_stays_as_it_was(path):
    before = path.read_bytes()
    runs = compare(path, repeats=1)
    assert [(one.state, one.method) for one in runs] == [("warm", name) for name in METHODS]
    assert all(one.ms > 0 for one in runs)
    by = {one.method: one for one in runs}
    pages = SIZE // os.sysconf("SC_PAGE_SIZE")
    assert by["read"].minor_faults + by["read"].major_faults > by["read-reused"].minor_faults
    assert by["mmap-copy"].minor_faults <= 3 * pages
    assert path.read_bytes() == before


def test_cold_runs_are_of_a_copy_that_is_gone_afterwards(path):
    runs = compare(path, cold=True, repeats=1)
    assert [one.state for one in runs] == ["cold"] * len(METHODS) + ["warm"] * len(METHODS)
    assert list(path.parent.iterdir()) == [path]


def test_without_room_no_copy_is_made(path, monkeypatch):
    room = os.statvfs(path.parent)
    full = os.statvfs_result((room[0], room[1], room[2], 0, 0, *room[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _folder: full)
    with pytest.raises(NetdiagError, match="no room"):
        compare(path, cold=True, repeats=1)
    assert list(path.parent.iterdir()) == [path]


def test_what_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(InputUnreadable, match="No such file"):
        compare(tmp_path / "none")
    (tmp_path / "empty").touch()
    with pytest.raises(InputUnreadable, match="is empty"):
        compare(tmp_path / "empty")


def test_a_child_that_dies_is_told(path, monkeypatch):
    def dies(_fd, _size):
        raise OSError

    monkeypatch.setattr(module, "METHODS", {"read-reused": ("x", dies)})
    monkeypatch.setattr(module, "_read_reused", lambda _fd, _size: None)
    with pytest.raises(NetdiagError, match="ended early"):
        compare(path, repeats=1)


def test_the_reason_is_in_new_memory_only_where_it_is():
    size = 400 * mmap.PAGESIZE
    slow = run("read", 20.0, minor_faults=400)
    others = [run("mmap-copy", 30.0, minor_faults=800), run("read-reused", 10.0, minor_faults=2)]
    first, second = why([slow, *others], size)
    assert "mmap and copy takes 1.50 times read()" in first
    assert "800 faults against 400" in first
    assert "new memory" in second
    assert len(why([run("read", 12.0, minor_faults=400), *others], size)) == 1
    assert len(why([run("read", 20.0, minor_faults=100), *others], size)) == 1


def test_hidden_waits_are_of_cold_runs_alone():
    def runs(state):
        copied = run("mmap-copy", 100.0, state=state, system_ms=10.0, major_faults=3)
        return [run("read", 50.0, state=state), run("read-reused", 45.0, state=state), copied]

    cold = why(runs("cold"), MIB)
    assert [text.startswith("cold: ") for text in cold] == [True] * 3
    assert "3 faults count as major and hide 90 ms" in cold[2]
    assert len(why(runs("warm"), MIB)) == 1
    assert why(runs("cold")[:2], MIB) == []


def test_a_run_as_plain_values():
    found = to_json(run("read", 1.23456, cached=None))
    assert (found["ms"], found["cached"], found["method"]) == (1.235, None, "read")
    assert run("read", 5.0, user_ms=4.0, system_ms=2.0).blocked_ms == 0.0


@pytest.mark.parametrize("name", ["read", "read-reused"])
def test_every_byte_is_read(path, name):
    fd = os.open(path, os.O_RDONLY)
    try:
        before = _bytes_read()
        METHODS[name][1](fd, SIZE)
        assert _bytes_read() - before >= SIZE
    finally:
        os.close(fd)


def _bytes_read():
    return int(Path("/proc/self/io").read_text().split("rchar:")[1].split()[0])
