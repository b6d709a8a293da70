# SPDX-License-Identifier: Apache-2.0
"""Findings about what the program does itself: how it reads, copies and converts, and what of that was for nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from netdiag.findings import Finding, Severity
from netdiag.units import format_bytes, format_ms, format_percent
from netdiag.weights.case import KIB, LEAST_BYTES, MIB, PAGE, Case, after, finding, size
from netdiag.weights.model import File

__all__ = ["CHECKS"]

_SMALL_READ = 32 * KIB
_CALL_MS = 0.0005
"""A system call without its work: half a microsecond."""


def _small_reads(case: Case) -> Iterator[Finding]:
    thread = case.identity.thread
    mean = thread.read_bytes / thread.reads if thread.reads else 0.0
    rate = thread.reads / thread.wall_ms * 1000 if thread.wall_ms > 0 else 0.0
    if thread.reads < 2000 or thread.read_bytes < LEAST_BYTES / 2 or mean >= _SMALL_READ or rate < 5000:
        return
    if not any(case.mine(file) and (file.get_bytes + file.samples or not file.watched) for file in case.files):
        return
    cost = min(thread.reads * _CALL_MS, case.identity.ms("read-cpu", "read-blocked", "system-cpu", "cpu"))
    spent = case.identity.ms("read-cpu", "read-blocked", "system-cpu")
    yield finding(
        case,
        "weights.small-reads",
        cost_ms=cost,
        severity=Severity.WARNING if case.share(spent) >= 0.1 else Severity.INFO,
        confidence=0.9,
        count=thread.reads,
        of=thread.reads,
        values={"mean": size(mean), "rate": f"{rate:,.0f}", "spent": format_ms(spent)},
        what_if=f"reads of 1 MiB: {thread.reads:,} → {max(1, thread.read_bytes >> 20):,} calls, "
        f"at least {format_ms(cost)} less",
    )


def _first_touch(case: Case) -> Iterator[Finding]:
    thread = case.identity.thread
    if thread.read_bytes < LEAST_BYTES:
        return
    mine = [file for file in case.load.files if case.mine(file)]
    if any(file.mapped and not file.watched for file in mine):
        return  # /proc alone does not tell whose faults they are
    mapped = sum(file.faults + file.around for file in mine)
    fresh = thread.minor_faults + thread.major_faults - mapped
    pages = thread.read_bytes / PAGE
    if not 0.6 * pages <= fresh <= 1.5 * pages:
        return
    spent = case.identity.ms("read-cpu", "system-cpu")
    yield finding(
        case,
        "weights.destination-first-touch",
        cost_ms=None,
        severity=Severity.WARNING if case.share(spent) >= 0.15 else Severity.INFO,
        confidence=0.85,
        count=fresh,
        of=thread.minor_faults + thread.major_faults,
        values={"read": format_bytes(thread.read_bytes), "spent": format_ms(spent)},
        what_if=f"into one buffer that is used again: up to {format_ms(spent)} of reading less",
    )


def _direct(case: Case) -> Iterator[Finding]:
    for file in case.files:
        for one in file.asked("direct"):
            mean = one.mean_bytes
            if mean is None or one.bytes < LEAST_BYTES / 2:
                continue
            facts = {"requests": f"{one.count:,}", "mean": size(mean), "each": format_ms(one.mean_ms)}
            warm = (file.cached_before or 0) / file.size
            cost = case.identity.ms("read-blocked", "kernel-blocked") if case.mine(file) else None
            if warm >= 0.5:
                yield finding(
                    case, "weights.direct-io", file, cost_ms=cost, confidence=0.9, cause="warm",
                    values={**facts, "why": f"{format_percent(warm)} of it was in memory already"},
                    what_if="read through the page cache the copy in memory is used: two to seven times as fast",
                )  # fmt: skip
                return
            if mean < 1 * MIB and (one.depth or 1) <= 2:
                yield finding(
                    case, "weights.direct-io", file, cost_ms=cost, confidence=0.8, cause="small",
                    values={**facts, "why": f"requests of {size(mean)}, one after the other"},
                    what_if=after(case, one, 16 * MIB, 4),
                )  # fmt: skip
                return


def _overlay(case: Case) -> Iterator[Finding]:
    for file in case.files:
        if case.mine(file) and file.mount and file.mount.layer == "lower":
            fetched = sum(one.bytes for one in file.requests)
            if fetched < LEAST_BYTES / 4:
                continue
            yield finding(
                case, "weights.overlay", file, cost_ms=None, severity=Severity.INFO, confidence=0.9,
                values={"point": file.mount.point or "–"},
                what_if="from a volume of its own the layer's file system no longer decides how fast it is",
            )  # fmt: skip
            return


def _ranks(case: Case) -> Iterator[Finding]:
    by_file: dict[tuple[int, int], list[File]] = {}
    for file in case.files:
        by_file.setdefault((file.device, file.inode), []).append(file)
    for same in by_file.values():
        whole_size = same[0].size
        brought = sum(min(max(f.get_bytes, f.around_bytes, f.faults * PAGE), 2 * whole_size) for f in same)
        whole = [f for f in same if max(f.get_bytes, f.around_bytes) >= 0.7 * whole_size]
        if len(whole) < 2 or brought <= 1.5 * whole_size:
            continue
        yield finding(
            case, "weights.rank-amplification", same[0], cost_ms=None, severity=Severity.INFO, confidence=0.7,
            count=len(whole), of=len(same),
            values={"brought": format_bytes(brought), "times": f"{brought / whole_size:.1f}"},
            what_if=f"each process its own part: {format_bytes(whole_size)} instead of {format_bytes(brought)}",
        )  # fmt: skip
        return


def _prefetched(case: Case) -> Iterator[Finding]:
    for file in case.files:
        used = file.around + file.faults
        read_all = file.get_bytes >= 0.8 * file.size
        warm = (file.cached_before or 0) / file.size
        if case.mine(file) and warm >= 0.9 and read_all and used:
            yield finding(
                case, "weights.prefetch-wasted", file, cost_ms=None, severity=Severity.INFO, confidence=0.7,
                values={"cached": format_percent(warm)},
                what_if=f"without it {format_bytes(file.get_bytes)} less are copied",
            )  # fmt: skip
            return


def _deserialize(case: Case) -> Iterator[Finding]:
    user = case.identity.ms("user")
    brought = sum(max(f.get_bytes, f.around_bytes, f.cached_after or 0) for f in case.files if case.mine(f))
    if case.share(user) < 0.6 or case.share(case.waited_ms) > 0.1 or user < 500 or brought < LEAST_BYTES:
        return
    yield finding(
        case, "weights.deserialize-cpu", cost_ms=user, severity=Severity.WARNING, confidence=0.7,
        values={"rate": f"{format_bytes(brought / case.identity.wall_ms * 1000)}/s"},
        what_if=f"without conversion down to {format_ms(case.identity.wall_ms - user)}",
    )  # fmt: skip


def _gds(case: Case) -> Iterator[Finding]:
    mapped = any("libcufile" in file.path for file in case.load.files)
    if not mapped:
        return
    posix = [file for file in case.files if file.get_bytes >= LEAST_BYTES and case.mine(file)]
    if posix:
        yield finding(
            case, "weights.gds-compat", posix[0], cost_ms=None, severity=Severity.INFO, confidence=0.7, values={},
            what_if="on a file system that it supports the copy in memory is saved",
        )  # fmt: skip


def _evicted(case: Case) -> Iterator[Finding]:
    for file in case.files:
        left = file.cached_after
        fetched = sum(one.bytes for one in file.asked("device", "fuse"))
        if not case.mine(file) or left is None or fetched < 0.5 * file.size or fetched >= 1.2 * file.size:
            continue
        if left < 0.5 * file.size:
            yield finding(
                case, "weights.evicted", file, cost_ms=None, severity=Severity.INFO, confidence=0.8,
                values={"left": format_percent(left / file.size)},
                what_if="kept in memory the next load needs no device",
            )  # fmt: skip
            return


def _copies(case: Case) -> Iterator[Finding]:
    copies = case.load.copies
    if copies is None or not copies.bytes:
        return
    values = {
        "copied": format_bytes(copies.bytes),
        "rate": f"{format_bytes(copies.bytes / max(copies.took_ms, 0.001) * 1000)}/s",
    }
    if copies.from_files > 0.5 * copies.bytes:
        yield finding(
            case, "weights.pageable-copies", cost_ms=copies.took_ms, confidence=0.9,
            values={**values, "mapped": format_bytes(copies.from_files)},
            what_if="from pinned memory a copy reaches the rate of the link",
        )  # fmt: skip
    if copies.small > 0.5 * copies.count and copies.count >= 100:
        yield finding(
            case, "weights.tiny-copies", cost_ms=copies.took_ms * copies.small / copies.count, confidence=0.8,
            count=copies.small, of=copies.count, values=values,
            what_if=f"in one buffer: {copies.count:,} → {max(1, copies.bytes >> 24):,} copies",
        )  # fmt: skip


def _observer(case: Case) -> Iterator[Finding]:
    kernel = case.load.kernel_ms
    wall = case.identity.wall_ms
    if kernel is None or wall <= 0 or kernel / wall < 0.02:
        return
    yield finding(
        case, "observer.cost", cost_ms=kernel, severity=Severity.INFO, confidence=0.9, values={},
        what_if="without the kernel programs this much less",
    )  # fmt: skip


CHECKS: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    _small_reads,
    _first_touch,
    _direct,
    _overlay,
    _ranks,
    _prefetched,
    _deserialize,
    _gds,
    _evicted,
    _copies,
    _observer,
)
