# SPDX-License-Identifier: Apache-2.0
"""Received bytes as facts: ICMP errors with what they quote and their MPLS extensions, echo replies, TCP segments.

All of it is foreign. A parser returns None for what is too short or contradicts itself, and raises for nothing.
"""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass

from netdiag.route.engine.packet import checksum
from netdiag.route.model import Kind, Label

__all__ = [
    "IcmpError",
    "Quoted",
    "Segment",
    "error_kind",
    "icmp",
    "labels",
    "mtu_of",
    "quoted",
    "segment",
    "strip_ipv4",
]

_MOST_LABELS = 16
_MOST_BYTES = 1500
"""Of one ICMP message that are looked at; RFC 4884 and RFC 4443 messages fit into 576 and 1280."""
_MPLS_CLASS, _MPLS_TYPE = 1, 1
_LEGACY_QUOTE = 128
"""Where extensions begin in messages that do not say so (RFC 4884, 5.5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoted:
    """The start of a packet as an ICMP error quotes it."""

    source: str
    destination: str
    protocol: int
    ttl: int
    tos: int
    length: int
    """Total length, as its header claims."""
    ip_id: int | None
    """None in IPv6."""
    transport: bytes
    """Transport header and payload, as far as quoted; at least 8 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IcmpError:
    """An ICMP error message."""

    kind: Kind
    type: int
    code: int
    mtu: int | None
    quoted: Quoted
    labels: tuple[Label, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """The fixed part of a TCP header."""

    source_port: int
    port: int
    sequence: int
    acknowledged: int
    flags: int


def error_kind(version: int, kind: int, code: int) -> Kind | None:
    """Return what an ICMP type and code mean; None for what is no error that a probe can cause."""
    if version == 4:
        if kind == 3:
            return {3: Kind.PORT_UNREACHABLE, 4: Kind.TOO_BIG}.get(code, Kind.UNREACHABLE)
        return Kind.TTL_EXCEEDED if (kind, code) == (11, 0) else None
    if kind == 1:
        return Kind.PORT_UNREACHABLE if code == 4 else Kind.UNREACHABLE
    return {(2, 0): Kind.TOO_BIG, (3, 0): Kind.TTL_EXCEEDED}.get((kind, code))


def icmp(version: int, data: bytes) -> IcmpError | None:
    """Return the error that an ICMP message holds, its checksum verified (IPv4; the kernel does it for IPv6)."""
    if len(data) < 8 or (version == 4 and checksum(data) != 0):
        return None
    kind = error_kind(version, data[0], data[1])
    if kind is None:
        return None
    rest = data[8:_MOST_BYTES]
    claimed = data[5] * 4 if version == 4 else data[4] * 8  # RFC 4884: length of the quote; 0 in older messages
    inner = quoted(version, rest[: claimed or None])
    if inner is None or claimed > len(rest):
        return None
    found = labels(rest, claimed or _LEGACY_QUOTE)
    mtu = mtu_of(version, kind, data[4:8])
    return IcmpError(kind=kind, type=data[0], code=data[1], mtu=mtu, quoted=inner, labels=found)


def mtu_of(version: int, kind: Kind, field: bytes) -> int | None:
    """Return the MTU of a too-big message from bytes 4 to 8 of it; None where it is another, or says none."""
    if kind is not Kind.TOO_BIG:
        return None
    (value,) = struct.unpack("!H", field[2:4]) if version == 4 else struct.unpack("!I", field)
    return value or None


def quoted(version: int, data: bytes) -> Quoted | None:
    """Return the packet that `data` is the start of; None when it is no packet of that version."""
    return _quoted4(data) if version == 4 else _quoted6(data)


def _quoted4(data: bytes) -> Quoted | None:
    size = (data[0] & 15) * 4 if data else 0
    if size < 20 or data[0] >> 4 != 4 or len(data) < size + 8:
        return None
    tos, length, ip_id, ttl, protocol, source, destination = struct.unpack("!xBHH2xBB2x4s4s", data[:20])
    return Quoted(
        source=_text(source),
        destination=_text(destination),
        protocol=protocol,
        ttl=ttl,
        tos=tos,
        length=length,
        ip_id=ip_id,
        transport=data[size:],
    )


def _quoted6(data: bytes) -> Quoted | None:
    if len(data) < 48 or data[0] >> 4 != 6:
        return None
    first, length, protocol, ttl, source, destination = struct.unpack("!IHBB16s16s", data[:40])
    return Quoted(
        source=_text(source),
        destination=_text(destination),
        protocol=protocol,
        ttl=ttl,
        tos=first >> 20 & 0xFF,
        length=length + 40,
        ip_id=None,
        transport=data[40:],
    )


def labels(data: bytes, start: int) -> tuple[Label, ...]:
    """Return the MPLS stack of an extension structure that begins at `start`; nothing where none is, or a bad one."""
    block = data[start:]
    if len(block) < 8 or block[0] >> 4 != 2 or (block[2:4] != b"\0\0" and checksum(block) != 0):
        return ()
    at = 4
    while at + 4 <= len(block):
        length, class_number, class_type = struct.unpack("!HBB", block[at : at + 4])
        if length < 4 or at + length > len(block):
            return ()
        if (class_number, class_type) == (_MPLS_CLASS, _MPLS_TYPE):
            return _stack(block[at + 4 : at + length])
        at += length
    return ()


def _stack(entries: bytes) -> tuple[Label, ...]:
    found = []
    for at in range(0, min(len(entries) & ~3, _MOST_LABELS * 4), 4):
        (word,) = struct.unpack("!I", entries[at : at + 4])
        bottom = bool(word >> 8 & 1)
        found.append(Label(value=word >> 12, traffic_class=word >> 9 & 7, bottom=bottom, ttl=word & 0xFF))
        if bottom:
            break
    return tuple(found)


def segment(data: bytes) -> Segment | None:
    """Return the TCP header at the start of `data`."""
    if len(data) < 20 or data[12] >> 4 < 5:
        return None
    source_port, port, sequence, acknowledged, flags = struct.unpack("!HHIIxB", data[:14])
    return Segment(source_port=source_port, port=port, sequence=sequence, acknowledged=acknowledged, flags=flags)


def strip_ipv4(data: bytes) -> tuple[int, str, bytes] | None:
    """Return TTL, source and the rest of a whole IPv4 packet, as raw sockets deliver it."""
    size = (data[0] & 15) * 4 if data else 0
    if size < 20 or data[0] >> 4 != 4 or len(data) < size:
        return None
    return data[8], _text(data[12:16]), data[size:]


def _text(raw: bytes) -> str:
    return str(ipaddress.ip_address(raw))
