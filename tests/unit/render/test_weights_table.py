# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import typing

import pytest

from netdiag.render import Options
from netdiag.render.weights_table import PARTS, headline, render, weights_of
from netdiag.weights import identity
from tests.fakes import loads
from tests.fakes.loads import GIB, MIB

BLOCKED = dict.fromkeys(("fault", "read", "populate", "ioctl", "other"), 500.0)


def text(document, **options):
    return render(document, Options(**options))


def test_every_part_of_the_sum_has_its_words():
    names = {*identity._CPU.values(), *identity._BLOCKED.values(), "cpu", "rest", "asleep", "gpu-copies"}
    assert names | {"waiting-for-processor"} == set(PARTS)
    assert max(map(len, PARTS.values())) <= 21  # the column of the table


@pytest.mark.parametrize(
    ("argv", "comm", "name"),
    [
        (["python3", "/x/load.py", "--tp", "2"], "python3", "load.py"),
        (["/usr/bin/vllm"], "vllm", "vllm"),
        (["python3", "-m", "…"], "x", "python3"),
        (None, "loader", "loader"),
    ],
)
def test_the_headline_names_who_loaded(argv, comm, name):
    document = loads.document(loads.load([loads.thread(comm=comm)]))
    document["command"] = {"argv": argv, "exit_status": 0} if argv else None
    assert headline(document) == f"netdiag: {name}, 10.0 s, 1.07 GB in 1 safetensors file · 0 events lost"


def test_the_headline_tells_lost_events():
    assert headline(loads.document(loads.load(lost={"a": 1_200, "b": 34}))).endswith("1,234 events lost")
    assert headline(loads.document(loads.load(lost=None))).endswith("losses unknown")


def test_weights_are_known_by_their_header_then_by_size():
    known, large, small = loads.file(), loads.file(format=None, inode=8), loads.file(format=None, size=MIB, inode=9)

    def kept(*files):
        return [one["bytes"] for one in weights_of(loads.document(loads.load(files=files)))]

    assert kept(known, large, small) == [GIB]
    assert kept(large, small) == [GIB]
    assert kept(small) == [MIB]


@pytest.mark.parametrize("run_ms", [1_000.0, 9_000.0])
def test_the_parts_that_are_shown_add_up_also_where_they_overlap(run_ms):
    thread = loads.thread(blocked=BLOCKED, samples={"user": 100, "read": 100}, run_ms=run_ms)
    document = loads.document(loads.load([thread]))
    shown = [line[:40] for line in text(document).splitlines() if line.startswith("  ") and line[23:40].strip()]
    times = [float(line.split()[-2]) for line in shown if line[2:24].strip() in PARTS.values()]
    assert sum(times) == pytest.approx(10.0, abs=0.01 * len(times))
    assert len(times) >= len(BLOCKED)


def test_the_cause_comes_first_and_without_one_that_is_said():
    loud = text(loads.document()).splitlines()
    assert loud[1].startswith("CRITICAL  ")
    assert "weights.readahead-small" in loud[2] + loud[3]
    assert "No cause stands out." in text(loads.document(loads.load()))


def test_notes_are_findings_of_severity_info():
    document = loads.document(loads.load(kernel_ms=300.0))
    assert "observer.cost: " in text(document)
    assert "No cause stands out." in text(document)
    assert "INFO  " in text(document, verbose=True)
    assert "tier, 3.0 % of wall" in " ".join(text(document).split())


@pytest.mark.parametrize("width", [60, 80, 120])
def test_lines_fit_their_width(width):
    hostile = loads.file(path="/models/" + "x" * 300, trouble="the header " + "lies " * 60, replaced=True, inode=8)
    document = loads.document(loads.load([loads.thread(blocked=BLOCKED)], [loads.file(), hostile]))
    lines = text(document, width=width).splitlines()
    assert [line for line in lines if len(line) > max(width, 80)] == []


def test_names_cannot_write_to_the_terminal():
    tensors = ({"name": "a\x1b[2J", "bytes": 1, "resident": None},)
    file = loads.file(path="/models/a\x1b[31m\r\n.gguf", trouble="\x07", tensors=tensors)
    found = text(loads.document(loads.load(files=[file])), verbose=True)
    assert not {"\x1b", "\r", "\x07"} & set(found)


def test_gpus_are_a_curve_with_both_ends():
    samples = [{"at_ms": 100.0 * n, "used_bytes": n * GIB} for n in range(9)]
    gpus: list[dict[str, typing.Any]] = [
        {"index": 0, "trouble": None, "samples": samples},
        {"index": 1, "trouble": "the GPU is lost", "samples": []},
    ]
    found = text(loads.document(gpus=gpus))
    assert "▁" in found
    assert "█" in found
    assert "0 B → 8.59 GB" in found
    assert "the GPU is lost" in found


def test_what_is_missing_is_said_with_its_reason():
    assert "no driver" in text(loads.document(missing=[("GPU", "no driver\nat all")]))
    assert "at all" not in text(loads.document(missing=[("GPU", "no driver\nat all")]))


def test_a_load_that_was_not_seen():
    found = text(loads.document(loads.load(threads=[], files=[])))
    assert "where time went: not seen" in found
    assert "no file over 1 MiB was touched" in found


def test_what_was_measured_is_told_with_its_state():
    row = {"code": "weights.readahead-small", "file": "/m", "bytes": MIB, "state": "as-it-was", "before": "mmap",
           "after": "read()", "before_ms": 200.0, "after_ms": 50.0}  # fmt: skip
    told = " ".join(text(loads.document(verified=[row])).split())
    assert "verified 200 ms → 50 ms for 1.05 MB of m, as it was: mmap → read() (weights.readahead-small)" in told


def test_looks_at_proc_are_part_of_the_cost():
    assert "looks at /proc 12 ms" in text(loads.document(loads.load(looks_ms=12.0)))
    assert "looks at /proc" not in text(loads.document(loads.load()))
    alone = text(loads.document(loads.load(tier="procfs", recorder_ms=12.0, looks_ms=12.0)))
    assert "procfs tier, 0.1 % of wall" in alone
