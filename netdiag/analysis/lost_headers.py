# SPDX-License-Identifier: Apache-2.0
"""Who wanted connections to end right with their only answer: what headers say of it, and what stays open without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from netdiag.analysis.case import Group
from netdiag.analysis.claims import Claim, at_once
from netdiag.analysis.http_calls import Asked
from netdiag.analysis.links import known

__all__ = ["by_headers", "or_per_call"]

_SERVER, _CLIENT, _ASKS = "reuse.server-close", "reuse.client-per-call", "reuse.client-asks-close"
_NEARLY_ALL = 0.8
_DOUBT = 0.5


def by_headers(claim: Claim, asked: Sequence[Asked]) -> Claim:
    """Return the claim as the headers settle it, where they were seen; `asked` are the group's requests."""
    if claim.code not in (_SERVER, _CLIENT) or claim.cause != "unknown":
        return claim
    rows = {link.row for link in claim.lost}
    seen = [call for call in asked if call.exact and call.answered and call.link.row in rows]
    enough = _NEARLY_ALL * len(rows)
    if len({call.link.row for call in seen}) < enough:
        return claim
    if sum(_closes(call.request_headers.get("connection")) for call in seen) >= enough:
        return replace(
            claim, code=_ASKS, cause=None, confidence=0.95, note="each request asks for it: Connection: close"
        )
    if sum(map(_ends, seen)) >= enough:
        note = "each answer says so: Connection: close, or HTTP/1.0"
        return replace(claim, code=_SERVER, cause="header", confidence=0.95, note=note)
    if claim.code == _CLIENT and not any(map(_ends, seen)):
        note = "closed by the program at once after the answer, which offered to keep the connection"
        return replace(claim, cause=None, confidence=max(claim.confidence, 0.9), note=note)
    return claim


def or_per_call(group: Group, claim: Claim) -> tuple[Claim, ...]:
    """Return an end by the server with the other candidate, where packets alone were seen.

    A program that makes a client for each call ends each connection with its answer, too: whose FIN is first so close
    to the answer is chance, or the server does as the answer's header says, which no packet shows.
    """
    if claim.code != _SERVER or claim.cause != "unknown" or known(group.pid) or not all(map(at_once, claim.lost)):
        return (claim,)
    note = f"{claim.note}; " if claim.note else ""
    doubt = min(claim.confidence, _DOUBT)
    return (
        replace(claim, confidence=doubt, note=f"{note}a client for each call would look the same"),
        replace(
            claim,
            code=_CLIENT,
            confidence=doubt,
            quiet=True,  # one of the two is the cause, and one warning is enough
            note=f"{note}a program that closes at once after its answer would look the same",
        ),
    )


def _closes(value: str | None) -> bool:
    return value is not None and "close" in {word.strip() for word in value.lower().split(",")}


def _ends(call: Asked) -> bool:
    """The answer ends the connection by what it says, or by what it does not say."""
    said = call.headers.get("connection")
    return _closes(said) or (call.protocol == "http/1.0" and "keep-alive" not in (said or "").lower())
