# SPDX-License-Identifier: Apache-2.0
"""The document `netdiag.weights/1`. Pure: what was measured in, plain JSON values out; unknown is None."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from netdiag import __version__
from netdiag.findings import Finding
from netdiag.units import format_bytes, format_ms
from netdiag.values import rfc3339
from netdiag.weights.case import is_weights
from netdiag.weights.identity import Identity, identity
from netdiag.weights.model import Copies, File, Load, Requests, Thread
from netdiag.weights.surroundings import Memory
from netdiag.weights.walk import walk

__all__ = ["SCHEMA", "build"]

SCHEMA = "netdiag.weights/1"
_MOST_POINTS = 2000
_ATTACHED = "attached"


class Source(Protocol):
    """What is needed of a recording."""

    @property
    def header(self) -> Mapping[str, Any]:
        """The header JSON."""

    @property
    def end(self) -> Mapping[str, Any] | None:
        """The end JSON, None where the recording breaks off."""

    def facts_of(self, kind: str) -> list[dict[str, Any]]:
        """Facts of a kind."""


def build(  # noqa: PLR0913 - what others measured beside the load
    source: Source,
    load: Load,
    memory: Memory,
    findings: Iterable[Finding],
    *,
    ignored: Sequence[Mapping[str, Any]] = (),
    gpus: Sequence[Mapping[str, Any]] = (),
    phases: Sequence[Mapping[str, Any]] = (),
    missing: Sequence[tuple[str, str]] = (),
    verified: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return the document of one load."""
    header = source.header
    said = identity(load)
    commands = source.facts_of("command")
    command = header.get("command")
    weights = [file for file in load.files if is_weights(file)]
    bytes_ = sum(file.size for file in weights)
    return {
        "schema": SCHEMA,
        "version": __version__,
        "started": rfc3339(int(header["clock"]["realtime_ns"])),
        "duration_ms": _number(load.span_ms),
        "exit_reason": str(source.end["exit_reason"]) if source.end else "the recording breaks off",
        "host": header.get("host"),
        "target": header.get("target") or {},
        "command": {"argv": command["argv"], "exit_status": commands[-1].get("exit_status") if commands else None}
        if command
        else None,
        "tier": _tier(load, said, missing),
        "load": _thread(load, said.thread) if said else None,
        "threads": [_thread(load, thread) for thread in load.threads],
        "files": [_file(file) for file in load.files],
        "copies": _copies(load.copies),
        "curve": [_point(point) for point in _thinned(load.points)],
        "ready_ms": _number(load.ready_ms),
        "phases": list(phases),
        "limit": _limit(load, said),
        "gpus": list(gpus),
        "restart": _restart(load, memory),
        "verified": list(verified),
        "findings": [finding.to_json() for finding in findings],
        "ignored": list(ignored),
        "summary": {
            "wall_ms": _number(said.wall_ms) if said else None,
            "bytes": bytes_,
            "files": len(weights),
            "blocked_share": _share(
                said.ms("fault-blocked", "read-blocked", "populate-blocked", "blocked"), said.wall_ms
            )
            if said
            else None,
            "cached_share": None
            if any(file.cached_before is None for file in weights)
            else _share(sum(file.cached_before or 0 for file in weights), bytes_),
        },
    }


def _copies(copies: Copies | None) -> dict[str, Any] | None:
    if copies is None:
        return None
    return {
        "count": copies.count,
        "bytes": copies.bytes,
        "ms": round(copies.took_ms, 3),
        "small": copies.small,
        "from_files_bytes": copies.from_files,
        "from_pinned_bytes": copies.from_pinned,
        "from_pageable_bytes": copies.from_pageable,
    }


def _number(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)


def _share(part: float, whole: float) -> float | None:
    return round(part / whole, 4) if whole > 0 else None


def _tier(load: Load, said: Identity | None, missing: Sequence[tuple[str, str]]) -> dict[str, Any]:
    lacking: list[dict[str, Any]] = [{"what": what, "why": why} for what, why in missing]
    lacking += [
        {"what": str(probe.get("name")), "why": probe.get("reason")}
        for probe in load.probes
        if probe.get("state") != _ATTACHED
    ]
    own = load.kernel_ms if load.tier == "light" else load.recorder_ms
    return {
        "name": load.tier,
        "missing": lacking,
        "probes": list(load.probes),
        "lost": None if load.lost is None else dict(load.lost),
        "kernel_ms": _number(load.kernel_ms),
        "recorder_cpu_ms": _number(load.recorder_ms),
        "looks_cpu_ms": _number(load.looks_ms),
        "share_of_wall": _share(own, said.wall_ms) if said and own is not None else None,
    }


