# SPDX-License-Identifier: Apache-2.0
"""Tables in, findings out. Pure: no clock, file of the user, process or socket is looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from netdiag.analysis import (
    breaks,
    connect,
    dns,
    http2,
    http_pool,
    http_server,
    http_upload,
    redirects,
    retry,
    retry_timeouts,
    reuse,
    starved,
    stream_breaks,
    stream_reads,
    stream_stalls,
    stream_waits,
    tls_course,
    tls_interception,
    tls_resumption,
    transport,
)
from netdiag.analysis.case import Case, Options, prepare
from netdiag.analysis.settle import settle
from netdiag.findings import Finding, Severity

if TYPE_CHECKING:
    from netdiag.tables import Tables

__all__ = ["ANALYSES", "Analysis", "Failure", "Options", "Report", "examine", "run"]

Analysis: TypeAlias = Callable[[Case], list[Finding]]

ANALYSES: tuple[Analysis, ...] = (
    breaks.analyze,
    connect.analyze,
    dns.analyze,
    http2.analyze,
    http_pool.analyze,
    http_server.analyze,
    http_upload.analyze,
    redirects.analyze,
    retry.analyze,
    retry_timeouts.analyze,
    reuse.analyze,
    starved.analyze,
    stream_breaks.analyze,
    stream_reads.analyze,
    stream_waits.analyze,
    tls_course.analyze,
    tls_interception.analyze,
    tls_resumption.analyze,
    transport.analyze,
)
"""In no order that matters: the findings are settled and sorted afterwards."""

_LOSSY = 0.7
"""What confidence is multiplied by when events were lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An analysis that could not do its work on these tables."""

    analysis: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All findings, loudest first, and the analyses that failed."""

    findings: tuple[Finding, ...]
    failures: tuple[Failure, ...]
    stalls: Mapping[int, Sequence[Mapping[str, object]]] = field(default_factory=dict)
    """The stalls of streams and whose they are, by row of requests."""


def run(tables: Tables, options: Options | None = None) -> list[Finding]:
    """Return what the tables show: one finding per cause, by severity and then cost, unknown cost last."""
    return list(examine(tables, options).findings)


def examine(tables: Tables, options: Options | None = None) -> Report:
    """Return the findings as `run` does, and which analyses failed and why."""
    case = prepare(tables, options or Options())
    found: list[Finding] = []
    failures: list[Failure] = []
    for analysis in ANALYSES:
        try:
            found += analysis(case)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            # one analysis that stumbles over odd tables must not take the others' findings with it
            failures.append(Failure(analysis=analysis.__module__, reason=f"{type(error).__name__}: {error}"))
        case.rows.relax()
    if tables.lossy or tables.truncated:
        found = [replace(finding, confidence=round(finding.confidence * _LOSSY, 2)) for finding in found]
    try:
        stalls = stream_stalls.told(case)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        stalls = {}
        failures.append(Failure(analysis=stream_stalls.__name__, reason=f"{type(error).__name__}: {error}"))
    findings = tuple(sorted(settle(found), key=_rank))
    return Report(findings=findings, failures=tuple(failures), stalls=stalls)


def _rank(finding: Finding) -> tuple[int, bool, float, str, int, str]:
    cost = finding.cost_ms
    order = list(Severity).index(finding.severity)
    pid = finding.subject.pid or 0
    return (order, cost is None, -(cost or 0.0), finding.code, pid, finding.subject.remote or "")
