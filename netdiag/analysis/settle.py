# SPDX-License-Identifier: Apache-2.0
"""One cause, one finding: a symptom that another finding explains becomes that finding's evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from netdiag.findings import Evidence, Finding

__all__ = ["EXPLAINED_BY", "settle"]

_OPENERS = frozenset(
    f"reuse.{name}"
    for name in (
        "client-per-call", "process-per-call", "client-per-thread", "stream-closed-early", "body-unread", "cancelled",
        "client-idle-expiry", "server-idle-timeout", "server-max-requests", "server-max-age", "client-asks-close",
        "server-close", "server-reload", "pool-too-small", "pool-split", "address-rotation", "upstream-close",
    )
)  # fmt: skip
"""Causes that make connections: the set-up of those is their cost."""

EXPLAINED_BY: Mapping[str, frozenset[str]] = {
    "tcp.far-server": _OPENERS,
    "tcp.retransmits": frozenset({"reuse.silent-drop"}),
    "tcp.syn-retransmit": frozenset({"tcp.accept-queue"}),
    "tcp.reset": frozenset({"tcp.accept-queue", "reuse.fork-shared"}),
    "reuse.stale-race": frozenset({"reuse.fork-shared"}),
    "reuse.no-keepalive-probes": frozenset({"reuse.silent-drop"}),
}
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
    if cause.code not in EXPLAINED_BY[symptom.code]:
        return False
    here = cause.code == "tcp.accept-queue" or cause.subject.pid == symptom.subject.pid
    same = here and cause.subject.remote == symptom.subject.remote
    return same or bool(_connections(cause) & _connections(symptom))


def _connections(finding: Finding) -> set[str]:
    return {line.id for line in finding.evidence if line.kind == "connection" and line.id}
