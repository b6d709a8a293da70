# SPDX-License-Identifier: Apache-2.0
"""How files come into memory, by programs that do it in known ways: direction, request size, class of fault, finding.

Files are brought out of memory by POSIX_FADV_DONTNEED on them alone. No time is asserted: classes and shares are.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from netdiag.assets import data_dir

pytestmark = pytest.mark.kernel

MIB = 1 << 20
SIZE = 64 * MIB
SOURCES = Path(__file__).resolve().parents[1] / "fakes" / "weights"
NETDIAG = (sys.executable, "-m", "netdiag")


def compiled(folder: Path, name: str) -> Path:
    program = folder / name
    subprocess.run(["cc", "-O1", "-o", program, SOURCES / f"{name}.c", "-lpthread"], check=True, timeout=60)
    return program


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("weights")


@pytest.fixture(scope="module")
def touch(folder: Path) -> Path:
    return compiled(folder, "touch")


@pytest.fixture(scope="module")
def model(folder: Path) -> Path:
    return make_model(folder / "model.weights", SIZE)


def make_model(path: Path, size: int) -> Path:
    block = os.urandom(MIB)
    with path.open("wb") as file:
        for _ in range(size // MIB):
            file.write(block)
        os.fsync(file.fileno())
    return path


def forget(path: Path) -> None:
    """Bring a file out of memory; it has to be clean for that."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def traced(out: Path, *command: str | Path, cold: Path | None = None) -> dict[str, Any]:
    if cold is not None:
        forget(cold)
    argv = [*NETDIAG, "weights", "--no-keep", "--format", "json", "-o", out, "--", *command]
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(out.read_text())
    return document


def of(document: dict[str, Any], path: Path) -> dict[str, Any]:
    found: dict[str, Any]
    (found,) = [file for file in document["files"] if file["path"].endswith(path.name)]
    return found


def codes(document: dict[str, Any], *, loud: bool = False) -> set[str]:
    """Return the codes of findings but what netdiag says of itself: timing its programs costs as well."""
    rows = [row for row in document["findings"] if not loud or row["severity"] != "info"]
    return {row["code"] for row in rows if row["code"] != "observer.cost"}


def part(document: dict[str, Any], *names: str) -> float:
    times: list[float] = [row["ms"] for row in document["load"]["time"] if row["part"] in names]
    return sum(times)


def test_the_parts_add_up_and_the_document_fits_its_schema(tmp_path, touch, model):
    jsonschema = pytest.importorskip("jsonschema")
    document = traced(tmp_path / "out.json", touch, "forward", model, cold=model)
    schema = json.loads((data_dir("reports") / "schemas" / "netdiag.weights-1.json").read_text())
    jsonschema.validate(document, schema)
    load = document["load"]
    assert sum(row["ms"] for row in load["time"]) == pytest.approx(load["wall_ms"], abs=0.1)
    assert abs(part(document, "rest")) <= 0.05 * load["wall_ms"]
    assert document["tier"]["lost"] == {}


@pytest.mark.parametrize(
    ("mode", "direction", "finding"),
    [
        ("forward", "forward", None),
        ("strided", "forward", None),
        ("shuffled", "forward", None),
        ("cow", "forward", None),
        ("backward", "backward", "weights.backward-walk"),
        ("random", "random", "weights.random-amplification"),
        ("madvised", "forward", "weights.readahead-off"),
        ("read4k", "forward", "weights.small-reads"),
        ("read1m", "forward", None),
        ("fresh", "forward", "weights.destination-first-touch"),
        ("direct", None, "weights.direct-io"),
    ],
)
def test_the_signature_of(tmp_path, touch, model, mode, direction, finding):
    document = traced(tmp_path / "out.json", touch, mode, model, cold=model)
    file = of(document, model)
    assert file["walk"]["direction"] == direction
    assert finding in codes(document) if finding else not codes(document, loud=True)
    (asked,) = file["requests"]
    assert asked["source"] == ("direct" if mode == "direct" else "device")
    if mode != "random":  # what could not be brought out of memory before is not fetched
        assert 0.95 * SIZE <= asked["bytes"] + file["cached_before"] <= 1.05 * SIZE
    if mode == "madvised":
        assert asked["mean_bytes"] == 4096
        assert document["load"]["major_faults"] >= 0.9 * SIZE / 4096
    if mode == "direct":
        assert asked["mean_bytes"] == 128 * 1024
    if mode == "cow":
        assert document["load"]["minor_faults"] >= SIZE / 4096
        assert file["faults"]["asked"] == pytest.approx(SIZE / 4096, rel=0.1)
    if mode == "fresh":
        assert document["load"]["minor_faults"] >= SIZE / 4096
    if mode == "read1m":
        assert document["load"]["minor_faults"] < 2000


