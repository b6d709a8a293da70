# SPDX-License-Identifier: Apache-2.0
"""Where files lie, by real files under tables of mounts made by hand."""

from __future__ import annotations

import os

import pytest

from netdiag.weights.mounts import Mounts, network


def device_of(path):
    status = path.stat()
    return os.major(status.st_dev) << 20 | os.minor(status.st_dev)


def mounts(tmp_path, *lines):
    table = tmp_path / "mountinfo"
    table.write_text("".join(f"{line}\n" for line in lines))
    return Mounts.read(str(table))


def line(point, *, device="0:99", root="/", kind="ext4", source="/dev/vda", options="rw"):
    return f"36 35 {device} {root} {point} rw,noatime master:1 - {kind} {source} {options}"


@pytest.mark.parametrize(
    ("kind", "asks"),
    [("nfs4", True), ("fuse.gcsfuse", True), ("virtiofs", True), ("fuseblk", False), ("ext4", False), (None, False)],
)
def test_who_asks_somebody_else(kind, asks):
    assert network(kind) is asks


def test_a_file_is_found_below_its_mount(tmp_path):
    path = tmp_path / "disk" / "a b" / "m.gguf"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x")
    point = str(tmp_path / "disk").replace(" ", "\\040")
    seen = mounts(tmp_path, line("/elsewhere", device="0:98"), line(point, root="/sub"))
    inode = path.stat().st_ino
    found, mount = seen.locate(99, "/sub/a b/m.gguf", inode)
    assert (found, mount.kind, mount.point) == (str(path), "ext4", str(tmp_path / "disk"))
    assert seen.locate(99, "/sub/a b/m.gguf", inode + 1)[0] is None
    assert seen.locate(99, "/other/m.gguf", inode)[0] is None
    assert seen.locate(97, "/sub/a b/m.gguf", inode) == (None, None)


def test_escapes_are_read(tmp_path):
    (entry,) = mounts(tmp_path, line("/a\\040b\\134c")).entries
    assert entry.point == "/a b\\c"


@pytest.mark.parametrize(("layer", "folder"), [("lower", "low2"), ("upper", "up")])
def test_a_file_of_a_layer_is_known_by_its_name_in_the_overlay(tmp_path, layer, folder):
    for name in (folder, "merged"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "m").write_bytes(b"x")
    options = f"rw,lowerdir={tmp_path}/low1:{tmp_path}/low2,upperdir={tmp_path}/up"
    seen = mounts(
        tmp_path,
        line("/", device="0:50"),
        line(f"{tmp_path}/merged", kind="overlay", source="overlay", options=options),
    )
    found, mount = seen.locate(50, f"{tmp_path}/{folder}/m", (tmp_path / folder / "m").stat().st_ino)
    assert (found, mount.kind, mount.layer) == (f"{tmp_path}/merged/m", "overlay", layer)


def test_lines_that_cannot_be_read_are_left_out(tmp_path):
    bad = ("", "x", "36 35 0:9 / /a rw - ", "36 35 a:b / /a rw - ext4 x rw", "36 35 0:9 / /a rw master:1 ext4 x rw")
    assert len(mounts(tmp_path, *bad, line("/a")).entries) == 1
    assert Mounts.read(str(tmp_path / "none")).entries == []


def test_this_machines_own_mounts_lead_to_a_file(tmp_path):
    path = tmp_path / "m"
    path.write_bytes(b"x")
    _, mount = Mounts.read().locate(device_of(path), str(path), path.stat().st_ino)
    if mount is None:
        pytest.skip("the file system of temporary files has another device number than its mount")
    assert mount.kind
