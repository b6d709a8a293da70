# SPDX-License-Identifier: Apache-2.0
"""GPUs as NVML showed them: the child that looks, its lines as curves, phases of the start, and findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from netdiag.findings import Finding, Severity
from netdiag.units import UNKNOWN, format_bytes, format_ms
from netdiag.weights.aside import Aside
from netdiag.weights.case import make

__all__ = ["Child", "Gpu", "claims", "gpus_of", "phases_of", "to_json"]

_STOP_S = 1.5
_MIB = 1 << 20
_STEP = 0.05
"""A change of the memory by this share of the total, between two looks, is a step."""
_THROTTLED = {0x4: "power cap", 0x8: "hardware slowdown", 0x20: "thermal limit", 0x40: "hardware thermal slowdown",
              0x80: "hardware power brake"}  # fmt: skip


class Child(Aside):
    """The process that looks."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        super().__init__("netdiag.weights.nvml", stop_s=_STOP_S, environment=environment)


@dataclass(slots=True)
class Gpu:
    """What was seen of one GPU; index -1: of the driver as a whole."""

    index: int
    name: str | None = None
    driver: str | None = None
    mig: bool = False
    total: int | None = None
    samples: list[tuple[float, int, int]] = field(default_factory=list)
    """(ms since the start, used, free)."""
    counters: list[tuple[float, int, int]] = field(default_factory=list)
    """(ms, bytes from the device, bytes to it), cumulative."""
    replays: list[int] = field(default_factory=list)
    links: list[tuple[int, int]] = field(default_factory=list)
    link_most: tuple[int, int] | None = None
    reasons: int = 0
    """Clock event reasons, or'ed."""
    processes: dict[int, int | None] = field(default_factory=dict)
    events: list[tuple[float, str, int]] = field(default_factory=list)
    trouble: str | None = None


def gpus_of(rows: Sequence[Mapping[str, Any]], start_ns: int) -> tuple[list[Gpu], list[tuple[str, str]]]:
    """Return the GPUs, and what could not be looked at with the reason."""
    found: dict[int, Gpu] = {}
    missing = [("GPU", str(row["trouble"])) for row in rows if row.get("gpu") == -1 and "trouble" in row]
    for row in rows:
        at_ms = (row.get("at_ns", start_ns) - start_ns) / 1e6
        index = int(row.get("gpu", -1))
        if "event" in row:
            if index < 0 and len(found) == 1:  # it can be of no other
                index = next(iter(found))
            if index >= 0:
                gpu = found.setdefault(index, Gpu(index=index))
                gpu.events.append((at_ms, str(row["event"]), int(row["data"])))
            else:
                missing.append(("GPU", f"which one reported {row['event']} {row['data']} at {format_ms(at_ms)}"))
        elif index >= 0:
            _take(found.setdefault(index, Gpu(index=index)), row, at_ms)
    driver = next((row["driver"] for row in rows if "driver" in row), None)
    hung = [row for row in rows if "hung" in row]
    words = None
    if hung:
        last = hung[-1]
        words = f"the driver did not answer {last['hung']} for {format_ms((last['at_ns'] - last['since_ns']) / 1e6)}"
        missing.append(("GPU", words))
    for gpu in found.values():
        gpu.driver = driver
        gpu.trouble = gpu.trouble or words
    return sorted(found.values(), key=lambda gpu: gpu.index), missing


def _take(gpu: Gpu, row: Mapping[str, Any], at_ms: float) -> None:
    if "trouble" in row:
        if row.get("code") == 15 or gpu.trouble is None:
            gpu.trouble = f"{row.get('call', 'NVML')}: {row['trouble']}"
        return
    gpu.name = row.get("name") or gpu.name
    gpu.mig = bool(row.get("mig", gpu.mig))
    if row.get("link_most") and all(row["link_most"]):
        gpu.link_most = (row["link_most"][0], row["link_most"][1])
    if "used" in row:
        gpu.total = row["total"]
        gpu.samples.append((at_ms, row["used"], row["free"]))
    if "tx" in row and "rx" in row:
        gpu.counters.append((at_ms, row["tx"], row["rx"]))
    if "replays" in row:
        gpu.replays.append(row["replays"])
    if row.get("link") and all(row["link"]):
        gpu.links.append((row["link"][0], row["link"][1]))
    gpu.reasons |= int(row.get("reasons") or 0)
    for pid, used in row.get("processes", ()):
        gpu.processes[pid] = used


