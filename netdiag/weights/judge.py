# SPDX-License-Identifier: Apache-2.0
"""Findings about how files came into memory. A count of page faults is never the verdict: time, size and direction are.

Each cause is told once, for the file (or all files of its kind together) that it cost most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from netdiag.catalog import catalog
from netdiag.findings import Evidence, Finding, Severity, Subject
from netdiag.units import UNKNOWN, format_bytes, format_ms, format_percent
from netdiag.weights.identity import Identity
from netdiag.weights.model import File, Load, Requests
from netdiag.weights.mounts import network
from netdiag.weights.surroundings import Memory
from netdiag.weights.walk import walk

__all__ = ["Case", "is_weights", "judge", "make", "order"]

_PAGE = 4096
_KIB, _MIB = 1 << 10, 1 << 20
_LEAST = 16 * _MIB
"""Files below it are no matter."""
_SMALL_READ = 32 * _KIB
_CALL_MS = 0.0005
"""A system call without its work: half a microsecond."""
_BLOCKED = 0.30
_FAULTS = ("faults", "around")
_CRITICAL, _WARNING = 0.20, 0.05
_ORDER = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that a verdict follows from."""

    load: Load
    identity: Identity
    memory: Memory

    @property
    def files(self) -> tuple[File, ...]:
        """Files that may be weights: large ones that are no libraries."""
        return tuple(file for file in self.load.files if is_weights(file))

    def mine(self, file: File) -> bool:
        """Tell whether the thread whose time is explained touched the file, or one of its process."""
        return file.pid == self.identity.thread.pid

    @property
    def waited_ms(self) -> float:
        """Time that it waited for files."""
        return self.identity.ms("fault-blocked", "read-blocked", "populate-blocked")

    def share(self, ms: float) -> float:
        """Return the share of the load's time."""
        return ms / self.identity.wall_ms if self.identity.wall_ms > 0 else 0.0


def is_weights(file: File) -> bool:
    """Tell whether a file may hold weights: it is one by its header, or large and no library."""
    return file.size >= _LEAST and (file.format is not None or ".so" not in _base(file))


def size(value: float | None) -> str:
    """Return the size of a request, as those who set it write it: `128 KiB`, `4 MiB`."""
    if value is None:
        return UNKNOWN
    unit, name = (_MIB, "MiB") if value >= _MIB else (_KIB, "KiB")
    return f"{value / unit:.3g} {name}"


def _base(file: File) -> str:
    return file.path.rsplit("/", 1)[-1]


def order(found: Iterable[Finding]) -> list[Finding]:
    """Return findings by severity, then cost."""
    return sorted(found, key=lambda one: (_ORDER.index(one.severity), -(one.cost_ms or 0.0), one.code))


def judge(case: Case) -> list[Finding]:
    """Return the findings, the most severe first."""
    found: list[Finding] = []
    inputs = list(_inputs(case))
    found += inputs
    found += [one for check in _CHECKS for one in check(case)]
    if not any(one.severity is not Severity.INFO for one in inputs):
        found += _hidden(case)
    return order(found)


def _grade(share: float) -> Severity:
    if share >= _CRITICAL:
        return Severity.CRITICAL
    return Severity.WARNING if share >= _WARNING else Severity.INFO


def make(  # noqa: PLR0913 - the members of a finding
    code: str,
    *,
    severity: Severity,
    confidence: float,
    values: Mapping[str, str],
    wall_ms: float | None,
    pid: int | None = None,
    cost_ms: float | None = None,
    cause: str | None = None,
    what_if: str | None = None,
    evidence: Iterable[tuple[str, str | None, str]] = (),
    count: int = 1,
    of: int = 1,
) -> Finding:
    """Return a finding in the words of the catalog."""
    entry = catalog()[code]
    shown = {"price": format_ms(cost_ms), "count": f"{count:,}", "of": f"{of:,}", **values}
    proof = Evidence(kind="load", id=None, note=entry.render(entry.proof_line, shown))
    return Finding(
        code=code,
        cause=cause,
        severity=severity,
        confidence=round(confidence, 2),
        title=entry.render(entry.title if cost_ms is not None else entry.plain, shown),
        subject=Subject(pid=pid),
        count=count,
        of=of,
        cost_ms=None if cost_ms is None else round(cost_ms, 3),
        share_of_total=round(min(cost_ms / wall_ms, 1.0), 4) if cost_ms is not None and wall_ms else None,
        what_if=what_if,
        evidence=(proof, *(Evidence(kind=kind, id=name, note=note) for kind, name, note in evidence)),
        advice=entry.render_advice((), shown),
        explain=entry.means,
    )


