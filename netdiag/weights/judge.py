# SPDX-License-Identifier: Apache-2.0
"""Findings about how files came into memory. A count of page faults is never the verdict: time, size and direction are.

Each cause is told once, for the file (or all files of its kind together) that it cost most.
"""

from __future__ import annotations

from collections.abc import Iterable

from netdiag.findings import Finding, Severity
from netdiag.weights import host
from netdiag.weights.case import Case
from netdiag.weights.program import CHECKS
from netdiag.weights.waits import hidden, inputs

__all__ = ["judge", "order"]

_ORDER = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)


def order(found: Iterable[Finding]) -> list[Finding]:
    """Return findings by severity, then cost."""
    return sorted(found, key=lambda one: (_ORDER.index(one.severity), -(one.cost_ms or 0.0), one.code))


def judge(case: Case) -> list[Finding]:
    """Return the findings, the most severe first."""
    found: list[Finding] = []
    waited = list(inputs(case))
    found += waited
    found += [one for check in CHECKS for one in check(case)]
    touched = any(one.code == "weights.destination-first-touch" for one in found)
    around = [one for check in host.CHECKS for one in check(case)]
    found += [one for one in around if not (touched and one.code == "weights.no-huge-pages")]
    if not any(one.severity is not Severity.INFO for one in waited):
        found += hidden(case)
    return order(found)
