# SPDX-License-Identifier: Apache-2.0
"""Chains of certificates that passed in the clear: one that lacks the issuer of the server's own, and is refused.

A chain alone proves nothing, since a root may issue a server's certificate and need not be sent. It takes a program
that refuses it for want of trust, or that fetches the issuer first; and no sign that the issuer is a root.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from netdiag.analysis.build import Seen
from netdiag.analysis.case import Case
from netdiag.analysis.links import NAN, known
from netdiag.analysis.tls_shakes import Server, Shake, all_shakes, saw
from netdiag.findings import Severity

__all__ = ["Chains", "incomplete_chain"]

_UNTRUSTED = frozenset({"unknown_ca", "bad_certificate", "certificate_unknown"})
"""Alerts of OpenSSL, rustls and GnuTLS; of Go; of Java."""
_HABIT = 3
_HTTP = 80
"""Where issuers' certificates are fetched: RFC 5280 section 4.2.2.1 wants no TLS for it."""
_FETCH_MS = 10_000.0


class Chains:
    """What all chains of a trace tell of the issuers."""

    def __init__(self, case: Case) -> None:
        certificates = [one for shake in all_shakes(case) for one in shake.chain or () if one.subject is not None]
        self.roots = {one.subject for one in certificates if one.subject == one.issuer}
        """Names that issued themselves."""
        self.intermediates = {one.subject for one in certificates} - self.roots
        self.fetches = sorted(
            (link.pid, link.opened_ns) for link in case.clients if link.remote_port == _HTTP and known(link.opened_ns)
        )

    def fetched(self, shake: Shake) -> bool:
        """The program asked an HTTP server after the chain had come, before it went on."""
        end = shake.ended_ns if shake.completed else shake.link.closing_ns
        end = end if known(end) else shake.started_ns + _FETCH_MS * 1e6
        return any(pid == shake.link.pid and shake.started_ns < at < end for pid, at in self.fetches)


def incomplete_chain(server: Server, failed: Sequence[Shake], chains: Chains) -> Seen | None:
    """Return what was seen of handshakes that failed, or had to fetch, for want of the issuer's certificate."""
    without = {shake.id for shake in server.shakes if _lacks_issuer(shake, chains)}
    refused = [shake for shake in failed if shake.id in without and (shake.alert in _UNTRUSTED or _gave_up(shake))]
    if not refused:
        refused = _unasked(server, without)
    fetching = [shake for shake in server.completed() if shake.id in without and chains.fetched(shake)]
    hurt = refused or (fetching if len(fetching) >= _HABIT else [])
    if not hurt:
        return None
    issuers = {shake.chain[0].issuer for shake in hurt if shake.chain}
    seen_elsewhere = bool(issuers & chains.intermediates)
    published = all(shake.chain and shake.chain[0].fetchable for shake in hurt)
    accepted = any(
        shake.id in without and not chains.fetched(shake) for shake in server.completed() if shake not in hurt
    )
    certain = seen_elsewhere or bool(fetching)
    confidence = (
        0.95
        if certain
        else 0.5
        if accepted or not all(shake.alert for shake in refused)
        else 0.8
        if published
        else 0.65
    )
    times = [_took_ms(shake) for shake in hurt]
    return saw(
        "tls.incomplete-chain",
        server,
        hurt,
        of=len(server.shakes),
        confidence=confidence,
        cost_ms=sum(time for time in times if known(time)) if any(map(known, times)) else NAN,
        cause="refused" if refused else "fetched",
        severity=Severity.CRITICAL if len(refused) == len(server.shakes) or len(refused) >= _HABIT else None,
        breaks=bool(refused),
        note=_note(certain=certain, accepted=accepted),
        words={"sent": _sent(hurt[0])},
    )


def _lacks_issuer(shake: Shake, chains: Chains) -> bool:
    """The issuer of the server's certificate was not sent, and is not known to be a root."""
    if shake.chain is None:
        return False
    own, *others = shake.chain
    known_names = own.subject is not None and own.issuer is not None
    sent = any(own.issuer == other.subject for other in others)
    return known_names and own.subject != own.issuer and not sent and own.issuer not in chains.roots


def _gave_up(shake: Shake) -> bool:
    """The program closed without a word after the chain had come."""
    return shake.alert is None and shake.link.closed_by == "local" and shake.outcome == "failed"


def _unasked(server: Server, without: Container[str]) -> list[Shake]:
    """A program that looks at the certificate after the handshake: it closes each connection and asks for nothing."""
    done = server.completed()
    quiet = [shake for shake in done if shake.id in without and shake.link.app == 0 and shake.link.closed_by == "local"]
    return quiet if len(quiet) >= _HABIT and len(quiet) == len(done) else []


def _took_ms(shake: Shake) -> float:
    if shake.completed and known(shake.link.app) and shake.link.app > 0:
        return shake.client_ms
    return (shake.link.closing_ns - shake.started_ns) / 1e6


def _sent(shake: Shake) -> str:
    count = len(shake.chain or ())
    return "its own certificate alone" if count == 1 else f"{count} certificates, none of them the issuer of its own"


def _note(*, certain: bool, accepted: bool) -> str:
    if certain:
        return "the issuer is no root: it was seen elsewhere"
    if accepted:
        return "others accepted the same chain: they know the issuer, or keep one that they met before"
    return "a program that does not trust a root which issued it directly would look the same"