def _finding(case: Case, code: str, file: File | None = None, *, cost_ms: float | None, **more: object) -> Finding:
    wall = case.identity.wall_ms
    share = case.share(cost_ms) if cost_ms is not None else 0.0
    given = dict(more)
    values = dict(given.pop("values", {}))  # type: ignore[call-overload]
    values.setdefault("wall", format_ms(wall))
    values.setdefault("share", format_percent(share))
    if file is not None:
        values.setdefault("file", _base(file))
        values.setdefault("size", format_bytes(file.size))
    evidence = [("file", file.path, _told(file))] if file is not None else []
    return make(
        code,
        severity=given.pop("severity", None) or _grade(share),  # type: ignore[arg-type]
        values=values,
        wall_ms=wall,
        pid=case.identity.thread.pid if file is None else file.pid,
        cost_ms=cost_ms,
        evidence=evidence,
        **given,  # type: ignore[arg-type]
    )


def _told(file: File) -> str:
    way = walk(file)
    kind = file.mount.kind if file.mount else None
    parts = [f"{format_bytes(file.size)} on {kind or 'an unknown file system'}"]
    if way.direction:
        parts.append(f"walk {way.direction} ({way.forward:,} steps forward, {way.backward:,} backward)")
    parts += [_asked(one) for one in file.requests]
    return "; ".join(parts)


def _asked(one: Requests) -> str:
    depth = f", {one.depth:.1f} at a time" if one.depth is not None else ""
    return f"{one.count:,} requests ({one.source}) of {size(one.mean_bytes)}{depth}, {format_ms(one.mean_ms)} each"


# --- input: one cause for the time that was waited -----------------------------------------------------------------


def _main_requests(file: File) -> Requests | None:
    through = file.asked("fuse") or file.asked("device")
    return max(through, key=lambda one: one.bytes, default=None)


def _after(case: Case, one: Requests, large: int, at_once: int) -> str:
    """Return what the wait would become with requests of `size` bytes, `at_once` under way: bounds, not a promise."""
    waited = case.waited_ms
    mean = one.mean_bytes or large
    depth = max(one.depth or 1.0, 1.0)
    best = waited * min(mean / large, 1.0) * depth / max(depth, at_once)
    wall = case.identity.wall_ms
    return f"{format_ms(wall)} → not below {format_ms(wall - waited + best)}, if a large request takes no longer"


def _inputs(case: Case) -> Iterator[Finding]:
    """Yield at most one cause per file for time that was waited, the dearest file of each cause only."""
    told: set[str] = set()
    for file in case.files:
        if not case.mine(file):
            continue
        one = _input(case, file)
        if one is not None and one.code not in told:
            told.add(one.code)
            yield one


