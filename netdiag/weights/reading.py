# SPDX-License-Identifier: Apache-2.0
"""From a recording to a `Load`. Pure: what is read of the machine itself is added by `surroundings`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from netdiag.errors import InputUnreadable
from netdiag.recording.reader import Recording, Records
from netdiag.weights.model import CLASSES, Copies, File, Load, Point, Requests, Thread

__all__ = ["load_of"]

_PAGE = 4096
_MS = 1e-6
_SOURCES = {1: "device", 2: "fuse", 3: "direct"}
_SIZES = {
    "upto_4k": "4k",
    "upto_16k": "16k",
    "upto_64k": "64k",
    "upto_128k": "128k",
    "upto_256k": "256k",
    "upto_512k": "512k",
    "upto_1m": "1m",
    "above_1m": "more",
}
_PARTS = 12
_MOST_UNANSWERED = 64


def load_of(recording: Recording) -> Load:
    """Return what the probe `weights` recorded; InputUnreadable where it did not run."""
    threads = recording.records("weights_thread")
    files = recording.records("weights_file")
    if threads is None or files is None:
        raise InputUnreadable("this recording holds nothing about weights", hint="make one with `netdiag weights`")
    lacking = {"copying", "blocked_fault", "comm"} - set(threads.dtype.names or ())
    lacking |= {"around_forward", "get_pages", "size"} - set(files.dtype.names or ())
    if lacking:
        raise InputUnreadable(f"this recording was made by another netdiag: {', '.join(sorted(lacking))} is missing")
    start = recording.start_ns
    end = recording.end_ns
    last = max([start, *(int(value) for value in threads["time"])])
    costs = recording.facts_of("cost")
    coverage = recording.facts_of("coverage")
    losses = recording.facts_of("loss")
    found = sorted(_threads(threads, start), key=_brings, reverse=True)
    return Load(
        threads=tuple(found),
        files=tuple(sorted(_files(recording, files, start), key=_weight, reverse=True)),
        span_ms=((end or last) - start) * _MS,
        points=tuple(_points(threads, start)),
        copies=_copies(threads),
        lost={f["probe"]: int(f["lost"]) for f in losses if f.get("lost")} if losses else None,
        kernel_ms=_kernel_ms(costs[-1]) if costs else None,
        recorder_ms=costs[-1].get("recorder_cpu_ms") if costs else None,
        probes=tuple(coverage[-1].get("probes", ())) if coverage else (),
    )


def _copies(records: Records) -> Copies | None:
    """Return the copies of all threads; None where there were none."""
    rows = list(_last(records, "tgid", "tid", "began"))
    members = ("copies", "copy_bytes", "copying", "copies_small", "copy_file_bytes", "copy_device_bytes")
    count, size, took, small, files, pinned = (sum(int(one[name]) for one in rows) for name in members)
    if not count:
        return None
    return Copies(
        count=count,
        bytes=size,
        took_ms=took * _MS,
        small=small,
        from_files=files,
        from_pinned=pinned,
        from_pageable=size - files - pinned,
    )


def _brings(thread: Thread) -> float:
    return thread.read_bytes + thread.device_bytes + _PAGE * (thread.minor_faults + thread.major_faults)


def _weight(file: File) -> int:
    asked = sum(one.bytes for one in file.requests)
    return max(asked, file.get_bytes, file.around_bytes, min(file.size, file.faults * _PAGE))


def _kernel_ms(cost: Mapping[str, Any]) -> float | None:
    whole, programs = cost.get("kernel_ms"), cost.get("programs") or []
    timed = sum(int(one["ns"]) for one in programs)
    mine = sum(int(one["ns"]) for one in programs if str(one["name"]).startswith("weights_"))
    return None if whole is None or not timed else float(whole) * mine / timed


def _last(records: Records, *names: str) -> Iterator[Any]:
    """Yield the last record of each group: the records are cumulative."""
    latest: dict[tuple[int, ...], Any] = {}
    for record in records:
        latest[tuple(int(record[name]) for name in names)] = record
    yield from latest.values()


def _threads(records: Records, start: int) -> Iterator[Thread]:
    for one in _last(records, "tgid", "tid", "began"):
        blocked = {name: float(one[f"blocked_{name}"]) * _MS for name in CLASSES if name != "user"}
        yield Thread(
            pid=int(one["tgid"]),
            tid=int(one["tid"]),
            comm=bytes(one["comm"]).decode("utf-8", "backslashreplace"),
            began_ms=(int(one["began"]) - start) * _MS,
            ended_ms=(int(one["time"]) - start) * _MS,
            run_ms=float(one["run"]) * _MS,
            ready_ms=float(one["ready"]) * _MS,
            blocked_ms=blocked,
            copying_ms=float(one["copying"]) * _MS,
            slept_ms=float(one["slept"]) * _MS,
            samples={name: int(one[f"sampled_{name}"]) for name in CLASSES},
            read_bytes=int(one["read_bytes"]),
            device_bytes=int(one["device_bytes"]),
            reads=int(one["reads"]),
            minor_faults=int(one["minor_faults"]),
            major_faults=int(one["major_faults"]),
            waits_fault=int(one["waits_fault"]),
            waits_read=int(one["waits_read"]),
            reclaim_ms=float(one["reclaim"]) * _MS if "reclaim" in (records.dtype.names or ()) else None,
        )


def _files(recording: Recording, records: Records, start: int) -> Iterator[File]:
    paths = {(int(p["device"]), int(p["inode"])): _path(p) for p in _rows(recording, "weights_path")}
    asked: dict[tuple[int, int], list[Requests]] = {}
    course: dict[tuple[int, ...], list[tuple[int, float]]] = {}
    group = ("device", "inode", "tgid", "source")
    for one in _rows(recording, "weights_request"):
        of = course.setdefault(tuple(int(one[name]) for name in group), [])
        of.append((int(one["bytes"]), float(one["latency"]) * _MS))
    for one in _last(_records(recording, "weights_request"), *group):
        made = _requests(one, start, course[tuple(int(one[name]) for name in group)])
        asked.setdefault((int(one["device"]), int(one["inode"])), []).append(made)
    for one in _last(records, "device", "inode", "tgid"):
        key = (int(one["device"]), int(one["inode"]))
        path, whole = paths.get(key, (f"inode {key[1]}", False))
        pid = int(one["tgid"])
        pages = int(one["pages_last"])
        yield File(
            pid=pid,
            device=key[0],
            inode=key[1],
            path=path,
            whole_path=whole,
            size=int(one["size"]),
            began_ms=(int(one["began"]) - start) * _MS,
            ended_ms=(int(one["time"]) - start) * _MS,
            cached_before=min(int(one["pages_first"]) * _PAGE, int(one["size"])),
            cached_after=min(pages * _PAGE, int(one["size"])) if pages else None,
            faults=int(one["faults"]),
            forward=int(one["faults_forward"]),
            backward=int(one["faults_backward"]),
            near=int(one["faults_near"]),
            around=int(one["around"]),
            around_bytes=int(one["around_pages"]) * _PAGE,
            around_forward=int(one["around_forward"]),
            around_backward=int(one["around_backward"]),
            around_near=int(one["around_near"]),
            readahead_waited=int(one["readahead_waited"]),
            readahead_ahead=int(one["readahead_ahead"]),
            readahead_backward=int(one["readahead_backward"]),
            readahead_window=int(one["window"]) * _PAGE,
            gets=int(one["gets"]),
            get_bytes=int(one["get_pages"]) * _PAGE,
            gets_backward=int(one["gets_backward"]),
            thread_changes=int(one["thread_changes"]),
            samples=int(one["sampled"]),
            requests=tuple(r for r in asked.get(key, []) if r.pid in (None, pid)),
        )


def _requests(one: Any, start: int, course: Sequence[tuple[int, float]]) -> Requests:
    count = int(one["requests"])
    return Requests(
        source=_SOURCES.get(int(one["source"]), "device"),
        pid=int(one["tgid"]) or None,
        count=count,
        bytes=int(one["bytes"]),
        answered=int(one["answered"]),
        latency_ms=float(one["latency"]) * _MS,
        latency_max_ms=float(one["latency_max"]) * _MS,
        depth=_depth(float(one["depth"]) / count, count - int(one["answered"])) if count else None,
        sizes={name: int(one[member]) for member, name in _SIZES.items() if one[member]},
        began_ms=(int(one["began"]) - start) * _MS,
        ended_ms=(int(one["time"]) - start) * _MS,
        course=tuple(course),
    )


def _depth(mean: float, unanswered: int) -> float | None:
    """Return how many requests were under way, at least: one whose end was not seen counts as under way for good."""
    return max(1.0, mean - unanswered) if unanswered <= _MOST_UNANSWERED else None


def _path(record: Any) -> tuple[str, bool]:
    """Return the path inside its file system, and whether it is all there: the root has the name /."""
    parts: list[str] = []
    for number in range(1, min(int(record["parts"]), _PARTS) + 1):
        name = bytes(record[f"part_{number}"]).decode("utf-8", "backslashreplace")
        if name == "/":
            return "/" + "/".join(reversed(parts)), True
        parts.append(name)
    return "/".join(reversed(parts)) or f"inode {int(record['inode'])}", False


def _records(recording: Recording, stream: str) -> Records:
    records = recording.records(stream)
    return np.zeros(0, np.dtype([("none", "u1")])) if records is None else records


def _rows(recording: Recording, stream: str) -> Iterable[Any]:
    return _records(recording, stream)


def _points(records: Records, start: int) -> Iterator[Point]:
    """Yield the sums over all threads, at each record of one: a curve."""
    sums: dict[tuple[int, int], tuple[int, int, int]] = {}
    for one in sorted(records, key=lambda record: int(record["time"])):
        key = (int(one["tgid"]), int(one["tid"]))
        faults = int(one["minor_faults"]) + int(one["major_faults"])
        sums[key] = (int(one["device_bytes"]), int(one["read_bytes"]), faults)
        device, read, total = (sum(values) for values in zip(*sums.values(), strict=True))
        yield Point(at_ms=(int(one["time"]) - start) * _MS, device_bytes=device, read_bytes=read, faults=total)