def test_a_mapping_that_is_populated_waits_in_mmap(tmp_path, touch, model):
    document = traced(tmp_path / "out.json", touch, "populated", model, cold=model)
    file = of(document, model)
    (asked,) = file["requests"]
    assert 0.95 * SIZE <= asked["bytes"] + file["cached_before"] <= 1.05 * SIZE
    assert part(document, "populate-blocked", "populate-cpu", "cpu") > part(document, "fault-blocked", "read-blocked")
    assert not codes(document, loud=True)


def test_a_warm_load_asks_no_device_and_has_no_cause(tmp_path, touch, model):
    forget(model)
    model.read_bytes()
    document = traced(tmp_path / "out.json", touch, "forward", model)
    file = of(document, model)
    assert file["cached_before"] >= 0.95 * SIZE  # other programs may press a page or two out of memory
    assert sum(row["bytes"] for row in file["requests"]) <= 0.05 * SIZE
    assert codes(document) == set()
    assert document["restart"]["says"].endswith("the next load is warm")


def test_reading_past_a_warm_cache_is_told(tmp_path, touch, model):
    model.read_bytes()
    document = traced(tmp_path / "out.json", touch, "direct-large", model)
    (row,) = [row for row in document["findings"] if row["code"] == "weights.direct-io"]
    assert row["cause"] == "warm"


@contextlib.contextmanager
def mounted(folder: Path, *command: str | Path) -> Iterator[Path]:
    folder.mkdir(exist_ok=True)
    subprocess.run([str(word) for word in (*command, folder)], check=True, timeout=30)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True, timeout=30)


@pytest.fixture(scope="module")
def loop(folder: Path) -> Iterator[Path]:
    """Return a mounted ext4 on a loop device, whose read-ahead a test may set."""
    image = folder / "image"
    with image.open("wb") as file:
        file.truncate(SIZE + 48 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True, timeout=60, capture_output=True)
    with mounted(folder / "loop", "mount", "-o", "loop", image) as point:
        make_model(point / "model.weights", SIZE)
        yield point


def set_readahead(point: Path, kib: int) -> None:
    device = point.stat().st_dev
    path = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")
    path.write_text(str(kib))


@pytest.mark.parametrize(("kib", "small"), [(128, True), (4096, False)])
def test_read_ahead_decides_the_size_of_requests_on_a_loop_device(tmp_path, touch, loop, kib, small):
    set_readahead(loop, kib)
    path = loop / "model.weights"
    document = traced(tmp_path / "out.json", touch, "forward", path, cold=path)
    file = of(document, path)
    assert file["filesystem"]["readahead_bytes"] == kib * 1024
    assert file["walk"]["direction"] == "forward"
    (asked,) = file["requests"]
    assert 0.95 * SIZE <= asked["bytes"] + file["cached_before"] <= 1.05 * SIZE  # once, not again by the loop device
    assert (asked["mean_bytes"] <= 256 * 1024) == small
    if part(document, "fault-blocked") >= 0.3 * document["load"]["wall_ms"]:
        assert ("weights.readahead-small" in codes(document)) == small
    else:
        assert "weights.readahead-small" not in codes(document)


def test_a_file_of_an_image_layer_is_known_by_its_name_in_the_container(tmp_path, touch, loop):
    set_readahead(loop, 4096)
    parts = {name: tmp_path / name for name in ("upper", "work", "merged")}
    for name in ("upper", "work"):
        parts[name].mkdir()
    options = f"lowerdir={loop},upperdir={parts['upper']},workdir={parts['work']}"
    with mounted(parts["merged"], "mount", "-t", "overlay", "overlay", "-o", options) as point:
        path = point / "model.weights"
        document = traced(tmp_path / "out.json", touch, "forward", path, cold=path)
    file = of(document, path)
    assert file["path"] == str(path)
    assert (file["filesystem"]["kind"], file["filesystem"]["layer"]) == ("overlay", "lower")
    assert "weights.overlay" in codes(document)


@pytest.fixture
def slow(folder: Path, model: Path) -> Iterator[Path]:
    """Return a folder of a FUSE file system that takes a millisecond for each read."""
    program = compiled(folder, "slowfs")
    point = folder / "slow"
    point.mkdir(exist_ok=True)
    with subprocess.Popen([str(program), str(model), str(point), "1000"]) as server:
        try:
            deadline = time.monotonic() + 30
            while not os.path.ismount(point) and time.monotonic() < deadline:
                time.sleep(0.02)
            yield point
        finally:
            subprocess.run(["umount", str(point)], check=True, timeout=30)
            try:
                server.wait(timeout=10)
            except subprocess.TimeoutExpired:  # another mount namespace, made meanwhile, holds the mount
                server.kill()