def _thread(load: Load, thread: Thread) -> dict[str, Any]:
    one = identity(Load(threads=(thread,), files=(), span_ms=load.span_ms))
    parts = one.parts if one else ()
    return {
        "pid": thread.pid,
        "tid": thread.tid,
        "comm": thread.comm,
        "wall_ms": round(thread.wall_ms, 3),
        "time": [
            {
                "part": part.name,
                "ms": round(part.ms, 3),
                "share": _number(part.share, 4),
                "margin_ms": _number(part.margin_ms),
            }
            for part in parts
        ],
        "samples": sum(thread.samples.values()),
        "minor_faults": thread.minor_faults,
        "major_faults": thread.major_faults,
        "waits_fault": thread.waits_fault if thread.looks is None else None,
        "reads": thread.reads,
        "read_bytes": thread.read_bytes,
        "device_bytes": thread.device_bytes,
        "reclaim_ms": _number(thread.reclaim_ms),
    }


def _file(file: File) -> dict[str, Any]:
    way = walk(file)
    mount = file.mount
    seen = file.watched
    return {
        "path": file.path,
        "format": file.format,
        "weights": is_weights(file),
        "bytes": file.size,
        "pid": file.pid,
        "filesystem": {
            "kind": mount.kind,
            "point": mount.point,
            "source": mount.source,
            "layer": mount.layer,
            "readahead_bytes": mount.readahead_bytes,
        }
        if mount
        else None,
        "cached_before": file.cached_before,
        "cached_after": file.cached_after,
        "evicted": file.evicted,
        "walk": {
            "direction": way.direction,
            "forward": way.forward,
            "backward": way.backward,
            "source": way.source,
        },
        "faults": {"asked": file.faults if seen else None, "around": file.around if seen else None},
        "reads": {"bytes": file.get_bytes if seen else None},
        "readahead": {
            "waited": file.readahead_waited if seen else None,
            "ahead": file.readahead_ahead if seen else None,
            "window_bytes": file.readahead_window or None,
        },
        "requests": [_requests(one) for one in file.requests],
        "thread_changes": file.thread_changes if seen else None,
        "replaced": file.replaced,
        "trouble": file.trouble,
        "tensors": [dict(tensor) for tensor in file.tensors],
    }


def _requests(one: Requests) -> dict[str, Any]:
    return {
        "source": one.source,
        "count": one.count,
        "bytes": one.bytes,
        "mean_bytes": _number(one.mean_bytes, 0),
        "mean_ms": _number(one.mean_ms, 4),
        "max_ms": _number(one.latency_max_ms),
        "depth": _number(one.depth, 2),
        "sizes": dict(one.sizes),
    }


def _thinned(points: Sequence[Any]) -> Sequence[Any]:
    step = max(1, len(points) // _MOST_POINTS)
    return points[::step]


def _point(point: Any) -> dict[str, Any]:
    return {
        "at_ms": round(point.at_ms, 3),
        "device_bytes": point.device_bytes,
        "read_bytes": point.read_bytes,
        "faults": point.faults,
    }


_STAGES = (
    ("the source of the files", ("fault-blocked", "read-blocked", "populate-blocked", "blocked")),
    ("the program itself", ("user",)),
    ("the kernel's work: copies and page faults", ("fault-cpu", "read-cpu", "populate-cpu", "system-cpu")),
    ("copies to the GPU", ("gpu-copies", "driver-cpu", "driver-blocked")),
    ("other threads and programs on the processors", ("waiting-for-processor",)),
    ("something that it slept for", ("asleep",)),
)


def _limit(load: Load, said: Identity | None) -> str | None:
    """Return the stage that took most, with the rate of the source where that is known."""
    if said is None or said.wall_ms <= 0:
        return None
    times = [(said.ms(*names), stage) for stage, names in _STAGES]
    most, stage = max(times)
    if most < 0.3 * said.wall_ms:
        return None
    fetched = sum(one.bytes for file in load.files for one in file.requests)
    size = sum(file.size for file in load.files if is_weights(file))
    rate = f", {format_bytes(fetched / said.wall_ms * 1000)}/s" if fetched > size / 2 and stage is _STAGES[0][0] else ""
    return f"{stage}{rate}: {format_ms(most)} of {format_ms(said.wall_ms)}"


def _restart(load: Load, memory: Memory) -> dict[str, Any] | None:
    """Return whether the next load finds the files in memory; None where that is not known."""
    unique = {(file.device, file.inode): file for file in load.files if is_weights(file)}.values()
    if not unique or any(file.cached_after is None for file in unique):
        return None
    size = sum(file.size for file in unique)
    warm = sum(file.cached_after or 0 for file in unique)
    limit = memory.limit if memory.limit is not None and memory.limit < size else None
    room = f"; memory limit {format_bytes(limit)}" if limit else ""
    if warm >= 0.95 * size:
        says = f"{format_bytes(warm)} in memory{room}: the next load is warm"
    elif warm >= 0.3 * size:
        says = f"{format_bytes(warm)} of {format_bytes(size)} in memory{room}: the next load is partly warm"
    else:
        says = f"{format_bytes(warm)} of {format_bytes(size)} in memory{room}: the next load is cold"
    return {"says": says, "warm_bytes": warm, "bytes": size, "limit_bytes": memory.limit}
