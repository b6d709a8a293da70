# SPDX-License-Identifier: Apache-2.0
"""What unusual probes tell of a way: ECN, data in SYNs, packet sizes, and packets that vanish for their size alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from netdiag.route.model import Greeting, Kind, Odd, OddKind, OddProbe

__all__ = ["BlackHole", "Oddities", "read", "sentences"]

_FAR = 64
_LEAST = 2
"""Answers, or silences, of one sort: a single one may be chance."""
_LEAST_LOST = 4
"""Silent packets over the limit: with 3 % loss by chance, one in a million."""
_BELIEVED, _SEEN_ONCE = 0.9, 0.75
_SMALL = 1200
"""A hello under this size fits into one packet on every way."""
_ECN_SAYS = {
    "negotiated": "ECN: the target takes it",
    "not taken": "ECN: the target, or something before it, does not take it",
    "blocked": "ECN: SYNs that offer it are not answered: a box on the way drops them",
}
_DATA_SAYS = {
    "taken": "SYNs with data: taken (TCP Fast Open)",
    "not taken": "SYNs with data: ignored, the connection stands all the same",
    "blocked": "SYNs with data: not answered: a box on the way drops them",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BlackHole:
    """Packets vanish for their size, and nobody says so."""

    way: str
    """there, back: towards the target, or from it."""
    passed: int | None
    """Largest packet that came through, bytes; None: only segment sizes were compared."""
    lost: int | None
    """Smallest that did not."""
    silent: int
    sent: int
    """Large ones sent, `silent` of them without an answer."""
    last_ttl: int | None = None
    """The farthest router that a lost packet still reached."""
    last_ip: str | None = None
    confidence: float = _SEEN_ONCE
    proof: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Oddities:
    """What is known of one address. None: not asked, or not decided."""

    ip: str
    ecn: str | None = None
    """negotiated, not taken, blocked."""
    bleached_ttl: int | None = None
    """Distance of the first router that saw the mark removed; None: none did."""
    marked: int = 0
    """Routers that quoted the mark as it was sent."""
    data: str | None = None
    """taken, not taken, blocked."""
    path_mtu: int | None = None
    """Largest packet that the target answered."""
    told_by: str | None = None
    """The router that told a smaller size; None: nobody did."""
    told_mtu: int | None = None
    dead: bool = False
    """No ClientHello is answered, of whatever size, in packets of whatever size."""
    split_hello: bool | None = None
    """False: a hello of more than one packet is not answered, however small the packets are."""
    black_hole: BlackHole | None = None


def read(odd: Odd) -> Oddities:
    """Return what follows from unusual probes to one address."""
    told = next((one for one in odd.probes if one.reply is Kind.TOO_BIG), None)
    lowered = min((g.mtu for g in odd.greetings if g.mtu and g.mtu_before and g.mtu < g.mtu_before), default=None)
    stood = [one for one in odd.greetings if one.connected]
    sizes = [one.size for one in _far(odd.probes, OddKind.SIZE) if _answered(one)]
    bleached, marked = _marks(odd.probes)
    sizes_say = _by_size(odd.probes) if told is None else None
    hellos_say = _by_greeting(odd.greetings)
    return Oddities(
        ip=odd.ip,
        ecn=_ecn(odd.probes),
        bleached_ttl=bleached,
        marked=marked,
        data=_data(odd.probes),
        path_mtu=max(sizes, default=None),
        told_by=told.ip if told else None,
        told_mtu=told.mtu if told else lowered,
        dead=len(stood) > _LEAST and not any(one.received for one in stood),
        split_hello=_split(odd.greetings),
        black_hole=_both(sizes_say, hellos_say) if sizes_say and hellos_say else sizes_say or hellos_say,
    )


def _far(probes: Iterable[OddProbe], kind: OddKind) -> list[OddProbe]:
    return [one for one in probes if one.kind is kind and one.ttl == _FAR]


def _answered(found: OddProbe) -> bool:
    return found.reply in (Kind.SYN_ACK, Kind.RST)


def _compared(probes: Sequence[OddProbe], kind: OddKind) -> tuple[list[OddProbe], bool] | None:
    """Return the answers to one kind, and whether none came though plain SYNs were answered; None: nothing to say."""
    plain, own = _far(probes, OddKind.PLAIN), _far(probes, kind)
    answers = [one for one in own if _answered(one)]
    if answers:
        return answers, False
    if len(own) < _LEAST or sum(map(_answered, plain)) < _LEAST:
        return None
    return [], True


def _ecn(probes: Sequence[OddProbe]) -> str | None:
    found = _compared(probes, OddKind.ECN)
    if found is None:
        return None
    answers, blocked = found
    opened = [one for one in answers if one.reply is Kind.SYN_ACK]
    if not blocked and not opened:
        return None
    return "blocked" if blocked else "negotiated" if any(one.ece for one in opened) else "not taken"


def _data(probes: Sequence[OddProbe]) -> str | None:
    found = _compared(probes, OddKind.DATA)
    if found is None:
        return None
    answers, blocked = found
    return "blocked" if blocked else "taken" if any(one.acked for one in answers) else "not taken"


def _marks(probes: Iterable[OddProbe]) -> tuple[int | None, int]:
    """Return where the mark is first gone for good, and how many routers quoted it as it was sent."""
    quotes = sorted((one.ttl, one.tos & 3) for one in probes if one.kind is OddKind.ECT and one.tos is not None)
    kept = [ttl for ttl, mark in quotes if mark]
    gone = [ttl for ttl, mark in quotes if not mark and ttl > max(kept, default=0)]
    return min(gone, default=None), len(kept)


def _by_size(probes: Sequence[OddProbe]) -> BlackHole | None:
    """Return the black hole that SYNs of many sizes show: all up to one size are answered, none above."""
    sized = _far(probes, OddKind.SIZE)
    passed = max((one.size for one in sized if _answered(one)), default=None)
    if passed is None:
        return None
    above = [one for one in sized if one.size > passed]
    below = [one for one in sized if one.size <= passed]
    if len(above) < _LEAST_LOST or sum(map(_answered, below)) < 0.7 * len(below) or any(one.reply for one in above):
        return None
    lost = min(one.size for one in above)
    at = [one for one in probes if one.kind is OddKind.SIZE and one.ttl < _FAR and one.reply is Kind.TTL_EXCEEDED]
    large = max((one for one in at if one.size > passed), key=lambda one: one.ttl, default=None)
    small = max((one.ttl for one in at if one.size <= passed), default=0)
    located = large if large is not None and large.ttl < small else None
    proof = [
        f"SYNs of up to {passed} bytes are answered, of {len(above)} from {lost} bytes on none, and nobody says why"
    ]
    if located is not None:
        proof.append(f"packets of {lost} bytes come as far as hop {located.ttl} ({located.ip}), smaller ones beyond")
    return BlackHole(
        way="there",
        passed=passed,
        lost=lost,
        silent=len(above),
        sent=len(above),
        last_ttl=located.ttl if located else None,
        last_ip=located.ip if located else None,
        confidence=_BELIEVED,
        proof=tuple(proof),
    )


def _by_greeting(greetings: Sequence[Greeting]) -> BlackHole | None:
    """Return the black hole that ClientHellos show: with full packets no answer, with small ones always one."""
    for large in (True, False):
        full = [one for one in greetings if one.connected and one.mss is None and (one.size > _SMALL) is large]
        small = [one for one in greetings if one.connected and one.mss is not None and (one.size > _SMALL) is large]
        dead = [one for one in full if not one.received]
        if len(dead) <= _LEAST or len(dead) < len(full) or len(small) <= _LEAST or not all(g.received for g in small):
            continue
        if large and not any(one.acked for one in dead):
            way = "there"
            words = f"hellos of {dead[0].size} bytes in full packets: {len(dead)} of {len(full)} never acknowledged"
        else:
            way = "back"
            words = f"hellos in full packets: acknowledged, {len(dead)} of {len(full)} never answered"
        then = f"the same with segments of {small[0].mss} bytes: all {len(small)} answered"
        return BlackHole(
            way=way,
            passed=None,
            lost=None,
            silent=len(dead),
            sent=len(full),
            confidence=_SEEN_ONCE + 0.1,
            proof=(words, then),
        )
    return None


def _both(sizes: BlackHole, hellos: BlackHole) -> BlackHole:
    return BlackHole(
        way=sizes.way,
        passed=sizes.passed,
        lost=sizes.lost,
        silent=sizes.silent + hellos.silent,
        sent=sizes.sent + hellos.sent,
        last_ttl=sizes.last_ttl,
        last_ip=sizes.last_ip,
        confidence=round(max(sizes.confidence, hellos.confidence) + 0.05, 2),
        proof=(*sizes.proof, *hellos.proof),
    )


def _split(greetings: Sequence[Greeting]) -> bool | None:
    """Tell whether a hello of two packets is answered; None where small ones are not, or nothing was asked."""
    small = [one for one in greetings if one.connected and one.size <= _SMALL and one.mss is not None]
    large = [one for one in greetings if one.connected and one.size > _SMALL]
    if any(one.received for one in large):
        return True
    slow = [one for one in large if one.mss is not None]
    if len(small) <= _LEAST or not all(one.received for one in small) or len(slow) <= _LEAST:
        return None
    return False


def sentences(found: Oddities) -> list[str]:
    """Return what a reader should know, a sentence each; the black hole is a finding of its own."""
    marks = None
    if found.bleached_ttl is not None:
        marks = f"ECN marks are removed before hop {found.bleached_ttl}"
    elif found.marked:
        marks = f"ECN marks reach all {found.marked} routers that quote them"
    said = (
        _ECN_SAYS.get(found.ecn or ""),
        marks,
        _DATA_SAYS.get(found.data or ""),
        _of_sizes(found),
        _of_hellos(found),
    )
    return [text for text in said if text]


def _of_sizes(found: Oddities) -> str | None:
    if found.told_mtu is not None:
        return f"packet size: {found.told_by or 'a router'} says that at most {found.told_mtu} bytes pass, as it should"
    if found.path_mtu is None or found.black_hole is not None:
        return None
    return f"packet size: {found.path_mtu} bytes pass"


def _of_hellos(found: Oddities) -> str | None:
    if found.dead:
        return "no ClientHello is answered, whatever the size of its packets: size is not the reason"
    if found.split_hello is None:
        return None
    end = "answered" if found.split_hello else "not answered, whatever their size"
    return f"a ClientHello of two packets (post-quantum key share) is {end}"
