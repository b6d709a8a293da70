# SPDX-License-Identifier: Apache-2.0
"""What this machine says of real files, and of its memory."""

from __future__ import annotations

import json
import os
import struct

import pytest

from netdiag.weights.surroundings import LEAST_BYTES, enrich, memory_of
from tests.fakes import loads
from tests.fakes.loads import MIB


def seen(at, **more):
    """Return the file as the kernel program saw it, without its whole path."""
    status = at.stat()
    device = os.major(status.st_dev) << 20 | os.minor(status.st_dev)
    place = {"device": device, "inode": status.st_ino, "path": at.name, "whole_path": False}
    return loads.file(**{**place, "size": status.st_size, "format": None, **more})


def enriched(path, **more):
    return enrich(loads.load(files=[seen(path, **more)]), [str(path), str(path) + ".none", "\0"]).files[0]


def safetensors(path, size):
    table = json.dumps({"a": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    path.write_bytes(struct.pack("<Q", len(table)) + table + bytes(size))
    return path


def test_a_file_of_a_known_path_is_looked_into(tmp_path):
    path = safetensors(tmp_path / "m.safetensors", 2 * MIB)
    file = enriched(path)
    assert (file.path, file.whole_path, file.format, file.trouble) == (str(path), True, "safetensors", None)
    (tensor,) = file.tensors
    assert (tensor["name"], tensor["bytes"], tensor["shape"]) == ("a", 2 * MIB, [2 * MIB])
    if file.evicted is not None:  # cachestat(2) is there
        assert file.cached_after == path.stat().st_size
        assert tensor["resident"] == 1.0


def test_a_header_that_lies_is_a_trouble_and_no_end(tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes(struct.pack("<Q", 1 << 60) + bytes(2 * MIB))
    file = enriched(path)
    assert file.format == "safetensors"
    assert file.trouble
    assert file.tensors == ()


def test_small_files_are_left_out_and_unknown_ones_stay_as_they_are(tmp_path):
    path = safetensors(tmp_path / "m.safetensors", 2 * MIB)
    small, unknown = seen(path, size=LEAST_BYTES - 1), seen(path, inode=1 << 50)
    (left,) = enrich(loads.load(files=[small, unknown]), [str(path)]).files
    assert (left.inode, left.path, left.whole_path, left.format) == (1 << 50, "m.safetensors", False, None)


def test_a_path_that_leads_to_another_file_is_not_that_file(tmp_path):
    path = safetensors(tmp_path / "m.safetensors", 2 * MIB)
    file = enrich(loads.load(files=[seen(path, path=str(path), whole_path=True, inode=1 << 50)])).files[0]
    assert (file.format, file.tensors) == (None, ())


def test_the_memory_of_this_machine():
    held = memory_of()
    assert held.available is not None
    assert held.total is not None
    assert 0 < held.available <= held.total
    assert held.limit is None or held.limit > 0
    assert memory_of(os.getpid()).limit == held.limit


@pytest.mark.parametrize("pid", [2**22 + 1, 2**40])
def test_a_process_that_is_gone_has_no_known_limit(pid):
    assert memory_of(pid).limit is None
