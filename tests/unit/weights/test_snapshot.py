# SPDX-License-Identifier: Apache-2.0
"""Memory snapshots: their sums, and that nothing of a file is executed."""

from __future__ import annotations

import json
import os
import pickle

import pytest

from netdiag.errors import InputUnreadable
from netdiag.weights.snapshot import fragmentation, read_snapshot


def block(size, state="active_allocated"):
    return {"size": size, "state": state, "address": 0}


def segment(*blocks, stream=0, device=0):
    return {"device": device, "stream": stream, "total_size": sum(b["size"] for b in blocks), "blocks": list(blocks)}


SNAPSHOT = {
    "segments": [
        segment(block(10), block(20, "inactive"), block(30)),
        segment(block(40, "inactive"), stream=7),
        segment(block(5), device=1),
    ],
    "device_traces": [[]],
}


@pytest.mark.parametrize("dump", [lambda s: json.dumps(s).encode(), pickle.dumps, lambda s: pickle.dumps(s, 0)])
def test_free_memory_is_told_apart(tmp_path, dump):
    path = tmp_path / "snapshot"
    path.write_bytes(dump(SNAPSHOT))
    first, second = fragmentation(read_snapshot(path))
    assert (first.reserved, first.allocated, first.free, first.blocks, first.largest) == (100, 40, 60, 2, 40)
    assert (first.hard, first.soft, first.streams) == (20, 40, 2)
    assert (second.device, second.free, second.largest) == (1, 0, 0)


class _Attack:
    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_hostile_pickle_is_refused_and_not_executed(tmp_path, protocol):
    path, trap = tmp_path / "snapshot", tmp_path / "trap"
    path.write_bytes(pickle.dumps({"segments": [_Attack(trap)]}, protocol))
    with pytest.raises(InputUnreadable, match="asks for"):
        read_snapshot(path)
    assert not trap.exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[3]x", b"\x80\x04", b"\x80\x04N.", b"\x80\x04Pnothing\n.", b"3", b'{"segments": 3}', b"\x80\xff" * 9],
)
def test_what_is_no_snapshot_is_refused(tmp_path, content):
    path = tmp_path / "snapshot"
    path.write_bytes(content)
    with pytest.raises(InputUnreadable):
        read_snapshot(path)


@pytest.mark.parametrize(
    "segments",
    [[3], [{"device": "x"}], [{"device": 0, "total_size": -1}], [{"blocks": 3}], [{"blocks": [3]}],
     [{"total_size": 8, "blocks": [{"size": 1.5}]}], [{"blocks": []}], [{"total_size": 8, "blocks": [{"state": "x"}]}]],
)  # fmt: skip
def test_sizes_that_are_none_are_refused(segments):
    with pytest.raises(InputUnreadable):
        fragmentation({"segments": segments})


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputUnreadable, match="No such file"):
        read_snapshot(tmp_path / "none")
