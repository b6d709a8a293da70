# SPDX-License-Identifier: Apache-2.0
"""Somebody in between who answers in a host's name: two parties at one address, by their certificates' issuers.

One fact alone has many harmless reasons: nodes of a fleet differ in versions and ciphers, certificates are renewed by
another authority, a host moves, two content networks serve one name. Said is only what none of these does: at one and
the same address, in turn, certificates of two issuers, each with its own choices for the same offer, and never a
session that the one gave and the other took. Only TLS 1.2 shows who issued a certificate.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from netdiag.analysis.build import Seen, finding
from netdiag.analysis.case import Case
from netdiag.analysis.tls_shakes import Server, Shake, saw, servers
from netdiag.findings import Finding, Severity

__all__ = ["analyze"]

_EACH = 2
"""Handshakes that each of the two has to have made."""
_TURNS = 2
"""Changes from the one to the other: a move or a renewal is one."""


def analyze(case: Case) -> list[Finding]:
    """Return one finding per program and host."""
    seen = [one for server in servers(case) if (one := _two_parties(server)) is not None]
    return [finding(case, one) for one in seen]


def _two_parties(server: Server) -> Seen | None:
    told = [shake for shake in server.completed() if _issuer(shake) is not None]
    for place in sorted({_place(shake) for shake in told}):
        here = [shake for shake in told if _place(shake) == place]
        found = _judge(server, here)
        if found is not None:
            return found
    return None


def _issuer(shake: Shake) -> int | None:
    """Return who issued the server's certificate, where that and both sides' choices are known."""
    if not shake.full or not shake.chain or None in (shake.client_print, shake.server_print, shake.sni):
        return None
    return shake.chain[0].issuer


def _place(shake: Shake) -> tuple[str, str]:
    """Return where the same offer should find the same party."""
    return shake.link.remote, shake.client_print or ""


def _judge(server: Server, here: Sequence[Shake]) -> Seen | None:
    parties: dict[int | None, list[Shake]] = {}
    for shake in here:
        parties.setdefault(_issuer(shake), []).append(shake)
    sizes = sorted(map(len, parties.values()))
    if len(parties) != 2 or sizes[0] < _EACH:
        return None
    one, other = parties.values()
    changes = sum(_issuer(a) != _issuer(b) for a, b in pairwise(here))
    if changes < _TURNS or _prints(one) & _prints(other):
        return None
    remote = here[0].link.remote
    near = [shake for shake in server.completed() if shake.link.remote == remote]
    later = [shake for shake in near if shake.started_ns > max(one[0].started_ns, other[0].started_ns)]
    if any(shake.resumed for shake in later):
        return None  # whoever takes the session knows who gave it
    refused = [shake for shake in later if shake.offers and shake.full]
    odd = _odd(one, other)
    return saw(
        "tls.interception",
        server,
        odd,
        of=len(here),
        confidence=0.75 if refused else 0.6,
        severity=Severity.WARNING,
        cause="sessions-refused" if refused else None,
        note=f"the other {len(here) - len(odd)} had a certificate of another issuer and chose "
        f"{_choice(next(shake for shake in here if shake not in odd))} instead of {_choice(odd[0])}",
        words={"address": remote},
    )


def _prints(shakes: Sequence[Shake]) -> set[str | None]:
    return {shake.server_print for shake in shakes}


def _odd(one: list[Shake], other: list[Shake]) -> list[Shake]:
    """Return the likelier intruder's: its certificate does not tell of its issuer, or it was met less often."""
    if _published(one) != _published(other):
        return other if _published(one) else one
    return min(one, other, key=len)


def _published(shakes: Sequence[Shake]) -> bool:
    return all(shake.chain is not None and shake.chain[0].fetchable for shake in shakes)


def _choice(shake: Shake) -> str:
    return f"{shake.version} with {shake.cipher}"
