# SPDX-License-Identifier: Apache-2.0
"""Causes in a long recording: sought in stretches of time, each as if the trace had run only then.

The first stretch holds how things began; the second is where calls took longest or failed most. What is said of the
same cause in both is said once, as it was dearest. Ids of evidence are those of the whole recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netdiag import analysis, tables
from netdiag.bulk import cut
from netdiag.findings import Evidence, Finding, Severity
from netdiag.recording.reader import Recording
from netdiag.tables.model import Tables
from netdiag.units import format_count, format_ms

__all__ = ["CALLS", "Judged", "Stretch", "choose", "cut_out", "judge", "words"]

CALLS = 30_000
"""Requests in a stretch."""
_WINDOWS = 64
"""Among which the second one is sought."""
_FAILED = 400
_AS_MUCH = 10
"""A failure counts as much as so many usual calls, where the worst stretch is sought."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of the time."""

    began_ms: float
    ended_ms: float
    """Since the start of the recording."""
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What was found."""

    findings: tuple[Finding, ...]
    failures: tuple[analysis.Failure, ...]
    stretches: tuple[Stretch, ...]


def judge(
    pieces: Sequence[Recording],
    chosen: Sequence[Stretch],
    built: Tables,
    options: analysis.Options,
    *,
    each: Callable[[Callable[[Any], Any], Sequence[Any]], Iterator[Any]],
    progress: Callable[[str, int, int], None],
) -> Judged:
    """Return the findings of the stretches; `each` applies a function to a list, in processes that are forked now."""
    found: dict[tuple[Any, ...], Finding] = {}
    failures: dict[analysis.Failure, None] = {}
    jobs = [(piece, options) for piece in pieces]
    for done, (findings, failed, ends, shakes, calls) in enumerate(each(_examine, jobs), 1):
        progress("stretches judged", done, len(chosen))
        names = _Names(built, ends, shakes, calls)
        for finding in findings:
            key = (finding.code, finding.cause, finding.subject.pid, finding.subject.remote)
            old = found.get(key)
            if old is None or (finding.cost_ms or 0.0) > (old.cost_ms or 0.0):
                found[key] = replace(finding, evidence=tuple(map(names.renamed, finding.evidence)))
        failures |= dict.fromkeys(failed)
    return Judged(findings=tuple(sorted(found.values(), key=_rank)), failures=tuple(failures), stretches=tuple(chosen))


def _rank(finding: Finding) -> tuple[int, bool, float]:
    return (list(Severity).index(finding.severity), finding.cost_ms is None, -(finding.cost_ms or 0.0))


def cut_out(recording: Recording, one: Stretch, connections: Sequence[Mapping[str, Any]]) -> Recording:
    """Return the recording of a stretch; `connections` are packed columns, which know more of them."""
    start = recording.start_ns
    plain = [np.asarray(part["cookie"], np.int64)[_is_false(part["encrypted"])] for part in connections]
    began, ended = (start + round(at * 1e6) for at in (one.began_ms, one.ended_ms))
    return cut.stretch(recording, began, ended + 1, np.concatenate([np.zeros(0, np.int64), *plain]))


def _is_false(flags: Any) -> NDArray[np.bool_]:
    false = [at for at, flag in enumerate(flags.categories.tolist()) if flag is False]
    return np.isin(flags.codes, false)


def words(stretches: Sequence[Stretch], requests: int) -> str:
    """Say what the findings rest on."""
    spans = " and ".join(f"{format_ms(one.began_ms)} to {format_ms(one.ended_ms)}" for one in stretches)
    seen = sum(one.requests for one in stretches)
    return (
        f"findings rest on {format_count(seen)} of {format_count(requests)} requests: {spans} of the trace, its "
        "beginning and where calls took longest or failed most; figures and distributions on all of them"
    )


def choose(parts: Sequence[Mapping[str, Any]], span_ms: float, calls: int = CALLS) -> list[Stretch]:
    """Return the first stretch of so many requests, and the worst of the others where there are more.

    `parts` are packed columns of requests.
    """
    began, took, status, first_byte = (
        np.concatenate([np.asarray(one[name], np.float64) for one in parts] or [np.zeros(0)])
        for name in ("began_ns", "total_ms", "status", "first_byte_ns")
    )
    bad = np.concatenate([np.asarray(one["error"].codes) >= 0 for one in parts] or [np.zeros(0, bool)])
    bad |= (np.nan_to_num(status) >= _FAILED) | ~np.isfinite(first_byte)
    order = np.argsort(began, kind="stable")
    order = order[: int(np.isfinite(began).sum())]
    count, began = len(order), began[order]
    first = min(calls, count)
    end = span_ms if first == count else float(began[first]) / 1e6
    stretches = [Stretch(began_ms=0.0, ended_ms=end, requests=first)]
    if first == count:
        return stretches
    took = np.nan_to_num(took[order])
    score = took + bad[order] * max(float(took.mean()), 1.0) * _AS_MUCH
    sums = np.concatenate(([0.0], np.cumsum(score)))
    starts = np.unique(np.linspace(first, max(count - calls, first), _WINDOWS).astype(np.int64))
    ends = np.minimum(starts + calls, count)
    worst = int(np.argmax((sums[ends] - sums[starts]) / np.maximum(ends - starts, 1)))
    low, high = int(starts[worst]), int(ends[worst])
    last = span_ms if high == count else float(began[high]) / 1e6
    return [*stretches, Stretch(began_ms=float(began[low]) / 1e6, ended_ms=last, requests=high - low)]


def _examine(job: tuple[Recording, analysis.Options]) -> tuple[Any, ...]:
    """Return findings, failures, and what names connections, handshakes and requests; in a process of its own."""
    part, options = job
    built = tables.build(part)
    report = analysis.examine(built, options)
    ends, shakes, calls = built.connections, built.handshakes, built.requests
    said = {evidence.id for finding in report.findings for evidence in finding.evidence}
    named = calls[calls["id"].isin(said)]
    return (
        report.findings,
        report.failures,
        dict(
            zip(ends["id"].tolist(), zip(ends["cookie"].tolist(), ends["opened_ns"].tolist(), strict=True), strict=True)
        ),
        dict(zip(shakes["id"].tolist(), shakes["connection"].tolist(), strict=True)),
        dict(
            zip(
                named["id"].tolist(),
                zip(named["connection"].tolist(), named["began_ns"].tolist(), strict=True),
                strict=True,
            )
        ),
    )


class _Names:
    """Ids of a stretch as those of the whole."""

    def __init__(
        self,
        built: Tables,
        ends: Mapping[str, tuple[int, float]],
        shakes: Mapping[str, int],
        calls: Mapping[str, tuple[int, float]],
    ) -> None:
        self._built, self._shakes, self._calls = built, shakes, calls
        cookies: NDArray[np.int64] = built.connections["cookie"].to_numpy(np.int64)
        where = np.argsort(cookies, kind="stable")
        self._rows: list[int] = []
        for cookie, _ in ends.values():
            at = int(np.searchsorted(cookies[where], cookie, side="right")) - 1
            self._rows.append(int(where[at]) if at >= 0 and cookies[where[at]] == cookie else -1)
        self._ends = dict(zip(ends, self._rows, strict=True))

    def renamed(self, evidence: Evidence) -> Evidence:
        """Return the evidence with the whole's id; without one where it has none there."""
        if evidence.id is None or evidence.kind not in {"connection", "handshake", "request"}:
            return evidence
        return replace(evidence, id=self._id(evidence.kind, evidence.id))

    def _id(self, kind: str, id_: str) -> str | None:
        if kind == "connection":
            row = self._ends.get(id_, -1)
            return None if row < 0 else f"c{row + 1}"
        local, began = self._calls.get(id_, (-1, 0.0)) if kind == "request" else (self._shakes.get(id_, -1), 0.0)
        if not 0 <= local < len(self._rows) or self._rows[local] < 0:
            return None
        end = self._rows[local]
        if kind == "handshake":
            name = self._built.connections["handshake"].iloc[end]
            return name if isinstance(name, str) else None
        table = self._built.requests
        times = table["began_ns"].to_numpy(np.float64)
        low, high = np.searchsorted(times, (began - 1.0, began + 1.0))
        rows = [row for row in range(int(low), int(high)) if int(table["connection"].iloc[row]) == end]
        return f"r{rows[0] + 1}" if rows else None
