# SPDX-License-Identifier: Apache-2.0
"""What a verdict about a load follows from, and how a finding is made of it in the words of the catalog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from netdiag.catalog import catalog
from netdiag.findings import Evidence, Finding, Severity, Subject
from netdiag.units import UNKNOWN, format_bytes, format_ms, format_percent
from netdiag.weights.identity import Identity
from netdiag.weights.model import File, Load, Requests
from netdiag.weights.surroundings import Memory
from netdiag.weights.walk import walk

__all__ = ["KIB", "LEAST_BYTES", "MIB", "PAGE", "Case", "after", "finding", "is_weights", "make", "size"]

PAGE = 4096
KIB, MIB = 1 << 10, 1 << 20
LEAST_BYTES = 16 * MIB
"""Files below it are no matter."""
_CRITICAL, _WARNING = 0.20, 0.05


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
        return self.identity.ms("fault-blocked", "read-blocked", "populate-blocked", "blocked")

    def share(self, ms: float) -> float:
        """Return the share of the load's time."""
        return ms / self.identity.wall_ms if self.identity.wall_ms > 0 else 0.0


def is_weights(file: File) -> bool:
    """Tell whether a file may hold weights: it is one by its header, or large and no library."""
    return file.size >= LEAST_BYTES and (file.format is not None or ".so" not in _base(file))


def size(value: float | None) -> str:
    """Return the size of a request, as those who set it write it: `128 KiB`, `4 MiB`."""
    if value is None:
        return UNKNOWN
    unit, name = (MIB, "MiB") if value >= MIB else (KIB, "KiB")
    return f"{value / unit:.3g} {name}"


def _base(file: File) -> str:
    return file.path.rsplit("/", 1)[-1]


def after(case: Case, one: Requests, large: int, at_once: int) -> str | None:
    """Return what the wait would become with requests of `large` bytes, `at_once` under way: bounds, not a promise.

    None where that is what it is already.
    """
    waited = case.waited_ms
    mean = one.mean_bytes or large
    depth = max(one.depth or 1.0, 1.0)
    best = waited * min(mean / large, 1.0) * depth / max(depth, at_once)
    wall = case.identity.wall_ms
    if best > 0.98 * waited:
        return None
    return f"{format_ms(wall)} → not below {format_ms(wall - waited + best)}, if a large request takes no longer"


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


def finding(case: Case, code: str, file: File | None = None, *, cost_ms: float | None, **more: object) -> Finding:
    """Return a finding of this load, graded by its share of the time; `more`: further arguments of `make`."""
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
