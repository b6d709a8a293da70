# SPDX-License-Identifier: Apache-2.0
"""Loads of weights made by hand: one thread that reads one file of 1 GiB, quiet unless a test says otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netdiag.testing import START_NS, RecordingBuilder
from netdiag.weights.case import Case
from netdiag.weights.document import build
from netdiag.weights.identity import identity
from netdiag.weights.judge import judge
from netdiag.weights.model import CLASSES, File, Load, Mount, Requests, Thread
from netdiag.weights.surroundings import Memory

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
PID = 100
NO_LIMIT = Memory(total=64 * GIB, available=32 * GIB, limit=None)


def thread(*, blocked: dict[str, float] | None = None, samples: dict[str, int] | None = None, **more: Any) -> Thread:
    """Return a thread of ten seconds; what it was blocked in and what samples found are given by class."""
    plain = {
        "pid": PID, "tid": PID, "comm": "python3", "began_ms": 0.0, "ended_ms": 10_000.0, "run_ms": 1_000.0,
        "ready_ms": 0.0, "copying_ms": 0.0, "slept_ms": 0.0, "read_bytes": 0, "device_bytes": 0, "reads": 0,
        "minor_faults": 0, "major_faults": 0, "waits_fault": 0, "waits_read": 0,
    }  # fmt: skip
    return Thread(
        **{
            **plain,
            "blocked_ms": {name: 0.0 for name in CLASSES if name != "user"} | (blocked or {}),
            "samples": dict.fromkeys(CLASSES, 0) | (samples or {}),
            **more,
        }
    )


def requests(count: int, size: int, source: str = "device", **more: Any) -> Requests:
    """Return `count` requests of `size` bytes, one at a time, a millisecond each."""
    plain: dict[str, Any] = {
        "pid": None, "answered": count, "latency_ms": float(count), "latency_max_ms": 1.0, "depth": 1.0, "sizes": {},
        "began_ms": 0.0, "ended_ms": 10_000.0,
    }  # fmt: skip
    return Requests(**{"source": source, "count": count, "bytes": count * size, **plain, **more})


def file(**more: Any) -> File:
    """Return a file of weights that was touched and of which nothing is known to be wrong."""
    numbers = dict.fromkeys(
        (
            "cached_before", "faults", "forward", "backward", "near", "around", "around_bytes", "around_forward",
            "around_backward", "around_near", "readahead_waited", "readahead_ahead", "readahead_backward",
            "readahead_window", "gets", "get_bytes", "gets_backward", "thread_changes", "samples",
        ),
        0,
    )  # fmt: skip
    plain = {
        "pid": PID, "device": 1, "inode": 7, "path": "/models/m.safetensors", "whole_path": True, "size": GIB,
        "began_ms": 0.0, "ended_ms": 10_000.0, "cached_after": None, "format": "safetensors",
    }  # fmt: skip
    return File(**{**numbers, **plain, **more})


def mount(kind: str = "ext4", **more: Any) -> Mount:
    """Return where a file lies."""
    return Mount(**{"point": "/models", "kind": kind, "source": "/dev/vda", "readahead_bytes": 128 * KIB, **more})


def load(threads: Sequence[Thread] | None = None, files: Sequence[File] | None = None, **more: Any) -> Load:
    """Return a load of ten seconds."""
    return Load(
        threads=tuple([thread()] if threads is None else threads),
        files=tuple([file()] if files is None else files),
        **{"span_ms": 10_000.0, "lost": {}, **more},
    )


def case(of: Thread | None = None, files: Sequence[File] | None = None, memory: Memory = NO_LIMIT, **more: Any) -> Case:
    """Return what a verdict follows from."""
    made = load([of or thread()], files, **more)
    said = identity(made)
    assert said is not None
    return Case(load=made, identity=said, memory=memory)


def _at(ms: float) -> int:
    return START_NS + round(ms * 1e6)


def builder(**members: Any) -> RecordingBuilder:
    """Return a recording: a thread of 2 s reads half of its time `m.gguf` of 64 MiB, half of it in memory before."""
    made = RecordingBuilder(command={"argv": ["python3", "load.py"]}, **members)
    half = {"time": _at(1_000), "began": _at(0), "tgid": PID, "tid": PID, "kind": 1, "comm": "python3"}
    made.record("weights_thread", **half, run=400_000_000, read_bytes=32 * MIB, minor_faults=10)
    made.record(
        "weights_thread", **{**half, "time": _at(2_000), "kind": 3}, run=900_000_000, blocked_read=1_000_000_000,
        read_bytes=64 * MIB, device_bytes=32 * MIB, reads=64, minor_faults=30, sampled_user=100, sampled_read=300,
    )  # fmt: skip
    made.record(
        "weights_path", time=_at(1), inode=7, size=64 * MIB, device=1, tgid=PID, parts=3, part_1="m.gguf",
        part_2="models", part_3="/",
    )  # fmt: skip
    made.record(
        "weights_file", time=_at(2_000), began=_at(1), inode=7, size=64 * MIB, pages_first=8192, pages_last=16384,
        gets=64, get_pages=16384, readahead_waited=8, readahead_ahead=50, window=32, device=1, tgid=PID,
    )  # fmt: skip
    made.record(
        "weights_request", time=_at(2_000), began=_at(1), inode=7, bytes=32 * MIB, requests=256, answered=256,
        latency=512_000_000, latency_max=9_000_000, depth=512, upto_128k=256, device=1, source=1,
    )  # fmt: skip
    return made.fact("command", argv=["python3", "load.py"], exit_status=0, pid=PID)


def document(of: Load | None = None, **more: Any) -> dict[str, Any]:
    """Return the document of a load, by default that of a thread that waits for a file in small requests."""
    if of is None:
        asked = (requests(4_096, 128 * KIB, depth=2.0),)
        of = load(
            [thread(blocked={"fault": 8_000.0}, samples={"user": 100})],
            [file(requests=asked, mount=mount(), cached_after=GIB, forward=100, near=100)],
        )
    said = identity(of)
    found = judge(Case(load=of, identity=said, memory=NO_LIMIT)) if said else []
    return build(builder().recording(), of, NO_LIMIT, found, **more)