def _input(case: Case, file: File) -> Finding | None:  # noqa: C901, PLR0911 - one return per cause
    asked = _main_requests(file)
    if asked is None or asked.bytes < _LEAST / 4:
        return None
    mean = asked.mean_bytes or 0.0
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
    thrash = _thrash(case, file, asked, cost, facts)
    if thrash is not None:
        return thrash
    ahead = file.readahead_waited + file.readahead_ahead
    if mean <= 8 * _KIB and asked.count >= 256 and file.faults >= asked.count / 2 and ahead < asked.count / 4:
        return _finding(
            case, "weights.readahead-off", file, cost_ms=cost, confidence=0.9, values=facts,
            what_if=_after(case, asked, 128 * _KIB, 1),
        )  # fmt: skip
    if way.direction == "backward" and way.source in _FAULTS and file.readahead_ahead < 0.2 * asked.count:
        return _finding(
            case, "weights.backward-walk", file, cost_ms=cost, confidence=0.95 if way.backward >= 64 else 0.8,
            values={**facts, "backward": f"{way.backward:,}", "steps": f"{way.forward + way.backward:,}"},
            what_if=_after(case, asked, max(_window(file), 128 * _KIB), 2),
        )  # fmt: skip
    remote = asked.source == "fuse" or network(file.mount.kind if file.mount else None)
    if remote and mean <= 256 * _KIB and (asked.depth or 1) <= 2.5 and case.share(case.waited_ms) >= _BLOCKED:
        return _finding(
            case, "weights.network-filesystem", file, cost_ms=cost, confidence=0.95, values=facts,
            what_if=_after(case, asked, 16 * _MIB, 8),
        )  # fmt: skip
    if way.direction in ("random", "jumping") and way.source in _FAULTS:
        least, most = max(file.faults, file.around) * _PAGE, max(file.faults * _PAGE, file.around_bytes)
        if asked.bytes > 2 * least and case.share(case.waited_ms) >= _BLOCKED:
            return _finding(
                case, "weights.random-amplification", file, cost_ms=cost,
                confidence=0.85 if asked.bytes > 2 * most else 0.6,
                values={**facts, "fetched": format_bytes(asked.bytes), "touched": format_bytes(least),
                        "times": f"{asked.bytes / least:.1f}"},
                what_if=f"in the order of the file at most {format_bytes(file.size)} pass, once, in large requests",
            )  # fmt: skip
    if file.thread_changes >= 64 and file.thread_changes > 0.2 * (file.faults + ahead) and mean <= 128 * _KIB:
        return _finding(
            case, "weights.shared-descriptor", file, cost_ms=cost, confidence=0.7,
            values={**facts, "changes": f"{file.thread_changes:,}"}, what_if=_after(case, asked, _MIB, 2),
        )  # fmt: skip
    window = _window(file)
    slow = case.share(case.waited_ms) >= _BLOCKED
    if way.direction != "random" and window and window <= 512 * _KIB and slow and 0.4 * window <= mean <= 2.1 * window:
        return _finding(
            case, "weights.readahead-small", file, cost_ms=cost, confidence=0.85,
            values={**facts, "window": size(window)}, what_if=_after(case, asked, 4 * _MIB, 2),
        )  # fmt: skip
    return None


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
    if limit is not None and limit < 1.1 * wanted + _LEAST and (left or file.evicted):
        values |= {"limit": format_bytes(limit), "wanted": format_bytes(wanted)}
        return _finding(
            case, "weights.memory-limit", file, cost_ms=again, confidence=0.9, values=values, what_if=what_if
        )
    if left or (file.evicted or 0) > 0.05 * file.size:
        return _finding(
            case, "weights.cache-thrash", file, cost_ms=again, confidence=0.85, values=values, what_if=what_if
        )
    return _finding(case, "weights.read-twice", file, cost_ms=again, confidence=0.8, values=values, what_if=what_if)


def _hidden(case: Case) -> Iterator[Finding]:
    thread = case.identity.thread
    waited = case.identity.ms("fault-blocked")
    if thread.major_faults >= 10 or case.share(waited) < _BLOCKED or thread.waits_fault < 10 or waited < 50:
        return
    fetched = sum(one.bytes for file in case.files for one in file.requests)
    yield _finding(
        case,
        "weights.hidden-io-wait",
        cost_ms=waited,
        severity=Severity.INFO,
        confidence=0.9,
        values={
            "majors": f"{thread.major_faults:,}",
            "waits": f"{thread.waits_fault:,}",
            "rate": f"{format_bytes(fetched / case.identity.wall_ms * 1000)}/s",
        },
        what_if=f"with the file in memory about {format_ms(case.identity.wall_ms - waited)}",
    )


# --- what the program does -----------------------------------------------------------------------------------------


