# SPDX-License-Identifier: Apache-2.0
"""Which probe a received packet answers, if any. Pure: bytes and what was sent in, a reply or a reason out.

An answer must repeat something of the probe that an outsider cannot guess, or name exactly our flow and our number.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from netdiag.route.engine import parse
from netdiag.route.engine.packet import MAGIC_BYTES, FlowKey, number_in
from netdiag.route.engine.parse import IcmpError, Quoted
from netdiag.route.model import Clock, Kind, Matched, Protocol, Quote, Reply

__all__ = ["Known", "Outcome", "icmp", "tcp", "udp"]

Make: TypeAlias = Callable[[float, Clock], Reply]
"""Completes a reply with its round trip, milliseconds, and whose clock said so."""
Outcome: TypeAlias = tuple[int, Make] | Literal["mismatched", "malformed", "foreign"]
"""The probe's number and the reply; or why the packet has no effect."""

_NUMBERS = {(Protocol.TCP, 4): 6, (Protocol.TCP, 6): 6, (Protocol.UDP, 4): 17, (Protocol.UDP, 6): 17}
_NUMBERS |= {(Protocol.ICMP, 4): 1, (Protocol.ICMP, 6): 58}
_SYN, _RST, _ACK = 0x02, 0x04, 0x10
_CHECKSUM_AT = {6: 16, 17: 6, 1: 2, 58: 2}


@dataclass(slots=True, kw_only=True)
class Known:
    """What was sent."""

    ip: str
    port: int
    protocol: Protocol
    version: int
    flows: dict[int, FlowKey] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    """TCP sequence number → probe; they rise in small random steps from 32 random bits."""
    numbers: dict[int, int] = field(default_factory=dict)
    """Number on the wire (IP id, ICMP sequence, payload) → probe."""
    sent: dict[int, bytes] = field(default_factory=dict)
    """Probe → whole packet."""

    def transport(self, number: int) -> bytes:
        """Return a sent packet behind its IP header."""
        return self.sent[number][20 if self.version == 4 else 40 :]


def icmp(known: Known, data: bytes, ip: str, ttl: int | None) -> Outcome:
    """Match an ICMP message (without IP header) that came from `ip`."""
    echo = 0 if known.version == 4 else 129
    if data[:1] == bytes([echo]):
        return _echo(known, data, ip, ttl)
    error = parse.icmp(known.version, data)
    if error is None:
        return "malformed"
    quoted = error.quoted
    if quoted.protocol != _NUMBERS[known.protocol, known.version]:
        return "foreign"
    number, matched = _quoted_number(known, quoted)
    if number is None:
        return "mismatched" if matched is Matched.PAYLOAD or _names_us(known, quoted) else "foreign"
    return number, _maker(error, ip, ttl, matched, _quote(known, number, quoted))


def tcp(known: Known, data: bytes, ip: str, ttl: int | None) -> Outcome:
    """Match a TCP segment (without IP header) that came from the target."""
    segment = parse.segment(data)
    if segment is None:
        return "malformed"
    ours = segment.source_port == known.port and any(k.source_port == segment.port for k in known.flows.values())
    if ip != known.ip or not ours:
        return "foreign"
    number = known.sequences.get((segment.acknowledged - 1) % (1 << 32))
    flags = segment.flags & (_SYN | _RST | _ACK)
    kind = {_SYN | _ACK: Kind.SYN_ACK, _RST | _ACK: Kind.RST}.get(flags)
    if number is None or kind is None:
        return "mismatched"
    return number, _answer(kind, ip, ttl, Matched.SEQUENCE)


def udp(known: Known, data: bytes, ip: str, ttl: int | None) -> Outcome:
    """Match a datagram's payload; only one that repeats ours can be told to be an answer to which probe."""
    if ip != known.ip:
        return "mismatched"
    number = _in_payload(known, data)
    return "mismatched" if number is None else (number, _answer(Kind.DATA, ip, ttl, Matched.PAYLOAD))


def _echo(known: Known, data: bytes, ip: str, ttl: int | None) -> Outcome:
    if len(data) < 8:
        return "malformed"
    ident, sequence = struct.unpack_from("!HH", data, 4)
    key = _icmp_flow(known, data[8 : 8 + MAGIC_BYTES])
    if known.protocol is not Protocol.ICMP or (
        key is None and all(k.source_port != ident for k in known.flows.values())
    ):
        return "foreign"
    number = known.numbers.get(sequence)
    if key is None or number is None or ip != known.ip:
        return "mismatched"
    return number, _answer(Kind.ECHO_REPLY, ip, ttl, Matched.PAYLOAD)


