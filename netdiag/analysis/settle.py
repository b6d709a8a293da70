# SPDX-License-Identifier: Apache-2.0
"""One cause, one finding: a symptom that another finding explains becomes that finding's evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from netdiag.findings import Evidence, Finding

__all__ = ["EXPLAINED_BY", "settle"]

EXPLAINED_BY: Mapping[str, frozenset[str]] = {}
"""Symptom → the causes that explain it when they concern the same program and host."""


def settle(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings without the explained symptoms."""
    kept = list(findings)
    for symptom in [finding for finding in kept if finding.code in EXPLAINED_BY]:
        cause = next((other for other in kept if _explains(other, symptom)), None)
        if cause is not None:
            note = Evidence(kind="finding", id=symptom.code, note=symptom.title)
            explained = replace(cause, evidence=(*cause.evidence, note))
            kept = [explained if other is cause else other for other in kept if other is not symptom]
    return kept


def _explains(cause: Finding, symptom: Finding) -> bool:
    same = cause.subject.pid == symptom.subject.pid and cause.subject.remote == symptom.subject.remote
    return same and cause.code in EXPLAINED_BY[symptom.code]
