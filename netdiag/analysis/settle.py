# SPDX-License-Identifier: Apache-2.0
"""One cause, one finding: a symptom that another finding explains becomes that finding's evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from netdiag.findings import Evidence, Finding, Severity

__all__ = ["EXPLAINED_BY", "QUIETED", "settle"]

_OPENERS = frozenset(
    f"reuse.{name}"
    for name in (
        "client-per-call", "process-per-call", "client-per-thread", "stream-closed-early", "body-unread", "cancelled",
        "client-idle-expiry", "server-idle-timeout", "server-max-requests", "server-max-age", "client-asks-close",
        "server-close", "server-reload", "pool-too-small", "pool-split", "address-rotation", "upstream-close",
        "proxy-connect", "loop-per-call",
    )
)  # fmt: skip
"""Causes that make connections: the set-up of those is their cost."""

EXPLAINED_BY: Mapping[str, frozenset[str]] = {
    "tcp.far-server": _OPENERS,
    "tls.context-per-client": _OPENERS,
    "tls.resumption-refused": frozenset({"tls.interception"}),
    "tcp.retransmits": frozenset({"reuse.silent-drop", "stream.network-stall"}),
    "tcp.syn-retransmit": frozenset({"tcp.accept-queue"}),
    "tcp.reset": frozenset({"tcp.accept-queue", "reuse.fork-shared", "stream.truncated"}),
    "reuse.stale-race": frozenset({"http2.goaway-lost", "reuse.fork-shared"}),
    "tcp.zero-window": frozenset({"stream.reader-stall", "stream.tiny-reads"}),
    "stream.reader-stall": frozenset({"stream.tiny-reads"}),
    "http.slow-upload": frozenset({"tcp.zero-window"}),
    "stream.network-stall": frozenset({"http2.head-of-line"}),
    "reuse.server-close": frozenset({"stream.truncated"}),
    "reuse.no-keepalive-probes": frozenset({"reuse.silent-drop"}),
    "dns.repeated": _OPENERS,
    "retry.attempts": frozenset(
        {"retry.storm", "retry.client-timeout", "reuse.loop-per-call", "reuse.frozen-process", "reuse.stale-race"}
        | {"stream.truncated", "retry.abandoned-work"}
    ),
    "retry.abandoned-work": frozenset({"retry.client-timeout"}),
}
"""Symptom → the causes that explain it when they concern the same program and host."""

_BY_COUNT = frozenset(
    {
        ("reuse.server-close", "stream.truncated"),
        ("tcp.reset", "stream.truncated"),
        ("retry.attempts", "stream.truncated"),
    }
    | {("retry.attempts", "reuse.stale-race"), ("stream.reader-stall", "stream.tiny-reads")}
)
"""Symptom and cause, where the cause only explains it if it accounts for half of the occurrences or more."""

QUIETED = frozenset(
    f"tls.{name}"
    for name in (
        "resumption-not-offered", "tickets-not-issued", "resumption-refused", "ticket-shortage", "early-data-refused",
        "hello-retry", "old-version", "large-server-flight", "slow-server", "slow-client",
    )
) | {"dns.slow", "dns.search-list", "retry.abandoned-work"}  # fmt: skip
"""What makes connections dearer, or follows from their end: where another cause makes them, change that one first."""


def settle(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings without the explained symptoms."""
    kept = list(findings)
    for symptom in [finding for finding in kept if finding.code in EXPLAINED_BY]:
        cause = next((other for other in kept if _explains(other, symptom)), None)
        if cause is not None:
            note = Evidence(kind="finding", id=symptom.code, note=symptom.title)
            explained = replace(cause, evidence=(*cause.evidence, note))
            kept = [explained if other is cause else other for other in kept if other is not symptom]
    return [_quieted(finding, kept) if finding.code in QUIETED else finding for finding in kept]


def _quieted(finding: Finding, others: Iterable[Finding]) -> Finding:
    """Return the finding as a remark where another one makes its connections."""
    if not any(other.code in _OPENERS and _same(other, finding) for other in others):
        return finding
    return replace(finding, severity=Severity.INFO)


def _explains(cause: Finding, symptom: Finding) -> bool:
    if cause.code not in EXPLAINED_BY[symptom.code]:
        return False
    if (symptom.code, cause.code) in _BY_COUNT and 2 * cause.count < symptom.count:
        return False
    return _same(cause, symptom)


def _same(cause: Finding, symptom: Finding) -> bool:
    """They concern the same program and host, or the same connections."""
    here = cause.code == "tcp.accept-queue" or cause.subject.pid == symptom.subject.pid
    same = here and cause.subject.remote == symptom.subject.remote
    return same or bool(_connections(cause) & _connections(symptom))


def _connections(finding: Finding) -> set[str]:
    return {line.id for line in finding.evidence if line.kind == "connection" and line.id}
