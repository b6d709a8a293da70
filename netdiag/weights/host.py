# SPDX-License-Identifier: Apache-2.0
"""Findings about what surrounds a load: pages and nodes of its memory, memory to be freed first, the whole start."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from netdiag.findings import Finding, Severity
from netdiag.units import format_bytes, format_ms, format_percent
from netdiag.weights.case import MIB, PAGE, Case, finding
from netdiag.weights.model import Residents

__all__ = ["CHECKS"]

_LARGE = 512 * MIB
_RECLAIM = 0.05
_START_MS = 2_000.0
_LOADING = (
    "fault-cpu", "fault-blocked", "read-cpu", "read-blocked", "populate-cpu", "populate-blocked", "system-cpu",
    "blocked", "driver-cpu", "driver-blocked", "gpu-copies",
)  # fmt: skip


def _mine(case: Case) -> Residents | None:
    return next((one for one in case.load.made_of if one.pid == case.identity.thread.pid), None)


def _reclaim(case: Case) -> Iterator[Finding]:
    spent = case.identity.thread.reclaim_ms
    if spent is None or case.share(spent) < _RECLAIM or spent < 20:
        return
    yield finding(
        case, "weights.reclaim-stall", cost_ms=spent, confidence=0.85,
        what_if=f"with memory free about {format_ms(case.identity.wall_ms - spent)}",
    )  # fmt: skip


def _huge_pages(case: Case) -> Iterator[Finding]:
    """Yield it where small pages cost faults; into which memory a file was read is told by another finding."""
    held = _mine(case)
    thread = case.identity.thread
    spent = case.identity.ms("fault-cpu", "read-cpu", "system-cpu")
    if held is None or held.anonymous < _LARGE or held.anonymous_huge >= 0.1 * held.anonymous:
        return
    if thread.minor_faults < 0.5 * held.anonymous / PAGE or case.share(spent) < 0.15:
        return
    yield finding(
        case, "weights.no-huge-pages", cost_ms=None, severity=Severity.INFO, confidence=0.6,
        values={"size": format_bytes(held.anonymous), "huge": format_bytes(held.anonymous_huge)},
        what_if="a fault for 2 MiB instead of 512",
    )  # fmt: skip


def _nodes(case: Case) -> Iterator[Finding]:
    held = _mine(case)
    if held is None or held.nodes is None or held.node is None:
        return
    pages = sum(held.nodes.values())
    remote = pages - held.nodes.get(held.node, 0)
    if pages < _LARGE or remote < 0.5 * pages:
        return
    yield finding(
        case, "weights.numa-remote", cost_ms=None, severity=Severity.INFO, confidence=0.6,
        values={"remote": format_percent(remote / pages)}, what_if="from its own node the processor reads faster",
    )  # fmt: skip


def _start(case: Case) -> Iterator[Finding]:
    ready = case.load.ready_ms
    if ready is None or ready < _START_MS or not case.files:
        return
    part = min(case.identity.ms(*_LOADING), ready)
    if part >= 0.3 * ready:
        return
    yield finding(
        case, "weights.startup-not-io", cost_ms=ready - part, severity=Severity.INFO, confidence=0.7,
        values={"part": format_ms(part), "wall": format_ms(ready)},
        what_if=f"faster storage saves at most {format_ms(part)} of {format_ms(ready)}",
    )  # fmt: skip


CHECKS: tuple[Callable[[Case], Iterator[Finding]], ...] = (_reclaim, _huge_pages, _nodes, _start)
