# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.errors import InputUnreadable
from netdiag.testing import START_NS, RecordingBuilder
from netdiag.weights.reading import load_of
from tests.fakes import loads
from tests.fakes.loads import KIB, MIB, PID


def read(made, **more):
    return load_of(made.recording(end_at=2_500.0, **more))


def test_a_recording_of_another_command_holds_nothing():
    with pytest.raises(InputUnreadable, match="nothing about weights"):
        load_of(RecordingBuilder().process(PID).recording())


def test_records_are_cumulative_and_the_last_one_counts():
    load = read(loads.builder())
    (thread,) = load.threads
    assert (thread.pid, thread.comm, thread.wall_ms, thread.run_ms) == (PID, "python3", 2_000.0, 900.0)
    assert (thread.read_bytes, thread.reads, thread.minor_faults) == (64 * MIB, 64, 30)
    assert thread.blocked_ms["read"] == 1_000.0
    assert (thread.samples["user"], thread.samples["read"]) == (100, 300)
    assert load.span_ms == 2_500.0
    assert [(one.at_ms, one.read_bytes, one.faults) for one in load.points] == [
        (1_000.0, 32 * MIB, 10),
        (2_000.0, 64 * MIB, 30),
    ]


def test_a_file_has_its_path_its_pages_and_its_requests():
    (file,) = read(loads.builder()).files
    assert (file.path, file.whole_path, file.size) == ("/models/m.gguf", True, 64 * MIB)
    assert (file.cached_before, file.cached_after, file.readahead_window) == (32 * MIB, 64 * MIB, 128 * KIB)
    (asked,) = file.requests
    assert (asked.source, asked.pid, asked.mean_bytes, asked.mean_ms) == ("device", None, 128 * KIB, 2.0)
    assert (asked.depth, asked.sizes) == (2.0, {"128k": 256})


def test_requests_of_another_process_are_not_this_ones():
    made = loads.builder()
    for pid, size in ((PID, 10), (PID + 1, 20)):
        made.record("weights_request", inode=7, device=1, tgid=pid, source=2, requests=1, bytes=size)
    (file,) = read(made).files
    assert sorted((one.source, one.bytes) for one in file.requests) == [("device", 32 * MIB), ("fuse", 10)]


@pytest.mark.parametrize(
    ("parts", "path", "whole"),
    [
        ({"parts": 2, "part_1": "m", "part_2": "/"}, "/m", True),
        ({"parts": 2, "part_1": "m", "part_2": "deep"}, "deep/m", False),
        ({"parts": 200, "part_1": "m"}, None, False),
        ({"parts": 0}, "inode 9", False),
        ({"parts": 1, "part_1": b"\xff"}, "\\xff", False),
    ],
)
def test_paths_that_are_short_or_odd(parts, path, whole):
    made = loads.builder().record("weights_path", inode=9, device=1, **parts)
    made.record("weights_file", inode=9, device=1, tgid=PID, size=4096)
    (file,) = (one for one in read(made).files if one.inode == 9)
    assert file.whole_path is whole
    assert path is None or file.path == path
    assert file.cached_after is None


def test_the_thread_that_brings_most_comes_first():
    made = loads.builder()
    made.record("weights_thread", tgid=PID, tid=5, began=START_NS, time=START_NS, comm="lazy", read_bytes=1)
    made.record("weights_thread", tgid=PID, tid=6, began=START_NS, time=START_NS, comm="busy", read_bytes=1 << 40)
    assert [one.comm for one in read(made).threads] == ["busy", "python3", "lazy"]


def test_copies_are_summed_over_threads_and_none_without_one():
    assert read(loads.builder()).copies is None
    made = loads.builder()
    for tid in (8, 9):
        made.record(
            "weights_thread", tgid=PID, tid=tid, began=START_NS, time=START_NS, copies=2, copy_bytes=100,
            copy_file_bytes=30, copy_device_bytes=20, copying=1_000_000,
        )  # fmt: skip
    copies = read(made).copies
    assert (copies.count, copies.bytes, copies.took_ms) == (4, 200, 2.0)
    assert (copies.from_files, copies.from_pinned, copies.from_pageable) == (60, 40, 100)


def test_of_the_kernels_time_only_these_programs_count():
    made = loads.builder()
    programs = [{"name": "weights_switch", "ns": 30}, {"name": "tcp_send", "ns": 10}]
    made.fact("cost", kernel_ms=8.0, recorder_cpu_ms=3.0, programs=programs)
    made.fact("loss", probe="weights_files", lost=4).fact("loss", probe="tcp", lost=0)
    load = read(made)
    assert (load.kernel_ms, load.recorder_ms, load.lost) == (6.0, 3.0, {"weights_files": 4})
    assert read(loads.builder().fact("cost", kernel_ms=8.0, programs=[])).kernel_ms is None
    assert read(loads.builder()).kernel_ms is None


def test_losses_that_nobody_counted_are_unknown():
    assert read(loads.builder()).lost is None
    assert read(loads.builder().fact("loss", probe="weights_files", lost=0)).lost == {}


def test_a_recording_that_breaks_off_lasts_to_its_last_record():
    assert load_of(loads.builder().recording(end=None)).span_ms == 2_000.0


@pytest.mark.parametrize(("unanswered", "depth"), [(0, 2.0), (1, 1.0), (5, 1.0), (200, None)])
def test_a_request_whose_end_was_not_seen_makes_no_depth(unanswered: int, depth: float | None) -> None:
    made = loads.builder()
    made.record(
        "weights_request", time=START_NS + 2_000_000_000, began=START_NS, inode=7, bytes=32 * loads.MIB, requests=256,
        answered=256 - unanswered, latency=512_000_000, depth=512, device=1, source=1,
    )  # fmt: skip
    (file,) = load_of(made.recording()).files
    assert file.requests[0].depth == depth
