# SPDX-License-Identifier: Apache-2.0
"""Connections that were never made: refused, timed out, lost SYNs, local limits, a fallback from IPv6 to IPv4."""

from __future__ import annotations

from netdiag.analysis.build import Seen, finding
from netdiag.analysis.case import Case, Group
from netdiag.analysis.links import Link, known
from netdiag.findings import Finding, Severity

__all__ = ["analyze"]


def analyze(case: Case) -> list[Finding]:
    """Return one finding per cause and group."""
    return [finding(case, seen) for group in case.groups for seen in (_refused(case, group),) if seen]


def _rescued(link: Link, case: Case) -> bool:
    """Another attempt of the same thread or moment reached the host: a fallback, not a failure."""
    near = (other for other in case.clients if other.pid == link.pid and other.remote_port == link.remote_port)
    return any(
        other.outcome == "established" and 0 <= other.opened_ns - link.opened_ns <= 2e9 and other.family != link.family
        for other in near
    )


def _refused(case: Case, group: Group) -> Seen | None:
    refused = [link for link in group.links if link.outcome == "refused" and not _rescued(link, case)]
    if not refused:
        return None
    times = [link.connect_ms for link in refused if known(link.connect_ms)]
    all_failed = all(link.outcome == "refused" for link in group.links)
    return Seen(
        code="tcp.refused",
        links=tuple(refused),
        count=len(refused),
        of=len(group.links),
        confidence=0.98,
        cost_ms=sum(times) if times else float("nan"),
        cause="always" if all_failed else "sometimes",
        severity=Severity.CRITICAL if all_failed or len(refused) >= 3 else Severity.WARNING,
        host=group.host,
        process=group.process,
    )