def test_small_requests_to_a_slow_fuse_server_are_the_cause(tmp_path, touch, slow):
    document = traced(tmp_path / "out.json", touch, "forward", slow / "model")
    (file,) = [file for file in document["files"] if file["path"] == str(slow / "model")]
    assert file["filesystem"]["kind"] == "fuse.slowfs"
    (asked,) = file["requests"]
    assert (asked["source"], asked["mean_bytes"]) == ("fuse", pytest.approx(128 * 1024, rel=0.05))
    assert asked["mean_ms"] >= 1
    (row,) = [row for row in document["findings"] if row["severity"] == "critical"]
    assert row["code"] == "weights.network-filesystem"
    assert document["load"]["major_faults"] < 10


def test_a_walk_down_a_fuse_file_is_told_as_that(tmp_path, touch, slow):
    document = traced(tmp_path / "out.json", touch, "backward", slow / "model")
    assert "weights.backward-walk" in codes(document)
    assert "weights.network-filesystem" not in codes(document)


@pytest.fixture
def limited() -> Iterator[Path]:
    """Return a cgroup of half the model's size."""
    candidates = (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max"))
    for root, name in candidates:
        group = Path(root) / f"netdiag-weights-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / name).write_text(str(SIZE // 2))
        except OSError:
            group.rmdir()
            continue
        yield group
        for _ in range(50):
            with contextlib.suppress(OSError):
                group.rmdir()
                return
            time.sleep(0.1)
        return
    pytest.skip("no memory controller may be used here")


def test_a_file_that_does_not_fit_under_the_memory_limit(tmp_path, touch, model, limited):
    script = (
        f"echo $$ > {limited}/cgroup.procs; for i in 1 2; do {touch} read1m {model}; done; exec {touch} read1m {model}"
    )
    document = traced(tmp_path / "out.json", "sh", "-c", script, cold=model)
    assert codes(document) & {"weights.cache-thrash", "weights.memory-limit"}
    files = [file for file in document["files"] if file["path"] == str(model)]
    assert max(row["bytes"] for file in files for row in file["requests"]) > 1.5 * SIZE


def test_a_program_that_is_killed_in_the_middle(tmp_path, touch, model):
    script = f"{touch} madvised {model} & sleep 0.2; kill -9 $!; wait; exit 0"
    document = traced(tmp_path / "out.json", "sh", "-c", script, cold=model)
    assert of(document, model)["requests"][0]["count"] > 0


def test_a_file_that_is_replaced_while_it_is_loaded(tmp_path, touch, folder):
    path = make_model(folder / "replaced.weights", 32 * MIB)
    other = make_model(folder / "other.weights", 32 * MIB)
    script = f"{touch} forward {path}; mv {other} {path}"
    document = traced(tmp_path / "out.json", "sh", "-c", script, cold=path)
    assert of(document, path)["replaced"] is True


def test_the_whole_machine_is_refused():
    done = subprocess.run([*NETDIAG, "weights"], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert "--pid" in done.stderr


@pytest.fixture(scope="module")
def copy(folder: Path) -> Path:
    """Return a program that copies a file to a GPU by a driver library that is none."""
    library, program = folder / "libcuda.so.1", folder / "copy"
    flags = ("-O1", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1")
    subprocess.run(["cc", *flags, "-o", library, SOURCES / "cuda.c"], check=True, timeout=60)
    subprocess.run(
        ["cc", "-O1", "-o", program, SOURCES / "copy.c", library, f"-Wl,-rpath,{folder}"], check=True, timeout=60
    )
    return program


@pytest.mark.parametrize(
    ("mode", "member", "finding"),
    [
        ("mapped", "from_files_bytes", "weights.pageable-copies"),
        ("staged", "from_pageable_bytes", None),
        ("tiny", "from_pageable_bytes", "weights.tiny-copies"),
    ],
)
def test_copies_to_a_gpu_by_the_memory_that_they_read(tmp_path, copy, model, mode, member, finding):
    document = traced(tmp_path / "out.json", copy, mode, model)
    copies = document["copies"]
    assert copies["bytes"] == copies[member] == SIZE
    assert copies["count"] == SIZE // (64 * 1024 if mode == "tiny" else MIB)
    assert codes(document) & {"weights.pageable-copies", "weights.tiny-copies"} == ({finding} if finding else set())
    load = document["load"]
    assert sum(row["ms"] for row in load["time"]) == pytest.approx(load["wall_ms"], abs=0.1)


def test_every_request_is_counted_once_and_in_full(tmp_path, touch, model):
    """A request may still grow when it is made: neither its size nor its number is known before it is sent."""
    document = traced(tmp_path / "out.json", touch, "direct", model)
    (asked,) = of(document, model)["requests"]
    assert (asked["count"], asked["bytes"], asked["sizes"]) == (SIZE >> 17, SIZE, {"128k": SIZE >> 17})
