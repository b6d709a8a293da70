# SPDX-License-Identifier: Apache-2.0
"""Probe packets as bytes: whole IPv4 and IPv6 packets whose flow fields stay the same from probe to probe.

What tells probes apart stands where no router looks when it picks a way: the TCP sequence number, the IP id, and
payload words that even each other out in the checksum.
"""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass

__all__ = [
    "MAGIC_BYTES",
    "FlowKey",
    "acknowledgement",
    "checksum",
    "echo",
    "fold",
    "number_in",
    "packed",
    "payload",
    "syn",
    "udp",
]

MAGIC_BYTES = 8
"""Random bytes at the start of each payload: who can repeat them has seen our packet."""

_TCP, _UDP, _ICMP, _ICMPV6 = 6, 17, 1, 58
_DF = 0x4000
_SYN_OPTIONS = bytes.fromhex("020405b4")  # MSS 1460, as any client says
_WINDOW = 64240
_PAYLOAD_BYTES = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowKey:
    """All that routers may hash, and where the packets go."""

    source: bytes
    """Packed address, 4 or 16 bytes."""
    destination: bytes
    source_port: int
    """ICMP: the echo id."""
    port: int
    """ICMP: unused."""
    label: int = 0
    """IPv6 flow label, 20 bits."""
    checksum: int = 0x4E44
    """ICMP: the checksum that every echo request gets; 1..0xFFFE."""
    magic: bytes = bytes(MAGIC_BYTES)

    @property
    def version(self) -> int:
        """4 or 6."""
        return 4 if len(self.source) == 4 else 6


def packed(ip: str) -> bytes:
    """Return an address as 4 or 16 bytes; a zone is dropped."""
    return ipaddress.ip_address(ip.partition("%")[0]).packed


def fold(total: int) -> int:
    """Return a sum of 16-bit words as one's complement, 16 bits."""
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def _sum(data: bytes) -> int:
    if len(data) % 2:
        data += b"\0"
    return sum(struct.unpack(f"!{len(data) // 2}H", data))


def checksum(data: bytes) -> int:
    """Return the Internet checksum of bytes in which the checksum field is zero."""
    return 0xFFFF ^ fold(_sum(data))


def payload(magic: bytes, number: int) -> bytes:
    """Return `_PAYLOAD_BYTES` bytes that name a probe; all numbers give the same sum of words."""
    return magic + struct.pack("!HH", number & 0xFFFF, 0xFFFF ^ (number & 0xFFFF)) + bytes(_PAYLOAD_BYTES - 12)


def number_in(data: bytes, magic: bytes) -> int | None:
    """Return the number in a payload of ours; None for any other."""
    if data[: len(magic)] != magic or len(data) < len(magic) + 4:
        return None
    number, inverse = struct.unpack_from("!HH", data, len(magic))
    return int(number) if number ^ inverse == 0xFFFF else None


def syn(flow: FlowKey, ttl: int, sequence: int, number: int) -> bytes:
    """Return a SYN; `sequence` names the probe, `number` goes into the IPv4 id as well."""
    head = struct.pack("!HHIIBBHHH", flow.source_port, flow.port, sequence, 0, 6 << 4, 2, _WINDOW, 0, 0)
    return _packet(flow, ttl, number, _TCP, head + _SYN_OPTIONS, 16)


def acknowledgement(flow: FlowKey, ttl: int, sequence: int, acknowledged: int, number: int) -> bytes:
    """Return an empty segment of an open connection; `number` goes into the window and the IPv4 id.

    Where the far end has acknowledged `sequence` already, it discards the segment before it looks at the window.
    """
    head = struct.pack(
        "!HHIIBBHHH", flow.source_port, flow.port, sequence, acknowledged, 5 << 4, 0x10, number & 0xFFFF, 0, 0
    )
    return _packet(flow, ttl, number, _TCP, head, 16)


def udp(flow: FlowKey, ttl: int, number: int) -> bytes:
    """Return a datagram whose ports, length and checksum are those of all others of the flow."""
    body = payload(flow.magic, number)
    head = struct.pack("!HHHH", flow.source_port, flow.port, 8 + len(body), 0)
    return _packet(flow, ttl, number, _UDP, head + body, 6)


def echo(flow: FlowKey, ttl: int, number: int) -> bytes:
    """Return an echo request; one payload word makes the checksum come out as `flow.checksum`."""
    segment = echo_segment(flow, number)
    return _with_header(flow, ttl, number, _ICMP if flow.version == 4 else _ICMPV6, segment)


def echo_segment(flow: FlowKey, number: int) -> bytes:
    """Return the ICMP part alone, with its checksum (over the IPv6 pseudo header too, where it is IPv6)."""
    kind = 8 if flow.version == 4 else 128
    body = flow.magic + bytes(_PAYLOAD_BYTES - MAGIC_BYTES - 2)
    head = struct.pack("!BBHHH", kind, 0, flow.checksum, flow.source_port, number & 0xFFFF)
    length = len(head) + len(body) + 2
    total = fold(_sum(head) + _sum(body) + (_pseudo(flow, _ICMPV6, length) if kind == 128 else 0))
    return head + body + struct.pack("!H", 0xFFFF - total)  # all words together now sum up to 0xFFFF


def _pseudo(flow: FlowKey, protocol: int, length: int) -> int:
    return _sum(flow.source) + _sum(flow.destination) + protocol + length


def _packet(flow: FlowKey, ttl: int, number: int, protocol: int, segment: bytes, at: int) -> bytes:
    value = 0xFFFF ^ fold(_sum(segment) + _pseudo(flow, protocol, len(segment)))
    value = value or (0xFFFF if protocol == _UDP else 0)
    return _with_header(flow, ttl, number, protocol, segment[:at] + struct.pack("!H", value) + segment[at + 2 :])


def _with_header(flow: FlowKey, ttl: int, number: int, protocol: int, segment: bytes) -> bytes:
    if flow.version == 6:
        head = struct.pack("!IHBB", 6 << 28 | flow.label & 0xFFFFF, len(segment), protocol, ttl)
        return head + flow.source + flow.destination + segment
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(segment), number & 0xFFFF, _DF, ttl, protocol, 0)
    head += flow.source + flow.destination
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + segment