def phases_of(gpu: Gpu) -> list[dict[str, Any]]:
    """Return the phases of a start by the curve of memory: context, weights, KV cache, other.

    The KV cache is the last single step of at least 5 % of the memory after a rise; the rise before is weights.
    """
    samples = gpu.samples
    if len(samples) < 4 or not gpu.total:
        return []
    steps = [(after[1] - before[1], before[0], after[0]) for before, after in pairwise(samples)]
    floor, least = samples[0][1], max(gpu.total * 0.001, 8 * _MIB)
    rises = [step for step in steps if step[0] >= least]
    if not rises:
        return []
    leaps = [step for step in steps if step[0] >= _STEP * gpu.total]
    step = leaps[-1] if leaps and len(rises) > 2 and leaps[-1][1] > rises[0][1] else None
    before = [rise for rise in rises if step is None or rise[2] <= step[1]]
    phases = []
    if before:
        began, ended = before[0][1], before[-1][2]
        phases += [("context", samples[0][0], began), ("weights", began, ended)]
    if step is not None:
        phases += [("other", phases[-1][2] if phases else samples[0][0], step[1]), ("KV cache", step[1], step[2])]
    phases.append(("ready", phases[-1][2] if phases else floor, samples[-1][0]))
    return [
        {"name": name, "began_ms": round(began, 3), "ended_ms": round(ended, 3)}
        for name, began, ended in phases
        if ended > began
    ]


def claims(gpus: Sequence[Gpu]) -> Iterator[Finding]:
    """Yield the findings about GPUs."""
    for gpu in gpus:
        yield from _link(gpu)
        yield from _throttled(gpu)
        yield from _headroom(gpu)


def _link(gpu: Gpu) -> Iterator[Finding]:
    replays = gpu.replays[-1] - gpu.replays[0] if len(gpu.replays) > 1 else None
    moved = len(gpu.counters) > 1 and gpu.counters[-1][2] - gpu.counters[0][2] >= 256 * _MIB
    best = max(gpu.links, default=None)
    narrow = best is not None and gpu.link_most is not None and moved and (
        best[0] < gpu.link_most[0] or max(link[1] for link in gpu.links) < gpu.link_most[1]
    )  # fmt: skip
    if not narrow and (replays is None or replays < 100):
        return
    now = _link_words(best)
    yield make(
        "gpu.pcie-degraded", severity=Severity.WARNING, confidence=0.85 if narrow else 0.6, wall_ms=None,
        values={"gpu": str(gpu.index), "now": now, "best": _link_words(gpu.link_most),
                "replays": UNKNOWN if replays is None else f"{replays:,}"},
        what_if="at full width and speed copies take as much less",
    )  # fmt: skip


def _link_words(link: tuple[int, int] | None) -> str:
    return "unknown" if link is None else f"PCIe {link[0]} x{link[1]}"


def _throttled(gpu: Gpu) -> Iterator[Finding]:
    why = [name for bit, name in _THROTTLED.items() if gpu.reasons & bit]
    why += [f"{kind} {data}" if kind == "Xid" else kind for _, kind, data in gpu.events[:3]]
    if gpu.trouble and "lost" in gpu.trouble.lower():
        why.append("the GPU is lost")
    if not why:
        return
    grave = bool(gpu.events) or "lost" in why[-1]
    yield make(
        "gpu.throttled-or-xid", severity=Severity.CRITICAL if grave else Severity.WARNING, confidence=0.9,
        wall_ms=None, values={"gpu": str(gpu.index), "why": ", ".join(dict.fromkeys(why))},
        what_if="at its full clocks the GPU is as much faster" if not grave else None,
        evidence=[("gpu", str(gpu.index), f"{kind} {data} at {format_ms(at)}") for at, kind, data in gpu.events[:3]],
    )  # fmt: skip


def _headroom(gpu: Gpu) -> Iterator[Finding]:
    phases = {one["name"]: one for one in phases_of(gpu)}
    if "KV cache" not in phases or not gpu.total:
        return
    free = min(sample[2] for sample in gpu.samples)
    if free >= 0.03 * gpu.total:
        return
    began, ended = phases["KV cache"]["began_ms"], phases["KV cache"]["ended_ms"]
    inside = [used for at, used, _ in gpu.samples if began - 1 <= at <= ended + 1]
    yield make(
        "gpu.memory-headroom", severity=Severity.WARNING, confidence=0.7, wall_ms=None,
        values={"gpu": str(gpu.index), "free": format_bytes(free), "total": format_bytes(gpu.total),
                "step": format_bytes(max(inside) - min(inside)), "fits": "a lower share"},
        what_if="a lower share leaves room for peaks",
    )  # fmt: skip


def to_json(gpu: Gpu) -> dict[str, Any]:
    """Return a GPU as the document has it."""
    return {
        "index": gpu.index,
        "name": gpu.name,
        "driver": gpu.driver,
        "mig": gpu.mig,
        "total_bytes": gpu.total,
        "samples": [{"at_ms": round(at, 3), "used_bytes": used} for at, used, _ in gpu.samples],
        "received_bytes": gpu.counters[-1][2] - gpu.counters[0][2] if len(gpu.counters) > 1 else None,
        "link": {"now": list(max(gpu.links)) if gpu.links else None, "most": list(gpu.link_most or ()) or None},
        "processes": [{"pid": pid, "used_bytes": used} for pid, used in sorted(gpu.processes.items())],
        "events": [{"at_ms": round(at, 3), "kind": kind, "data": data} for at, kind, data in gpu.events],
        "trouble": gpu.trouble,
    }
