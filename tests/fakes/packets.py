# SPDX-License-Identifier: Apache-2.0
"""Packets and capture files built byte by byte, in every shape that links, tunnels and files give them."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
START_S = 1_790_000_000

Timed = tuple[float, bytes]
"""Seconds since the start of the file, and the frame."""


def pcap(
    packets: Iterable[Timed], *, link: int = 1, order: str = "<", nano: bool = False, snap: int = 262_144
) -> bytes:
    """Return a pcap file; longer packets are cut to `snap`."""
    units = 1_000_000_000 if nano else 1_000_000
    out = bytearray(struct.pack(f"{order}IHHiIII", 0xA1B23C4D if nano else 0xA1B2C3D4, 2, 4, 0, 0, snap, link))
    for at, frame in packets:
        ticks = round((START_S + at) * units) if not nano else START_S * units + round(at * units)
        kept = frame[:snap]
        out += struct.pack(f"{order}IIII", ticks // units, ticks % units, len(kept), len(frame)) + kept
    return bytes(out)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """Return a block of pcapng."""
    body += bytes(-len(body) % 4)
    return struct.pack(f"{order}II", kind, len(body) + 12) + body + struct.pack(f"{order}I", len(body) + 12)


def section(order: str = "<") -> bytes:
    """Return a section header block."""
    return block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def options(pairs: Iterable[tuple[int, bytes]], order: str = "<") -> bytes:
    """Return options of a block, with their end."""
    out = b"".join(
        struct.pack(f"{order}HH", code, len(value)) + value + bytes(-len(value) % 4) for code, value in pairs
    )
    return out + struct.pack(f"{order}HH", 0, 0)


def interface(
    link: int = 1, *, resolution: int | None = None, offset_s: int = 0, order: str = "<", snap: int = 0
) -> bytes:
    """Return an interface block; `resolution` is the byte of if_tsresol."""
    pairs = [] if resolution is None else [(9, bytes([resolution]))]
    pairs += [(14, struct.pack(f"{order}q", offset_s))] if offset_s else []
    return block(1, struct.pack(f"{order}HHI", link, 0, snap) + (options(pairs, order) if pairs else b""), order)


def enhanced(ticks: int, frame: bytes, *, owner: int = 0, order: str = "<", passed: int | None = None) -> bytes:
    """Return an enhanced packet block; `ticks` in its interface's resolution."""
    size = len(frame) if passed is None else passed
    head = struct.pack(f"{order}IIIII", owner, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), size)
    return block(6, head + frame + bytes(-len(frame) % 4), order)


def pcapng(packets: Iterable[Timed], *, link: int = 1, order: str = "<") -> bytes:
    """Return a pcapng file with one interface and microseconds."""
    out = section(order) + interface(link, order=order)
    return out + b"".join(enhanced(round((START_S + at) * 1e6), frame, order=order) for at, frame in packets)


def tcp(source: int, target: int, seq: int, ack: int, flags: int, payload: bytes = b"", **more: Any) -> bytes:
    """Return a TCP segment; `window`, and `options` as bytes."""
    extra = bytes(more.get("options", b""))
    extra += bytes(-len(extra) % 4)
    size = 5 + len(extra) // 4
    window = int(more.get("window", 502))
    words = (source, target, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, size << 4, flags, window, 0, 0)
    return struct.pack(">HHIIBBHHH", *words) + extra + payload


def udp(source: int, target: int, payload: bytes) -> bytes:
    """Return a UDP datagram."""
    return struct.pack(">HHHH", source, target, 8 + len(payload), 0) + payload


def ip(source: str, target: str, payload: bytes, *, protocol: int = 6, number: int = 0, **more: int) -> bytes:
    """Return an IP packet of the version that the addresses have; of IPv4 also `fragment` (flags), `words`."""
    one, other = ipaddress.ip_address(source), ipaddress.ip_address(target)
    if one.version == 6:
        return struct.pack(">IHBB", 6 << 28, len(payload), protocol, 64) + one.packed + other.packed + payload
    words = more.get("words", 0)
    head = struct.pack(
        ">BBHHHBBH", 0x45 + words, 0, 20 + 4 * words + len(payload), number, more.get("fragment", 0), 64, protocol, 0
    )
    return head + one.packed + other.packed + bytes([1] * 4 * words) + payload


def ethernet(payload: bytes, kind: int | None = None) -> bytes:
    """Return an Ethernet frame."""
    kind = kind or (0x0800 if payload[0] >> 4 == 4 else 0x86DD)
    return bytes(12) + struct.pack(">H", kind) + payload


@dataclass(slots=True)
class Talk:
    """A TCP connection that is written down packet by packet, as Ethernet frames unless `wrap` does otherwise."""

    client: tuple[str, int] = ("10.0.0.1", 40000)
    server: tuple[str, int] = ("10.0.0.2", 443)
    rtt: float = 0.01
    at: float = 0.0
    packets: list[Timed] = field(default_factory=list)
    seqs: list[int] = field(default_factory=lambda: [1000, 90_000])
    number: int = 0

    def packet(self, ours: bool, flags: int, payload: bytes = b"", *, seq: int | None = None, **more: Any) -> bytes:
        """Return the next packet of a side without noting it."""
        self.number += 1
        mine, theirs = (self.client, self.server) if ours else (self.server, self.client)
        own, other = self.seqs if ours else self.seqs[::-1]
        number = int(more.pop("number", self.number))
        ack = int(more.pop("ack", other if flags & ACK else 0))
        segment = tcp(mine[1], theirs[1], own if seq is None else seq, ack, flags, payload, **more)
        return ethernet(ip(mine[0], theirs[0], segment, number=number))

    def say(
        self,
        ours: bool,
        payload: bytes = b"",
        flags: int = ACK,
        *,
        after: float = 0.0,
        lost: bool = False,
        **more: Any,
    ) -> None:
        """Note a packet; `lost` ones passed and are not in the file."""
        self.at += after
        frame = self.packet(ours, flags, payload, **more)
        if "seq" not in more:
            self.seqs[not ours] += len(payload) + bool(flags & (SYN | FIN))
        if not lost:
            self.packets.append((self.at, frame))

    def open(self, **more: Any) -> Talk:
        """Note the three-way handshake, as at the client."""
        self.say(True, flags=SYN, **more)
        self.say(False, flags=SYN | ACK, after=self.rtt)
        self.say(True, after=0.00001)
        return self

    def ask(self, request: bytes, answer: bytes, *, wait: float = 0.02) -> Talk:
        """Note a request and its answer."""
        self.say(True, request, ACK | PSH, after=0.001)
        self.say(False, answer, ACK | PSH, after=self.rtt + wait)
        self.say(True, after=0.0001)
        return self

    def close(self, ours: bool = True, *, after: float = 0.0) -> Talk:
        """Note the end, in good order."""
        self.say(ours, flags=FIN | ACK, after=after)
        self.say(not ours, flags=FIN | ACK, after=self.rtt)
        self.say(ours, after=0.00001)
        return self

    def file(self) -> bytes:
        """Return it as a pcap file."""
        return pcap(self.packets)


REQUEST = b"GET /v1/models HTTP/1.1\r\nHost: api.example.com\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def http(**more: Any) -> Talk:
    """Return a plain connection with one request."""
    return Talk(server=("10.0.0.2", 80), **more).open().ask(REQUEST, ANSWER).close(after=0.5)


def record(kind: int, body: bytes, version: int = 3) -> bytes:
    """Return a TLS record."""
    return bytes((kind, 3, version)) + struct.pack(">H", len(body)) + body
