# SPDX-License-Identifier: Apache-2.0
"""Findings about time that a load waited for its files: one cause for each, told for the file that it cost most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from netdiag.findings import Finding, Severity
from netdiag.units import format_bytes, format_ms
from netdiag.weights.case import KIB, LEAST_BYTES, MIB, PAGE, Case, after, finding, size
from netdiag.weights.model import File, Requests
from netdiag.weights.mounts import network
from netdiag.weights.walk import walk

__all__ = ["hidden", "inputs"]

_BLOCKED = 0.30
"""A load that waited for less of its time is not held up by that."""
_LAZY = 5.0
"""A first pass that takes so many times as long as the second fetches from further away."""
_FAULTS = ("faults", "around")


def _main_requests(file: File) -> Requests | None:
    through = file.asked("fuse") or file.asked("device")
    return max(through, key=lambda one: one.bytes, default=None)


def inputs(case: Case) -> Iterator[Finding]:
    """Yield at most one cause per file for time that was waited, the dearest file of each cause only."""
    told: set[str] = set()
    for file in case.files:
        if not case.mine(file):
            continue
        one = _input(case, file) if file.watched else _again(case, file)
        if one is not None and one.code not in told:
            told.add(one.code)
            yield one


def _input(case: Case, file: File) -> Finding | None:  # noqa: C901, PLR0911 - one return per cause
    asked = _main_requests(file)
    mean = asked.mean_bytes if asked is not None else None
    if asked is None or mean is None or asked.bytes < LEAST_BYTES / 4:
        return None
    way = walk(file)
    share_of_bytes = asked.bytes / max(sum(r.bytes for f in case.files for r in f.requests), 1)
    cost = case.waited_ms * share_of_bytes
    facts = {
        "requests": f"{asked.count:,}",
        "mean": size(mean),
        "depth": f"{asked.depth:.1f}" if asked.depth is not None else "–",
        "each": format_ms(asked.mean_ms),
        "majors": f"{case.identity.thread.major_faults:,}",
        "kind": (file.mount.kind if file.mount else None) or "–",
    }
    if asked.source == "fuse":
        facts["kind"] = facts["kind"] if "fuse" in facts["kind"] else f"{facts['kind']} over FUSE"
    lazy = _lazy(case, file, asked, cost, facts)
    if lazy is not None:
        return lazy
    thrash = _thrash(case, file, asked, cost, facts)
    if thrash is not None:
        return thrash
    ahead = file.readahead_waited + file.readahead_ahead
    if mean <= 8 * KIB and asked.count >= 256 and file.faults >= asked.count / 2 and ahead < asked.count / 4:
        return finding(
            case, "weights.readahead-off", file, cost_ms=cost, confidence=0.9, values=facts,
            what_if=after(case, asked, 128 * KIB, 1),
        )  # fmt: skip
    if way.direction == "backward" and way.source in _FAULTS and file.readahead_ahead < 0.2 * asked.count:
        return finding(
            case, "weights.backward-walk", file, cost_ms=cost, confidence=0.95 if way.backward >= 64 else 0.8,
            values={**facts, "backward": f"{way.backward:,}", "steps": f"{way.forward + way.backward:,}"},
            what_if=after(case, asked, max(_window(file), 128 * KIB), 2),
        )  # fmt: skip
    remote = asked.source == "fuse" or network(file.mount.kind if file.mount else None)
    if remote and mean <= 256 * KIB and (asked.depth or 1) <= 2.5 and case.share(case.waited_ms) >= _BLOCKED:
        return finding(
            case, "weights.network-filesystem", file, cost_ms=cost, confidence=0.95, values=facts,
            what_if=after(case, asked, 16 * MIB, 8),
        )  # fmt: skip
    if way.direction in ("random", "jumping") and way.source in _FAULTS:
        least, most = max(file.faults, file.around) * PAGE, max(file.faults * PAGE, file.around_bytes)
        if asked.bytes > 2 * least and case.share(case.waited_ms) >= _BLOCKED:
            return finding(
                case, "weights.random-amplification", file, cost_ms=cost,
                confidence=0.85 if asked.bytes > 2 * most else 0.6,
                values={**facts, "fetched": format_bytes(asked.bytes), "touched": format_bytes(least),
                        "times": f"{asked.bytes / least:.1f}"},
                what_if=f"in the order of the file at most {format_bytes(file.size)} pass, once, in large requests",
            )  # fmt: skip
    if file.thread_changes >= 64 and file.thread_changes > 0.2 * (file.faults + ahead) and mean <= 128 * KIB:
        return finding(
            case, "weights.shared-descriptor", file, cost_ms=cost, confidence=0.7,
            values={**facts, "changes": f"{file.thread_changes:,}"}, what_if=after(case, asked, MIB, 2),
        )  # fmt: skip
    window = _window(file)
    slow = case.share(case.waited_ms) >= _BLOCKED
    if way.direction != "random" and window and window <= 512 * KIB and slow and 0.4 * window <= mean <= 2.1 * window:
        return finding(
            case, "weights.readahead-small", file, cost_ms=cost, confidence=0.85,
            values={**facts, "window": size(window)}, what_if=after(case, asked, 4 * MIB, 2),
        )  # fmt: skip
    return None


def _lazy(case: Case, file: File, asked: Requests, cost: float, facts: Mapping[str, str]) -> Finding | None:
    """Return the finding of a file that came twice, slowly at first and fast then: it was fetched from afar."""
    if asked.bytes < 1.8 * file.size:
        return None
    first = next(((came, took) for came, took in asked.course if came >= 0.95 * file.size), None)
    if first is None or first[0] > 1.25 * file.size or not 0 < first[1] < asked.latency_ms:
        return None
    each = first[1] / first[0]
    again = (asked.latency_ms - first[1]) / (asked.bytes - first[0])
    if each < _LAZY * again:
        return None
    whole = each * file.size
    return finding(
        case, "weights.lazy-volume", file, cost_ms=cost * (1 - again / each) * first[1] / asked.latency_ms,
        confidence=0.75,
        values={**facts, "times": f"{each / again:.0f}", "first": format_ms(whole),
                "second": format_ms(again * file.size)},
        what_if="read once before, as fast as the second time",
    )  # fmt: skip


def _again(case: Case, file: File) -> Finding | None:
    """Return the finding of a file that came more than once, where /proc alone tells how much came in all."""
    mine = [one for one in case.files if case.mine(one)]
    if len(mine) != 1:
        return None
    came = sum(one.device_bytes for one in case.load.threads if one.pid == file.pid)
    asked = Requests(
        source="device", pid=file.pid, count=0, bytes=came, answered=0, latency_ms=0.0, latency_max_ms=0.0, depth=None,
        sizes={}, began_ms=file.began_ms, ended_ms=file.ended_ms,
    )  # fmt: skip
    unknown = dict.fromkeys(("requests", "mean", "depth", "each"), "unknown")
    return _thrash(case, file, asked, case.waited_ms, unknown)


def _window(file: File) -> int:
    return (file.mount.readahead_bytes if file.mount else None) or file.readahead_window


def _thrash(case: Case, file: File, asked: Requests, cost: float, facts: Mapping[str, str]) -> Finding | None:
    if asked.bytes < 1.2 * file.size:
        return None
    values = {**facts, "fetched": format_bytes(asked.bytes), "times": f"{asked.bytes / file.size:.1f}"}
    again = cost * (1 - file.size / asked.bytes)
    limit = case.memory.limit
    wanted = sum(one.size for one in case.files)
    left = file.cached_after is not None and file.cached_after < 0.75 * file.size
    what_if = f"read once: about {format_ms(case.identity.wall_ms - again)}"
    if limit is not None and limit < 1.1 * wanted + LEAST_BYTES and (left or file.evicted):
        values |= {"limit": format_bytes(limit), "wanted": format_bytes(wanted)}
        return finding(
            case, "weights.memory-limit", file, cost_ms=again, confidence=0.9, values=values, what_if=what_if
        )
    if left or (file.evicted or 0) > 0.05 * file.size:
        return finding(
            case, "weights.cache-thrash", file, cost_ms=again, confidence=0.85, values=values, what_if=what_if
        )
    known = file.cached_after is not None or file.evicted is not None  # else it may have left memory unseen
    return finding(
        case, "weights.read-twice", file, cost_ms=again, confidence=0.8 if known else 0.6, values=values,
        what_if=what_if,
    )  # fmt: skip


def hidden(case: Case) -> Iterator[Finding]:
    """Yield a finding where waiting in faults does not show in the count of major faults."""
    thread = case.identity.thread
    waited = case.identity.ms("fault-blocked")
    waits = thread.waits_fault if thread.looks is None else thread.looks
    if thread.major_faults >= 10 or case.share(waited) < _BLOCKED or waits < 10 or waited < 50:
        return
    fetched = sum(one.bytes for file in case.files for one in file.requests) or thread.device_bytes
    yield finding(
        case,
        "weights.hidden-io-wait",
        cost_ms=waited,
        severity=Severity.INFO,
        confidence=0.9,
        values={
            "majors": f"{thread.major_faults:,}",
            "waits": f"{thread.waits_fault:,}" if thread.looks is None else "unknown",
            "rate": f"{format_bytes(fetched / case.identity.wall_ms * 1000)}/s",
        },
        what_if=f"with the file in memory about {format_ms(case.identity.wall_ms - waited)}",
    )
