# SPDX-License-Identifier: Apache-2.0
"""Memory snapshots of PyTorch's allocator: how its free memory is cut up.

A snapshot is a pickle of plain dicts and lists, or the same as JSON. Pickles can run code: this reader refuses every
global name, so that nothing of a file is ever executed.
"""

from __future__ import annotations

import io
import json
import os
import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netdiag.errors import InputUnreadable
from netdiag.findings import Finding, Severity
from netdiag.units import format_bytes
from netdiag.weights.case import make

__all__ = ["Fragmentation", "claims", "fragmentation", "read_snapshot"]

_MOST_BYTES = 512 << 20
_MOST_SEGMENTS = 1_000_000
_LEAST_FREE = 256 << 20
_FREE = ("inactive",)


class _Plain(pickle.Unpickler):
    """Builds numbers, texts, lists and dicts, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it asks for {module[:40]}.{name[:40]}")

    def persistent_load(self, pid: Any) -> Any:  # noqa: ARG002
        raise pickle.UnpicklingError("it refers to something outside")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragmentation:
    """Sums over the segments of one device."""

    device: int
    reserved: int
    allocated: int
    free: int
    """Reserved and not in use."""
    blocks: int
    """Free ones."""
    largest: int
    hard: int
    """Free bytes between live blocks of their segment: no cache can give them back."""
    soft: int
    """Free bytes of segments without any live block: emptying the cache gives them back."""
    streams: int
    """Streams that free blocks belong to; a block serves its own stream only."""


def read_snapshot(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """Return a snapshot; InputUnreadable for anything but plain values with segments."""
    file = Path(path)
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise InputUnreadable(f"{file}: larger than {_MOST_BYTES >> 20} MiB")
        data = file.read_bytes()
    except OSError as error:
        raise InputUnreadable(f"{file}: {error.strerror}") from error
    try:
        found = json.loads(data) if data[:1] in (b"{", b"[") else _Plain(io.BytesIO(data)).load()
    except InputUnreadable:
        raise
    except Exception as error:  # noqa: BLE001 - a broken pickle raises whatever its opcodes fall over
        raise InputUnreadable(f"{file}: no memory snapshot: {str(error)[:120]}") from None
    if isinstance(found, list):
        found = {"segments": found}
    if not isinstance(found, dict) or not isinstance(found.get("segments"), list):
        raise InputUnreadable(f"{file}: no memory snapshot: it has no segments")
    if len(found["segments"]) > _MOST_SEGMENTS:
        raise InputUnreadable(f"{file}: more than {_MOST_SEGMENTS:,} segments")
    return found


def fragmentation(snapshot: Mapping[str, Any]) -> list[Fragmentation]:
    """Return the sums per device; InputUnreadable where sizes are no numbers."""
    by_device: dict[int, list[Mapping[str, Any]]] = {}
    for segment in snapshot["segments"]:
        if not isinstance(segment, dict):
            raise InputUnreadable("a segment of the snapshot is no table")
        by_device.setdefault(_whole(segment, "device", 0), []).append(segment)
    return [_sums(device, segments) for device, segments in sorted(by_device.items())]


def _sums(device: int, segments: list[Mapping[str, Any]]) -> Fragmentation:
    reserved = allocated = blocks = largest = hard = soft = 0
    streams = set()
    for segment in segments:
        reserved += _whole(segment, "total_size")
        sizes = list(_blocks(segment))
        live = sum(size for size, free in sizes if not free)
        allocated += live
        for size, free in sizes:
            if not free:
                continue
            blocks += 1
            largest = max(largest, size)
            streams.add(_whole(segment, "stream", 0))
            if live:
                hard += size
            else:
                soft += size
    return Fragmentation(
        device=device,
        reserved=reserved,
        allocated=allocated,
        free=hard + soft,
        blocks=blocks,
        largest=largest,
        hard=hard,
        soft=soft,
        streams=len(streams),
    )


def _blocks(segment: Mapping[str, Any]) -> Iterator[tuple[int, bool]]:
    blocks = segment.get("blocks")
    if not isinstance(blocks, list):
        raise InputUnreadable("a segment of the snapshot has no blocks")
    for block in blocks:
        if not isinstance(block, dict):
            raise InputUnreadable("a block of the snapshot is no table")
        yield _whole(block, "size"), str(block.get("state", "")).startswith(_FREE)


def _whole(table: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = table.get(name, default)
    if type(value) is not int or value < 0:
        raise InputUnreadable(f"{name} in the snapshot is no size")
    return value


def claims(parts: Iterable[Fragmentation], failed: int | None = None) -> Iterator[Finding]:
    """Yield a finding for each device whose free memory cannot be given; `failed`: size that was asked in vain.

    Without that size it takes a fifth of the memory in pieces of which the largest is not half.
    """
    for one in parts:
        if failed is not None:
            cut = one.largest < failed <= one.free
        else:
            cut = one.free >= max(0.2 * one.reserved, _LEAST_FREE) and one.largest < 0.5 * one.free
        if not cut:
            continue
        kinds = {"between live blocks": one.hard, "in segments that are free": one.soft}
        kind = max(kinds, key=lambda name: kinds[name])
        yield make(
            "gpu.fragmentation", severity=Severity.INFO if failed is None else Severity.WARNING,
            confidence=0.9 if failed is not None else 0.6, wall_ms=None,
            cause="streams" if one.streams > 1 and one.soft > one.hard else "hard" if one.hard >= one.soft else "soft",
            values={"reserved": format_bytes(one.reserved), "allocated": format_bytes(one.allocated),
                    "largest": format_bytes(one.largest), "free": format_bytes(one.free), "kind": f"mostly {kind}",
                    "blocks": f"{one.blocks:,}"},
            what_if=f"in one piece {format_bytes(one.free)} could be given",
            evidence=[("gpu", str(one.device), _told(one))],
        )  # fmt: skip


def _told(one: Fragmentation) -> str:
    free = f"{format_bytes(one.hard)} between live blocks, {format_bytes(one.soft)} in free segments"
    return f"{one.streams} streams; {free}"