def _icmp_flow(known: Known, magic: bytes) -> FlowKey | None:
    return next((key for key in known.flows.values() if key.magic == magic), None)


def _in_payload(known: Known, data: bytes) -> int | None:
    for key in known.flows.values():
        number = number_in(data, key.magic)
        if number is not None:
            return known.numbers.get(number)
    return None


def _quoted_number(known: Known, quoted: Quoted) -> tuple[int | None, Matched]:
    start = quoted.transport
    if known.protocol is Protocol.TCP:
        return known.sequences.get(int.from_bytes(start[4:8], "big")), Matched.SEQUENCE
    if known.protocol is Protocol.UDP:
        number = _in_payload(known, start[8:])
        if number is not None:
            same_port = int.from_bytes(start[2:4], "big") == known.port
            return (number if same_port else None), Matched.PAYLOAD
        plain = _names_us(known, quoted) and len(start) < 8 + MAGIC_BYTES + 4  # old routers quote 8 bytes
        return (known.numbers.get(quoted.ip_id) if plain and quoted.ip_id is not None else None), Matched.IP_ID
    request = start[:1] == (b"\x08" if known.version == 4 else b"\x80")
    magic = start[8 : 8 + MAGIC_BYTES]
    same = _icmp_flow(known, magic) is not None if len(magic) == MAGIC_BYTES else _names_us(known, quoted)
    number = known.numbers.get(int.from_bytes(start[6:8], "big"))
    return (number if request and same else None), Matched.SEQUENCE


def _names_us(known: Known, quoted: Quoted) -> bool:
    """Tell whether a quote has our target and the ports (ICMP: id) of one of our flows."""
    if quoted.destination != known.ip:
        return False
    first, second = struct.unpack_from("!HH", quoted.transport)
    if known.protocol is Protocol.ICMP:
        (ident,) = struct.unpack_from("!H", quoted.transport, 4)
        return any(key.source_port == ident for key in known.flows.values())
    return second == known.port and any(key.source_port == first for key in known.flows.values())


def _quote(known: Known, number: int, quoted: Quoted) -> Quote:
    ours = parse.quoted(known.version, known.sent[number])
    ports = struct.unpack_from("!HH", quoted.transport) if known.protocol is not Protocol.ICMP else (None, None)
    return Quote(
        source_ip=quoted.source,
        destination_ip=quoted.destination,
        source_port=ports[0],
        port=ports[1],
        ttl=quoted.ttl,
        tos=quoted.tos,
        length=quoted.length,
        changed=_changed(ours, quoted) if ours is not None else (),
    )


def _changed(ours: Quoted, quoted: Quoted) -> tuple[str, ...]:
    """Return which fields a quote has otherwise than they were sent."""
    at = _CHECKSUM_AT[ours.protocol]
    sums = ours.transport[at : at + 2], quoted.transport[at : at + 2]
    pairs = {
        "source-ip": (ours.source, quoted.source),
        "destination-ip": (ours.destination, quoted.destination),
        "source-port": (ours.transport[:2], quoted.transport[:2]),
        "port": (ours.transport[2:4], quoted.transport[2:4]),
        "ip-id": (ours.ip_id, quoted.ip_id),
        "checksum": sums if len(sums[1]) == 2 else (b"", b""),
        "tos": (ours.tos, quoted.tos),
    }
    if ours.protocol in (1, 58):  # no ports; the id stands elsewhere
        pairs["source-port"] = (ours.transport[4:6], quoted.transport[4:6])
        del pairs["port"]
    return tuple(name for name, (sent, seen) in pairs.items() if sent != seen)


def _maker(error: IcmpError, ip: str, ttl: int | None, matched: Matched, quote: Quote) -> Make:
    def make(rtt_ms: float, clock: Clock) -> Reply:
        return Reply(
            kind=error.kind,
            ip=ip,
            rtt_ms=rtt_ms,
            clock=clock,
            matched=matched,
            code=error.code,
            ttl=ttl,
            mtu=error.mtu,
            labels=error.labels,
            quote=quote,
        )

    return make


def _answer(kind: Kind, ip: str, ttl: int | None, matched: Matched) -> Make:
    def make(rtt_ms: float, clock: Clock) -> Reply:
        return Reply(kind=kind, ip=ip, rtt_ms=rtt_ms, clock=clock, matched=matched, ttl=ttl)

    return make