def _small_reads(case: Case) -> Iterator[Finding]:
    thread = case.identity.thread
    mean = thread.read_bytes / thread.reads if thread.reads else 0.0
    rate = thread.reads / thread.wall_ms * 1000 if thread.wall_ms > 0 else 0.0
    if thread.reads < 2000 or thread.read_bytes < _LEAST / 2 or mean >= _SMALL_READ or rate < 5000:
        return
    if not any(case.mine(file) and file.get_bytes + file.samples for file in case.files):
        return
    cost = min(thread.reads * _CALL_MS, case.identity.ms("read-cpu", "read-blocked", "cpu"))
    spent = case.identity.ms("read-cpu", "read-blocked")
    yield _finding(
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
    if thread.read_bytes < _LEAST:
        return
    mapped = sum(file.faults + file.around for file in case.load.files if case.mine(file))
    fresh = thread.minor_faults + thread.major_faults - mapped
    pages = thread.read_bytes / _PAGE
    if not 0.6 * pages <= fresh <= 1.5 * pages:
        return
    spent = case.identity.ms("read-cpu")
    yield _finding(
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
            if one.bytes < _LEAST / 2:
                continue
            mean = one.mean_bytes or 0.0
            facts = {"requests": f"{one.count:,}", "mean": size(mean), "each": format_ms(one.mean_ms)}
            warm = file.cached_before / file.size
            cost = case.identity.ms("read-blocked", "kernel-blocked") if case.mine(file) else None
            if warm >= 0.5:
                yield _finding(
                    case, "weights.direct-io", file, cost_ms=cost, confidence=0.9, cause="warm",
                    values={**facts, "why": f"{format_percent(warm)} of it was in memory already"},
                    what_if="read through the page cache the copy in memory is used: two to seven times as fast",
                )  # fmt: skip
                return
            if mean < 1 * _MIB and (one.depth or 1) <= 2:
                yield _finding(
                    case, "weights.direct-io", file, cost_ms=cost, confidence=0.8, cause="small",
                    values={**facts, "why": f"requests of {size(mean)}, one after the other"},
                    what_if=_after(case, one, 16 * _MIB, 4),
                )  # fmt: skip
                return


def _overlay(case: Case) -> Iterator[Finding]:
    for file in case.files:
        if case.mine(file) and file.mount and file.mount.layer == "lower":
            fetched = sum(one.bytes for one in file.requests)
            if fetched < _LEAST / 4:
                continue
            yield _finding(
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
        brought = sum(min(max(f.get_bytes, f.around_bytes, f.faults * _PAGE), 2 * whole_size) for f in same)
        whole = [f for f in same if max(f.get_bytes, f.around_bytes) >= 0.7 * whole_size]
        if len(whole) < 2 or brought <= 1.5 * whole_size:
            continue
        yield _finding(
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
        if case.mine(file) and file.cached_before >= 0.9 * file.size and read_all and used:
            yield _finding(
                case, "weights.prefetch-wasted", file, cost_ms=None, severity=Severity.INFO, confidence=0.7,
                values={"cached": format_percent(file.cached_before / file.size)},
                what_if=f"without it {format_bytes(file.get_bytes)} less are copied",
            )  # fmt: skip
            return


def _deserialize(case: Case) -> Iterator[Finding]:
    user = case.identity.ms("user")
    brought = sum(max(f.get_bytes, f.around_bytes, f.cached_after or 0) for f in case.files if case.mine(f))
    if case.share(user) < 0.6 or case.share(case.waited_ms) > 0.1 or user < 500 or brought < _LEAST:
        return
    yield _finding(
        case, "weights.deserialize-cpu", cost_ms=user, severity=Severity.WARNING, confidence=0.7,
        values={"rate": f"{format_bytes(brought / case.identity.wall_ms * 1000)}/s"},
        what_if=f"without conversion down to {format_ms(case.identity.wall_ms - user)}",
    )  # fmt: skip


def _gds(case: Case) -> Iterator[Finding]:
    mapped = any("libcufile" in file.path for file in case.load.files)
    if not mapped:
        return
    posix = [file for file in case.files if file.get_bytes >= _LEAST and case.mine(file)]
    if posix:
        yield _finding(
            case, "weights.gds-compat", posix[0], cost_ms=None, severity=Severity.INFO, confidence=0.7, values={},
            what_if="on a file system that it supports the copy in memory is saved",
        )  # fmt: skip


def _evicted(case: Case) -> Iterator[Finding]:
    for file in case.files:
        after = file.cached_after
        fetched = sum(one.bytes for one in file.asked("device", "fuse"))
        if not case.mine(file) or after is None or fetched < 0.5 * file.size or fetched >= 1.2 * file.size:
            continue
        if after < 0.5 * file.size:
            yield _finding(
                case, "weights.evicted", file, cost_ms=None, severity=Severity.INFO, confidence=0.8,
                values={"left": format_percent(after / file.size)},
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
        yield _finding(
            case, "weights.pageable-copies", cost_ms=copies.took_ms, confidence=0.9,
            values={**values, "mapped": format_bytes(copies.from_files)},
            what_if="from pinned memory a copy reaches the rate of the link",
        )  # fmt: skip
    if copies.small > 0.5 * copies.count and copies.count >= 100:
        yield _finding(
            case, "weights.tiny-copies", cost_ms=copies.took_ms * copies.small / copies.count, confidence=0.8,
            count=copies.small, of=copies.count, values=values,
            what_if=f"in one buffer: {copies.count:,} → {max(1, copies.bytes >> 24):,} copies",
        )  # fmt: skip


def _observer(case: Case) -> Iterator[Finding]:
    kernel = case.load.kernel_ms
    wall = case.identity.wall_ms
    if kernel is None or wall <= 0 or kernel / wall < 0.02:
        return
    yield _finding(
        case, "observer.cost", cost_ms=kernel, severity=Severity.INFO, confidence=0.9, values={},
        what_if="without the kernel programs this much less",
    )  # fmt: skip


_CHECKS = (
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
