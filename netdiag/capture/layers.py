# SPDX-License-Identifier: Apache-2.0
"""From packets to where their TCP and UDP headers are, whatever lies before them.

The common shapes - Ethernet, VLAN, Linux cooked, raw IP, loopback, PPP, then IPv4 or IPv6 without extensions - are
found for all packets of a batch at once. The rare ones (MPLS, LLC, PPPoE, tunnels, extension headers, fragments) are
taken apart one by one in `rare`, which says where the IP packet inside begins; then they go the same way. Nothing is
trusted: a header that does not fit what the file holds ends the search.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from netdiag.capture.container import PAD, Batch
from netdiag.capture.rare import ETHERNET_IP, Fragments, behind_log, inside, link_payload, skip_extensions
from netdiag.capture.refusals import ICMP4, ICMP6, Refusal, refusal

__all__ = ["Layers", "Segments"]

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

TCP, UDP = 6, 17
_IP4, _IP6, _MPLS = 0x0800, 0x86DD, 0x8847
_VLAN = (0x8100, 0x88A8, 0x9100)
_MAX_VLANS = 3
_MAX_TUNNELS = 4
_EXTENSIONS = (0, 43, 44, 51, 60, 135)
_TUNNELS = (4, 41, 47)
_TUNNEL_PORTS = (4789, 8472, 6081, 4790)
_MIN_IP4, _IP6_HEADER, _MIN_TCP, _UDP_HEADER = 20, 40, 20, 8
_WHERE = {1: (12, 14), 113: (14, 16), 276: (0, 20), 9: (0, 2), 50: (2, 4), 104: (2, 4)}
"""Link type → where two bytes tell what follows, and where it begins: Ethernet, cooked v1, v2, PPP, PPP in HDLC, Cisco
HDLC."""
_BARE = {0: 4, 108: 4, 101: 0, 12: 0, 14: 0, 228: 0, 229: 0, 109: 12}
"""Link type → where an IP packet begins that nothing else announces: loopback, raw, encapsulated by IPsec."""
_ANNOUNCED = {51: 0x8864, 219: _MPLS}
"""Link type → what begins at once: PPPoE, MPLS."""
_NFLOG = 239
_PPP = {0x0021: _IP4, 0x0057: _IP6, 0x0281: _MPLS, 0x0283: _MPLS}
_MAPPED = np.frombuffer(bytes(10) + b"\xff\xff", np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """The headers of TCP or UDP, one element a packet, in the order of the batch."""

    raw: bytes
    """Holds the payloads."""
    packet: Ints
    """Number of the packet in its batch."""
    time_ns: Ints
    ends: Bytes
    """Source and destination address, 32 bytes a row."""
    source: Ints
    """Ports."""
    destination: Ints
    number: Ints
    """Identification of the IPv4 packet; 0 for IPv6."""
    payload: Ints
    """Where the payload begins in `raw`."""
    length: Ints
    """Bytes of payload that passed."""
    held: Ints
    """Bytes of it that the file holds."""
    head: Bytes
    """The first 32 bytes of the TCP header (of UDP: the 8 of its own)."""


@dataclass(slots=True)
class Layers:
    """Takes the packets of a file apart; remembers fragments between batches, and counts what it cannot read."""

    fragments: Fragments = field(default_factory=Fragments)
    tunnels: dict[str, int] = field(default_factory=dict)
    """Packets by kind of tunnel that they came in."""
    unknown: dict[str, int] = field(default_factory=dict)
    """Packets that could not be taken apart, by reason."""
    refusals: list[Refusal] = field(default_factory=list)
    """What ICMP said of TCP segments; emptied by whoever uses it."""

    def split(self, batch: Batch, time_ns: Ints) -> tuple[Segments, Segments]:
        """Return the TCP segments and the UDP datagrams of a batch."""
        at, proto = self._link(batch)
        found = np.flatnonzero(at >= 0)
        frame = _Frame(batch, found, at[found], proto[found])
        tcp, udp = [], []
        for _ in range(_MAX_TUNNELS):
            round_tcp, round_udp, frame = self._network(frame, time_ns)
            tcp.append(round_tcp)
            udp.append(round_udp)
            if not len(frame.packet):
                break
        return _joined(tcp), _joined(udp)

    def _link(self, batch: Batch) -> tuple[Ints, Ints]:
        """Return where the network layer begins (-1: nowhere) and what it is (an EtherType)."""
        data = batch.bytes
        count = len(batch.at)
        at, proto = np.full(count, -1, np.int64), np.zeros(count, np.int64)
        for link in np.unique(batch.link).tolist():
            mine = np.flatnonzero(batch.link == link)
            at[mine], proto[mine] = self._behind(batch, link, mine)
        end = batch.at + batch.captured
        for _ in range(_MAX_VLANS):
            tagged = np.flatnonzero(np.isin(proto, _VLAN) & (at >= 0))
            if not len(tagged):
                break
            proto[tagged] = _two(data, np.minimum(at[tagged] + 2, len(data) - 2))
            at[tagged] += 4
        at[at >= end] = -1
        plain = (proto == _IP4) | (proto == _IP6) | (proto == ETHERNET_IP)
        for place in np.flatnonzero(~plain & (at >= 0)).tolist():
            where = link_payload(batch.raw, int(at[place]), int(end[place]), int(proto[place]))
            at[place] = where
            proto[place] = ETHERNET_IP
            if where < 0:
                self._count("no IP", 1)
        return at, proto

    def _behind(self, batch: Batch, link: int, mine: Ints) -> tuple[Ints, Ints | int]:
        """Return the same for packets of one link type, before tags and labels."""
        data, start = batch.bytes, batch.at[mine]
        if link in _WHERE:
            where, begins = _WHERE[link]
            if link in (9, 50):
                start = start + 2 * ((data[start] == 0xFF) & (data[start + 1] == 3) & (link == 9))
            kind = _two(data, start + where)
            if link in (9, 50):
                short = data[start + where] & 1  # RFC 1661 section 6.5: a protocol of one byte
                kind, start = _translated(np.where(short, kind >> 8, kind), _PPP), start - short
            return start + begins, kind
        if link in _BARE:
            return start + _BARE[link], ETHERNET_IP
        if link in _ANNOUNCED:
            return start, _ANNOUNCED[link]
        if link == _NFLOG:
            packets = zip(start.tolist(), (start + batch.captured[mine]).tolist(), strict=True)
            found = np.array([behind_log(batch.raw, *each) for each in packets], np.int64)
            if (found < 0).any():
                self._count("no IP", int(np.count_nonzero(found < 0)))
            return found, ETHERNET_IP
        self._count(f"link type {link}", len(mine))
        return np.full(len(mine), -1, np.int64), 0

    def _count(self, why: str, packets: int) -> None:
        self.unknown[why] = self.unknown.get(why, 0) + packets

    def _network(self, frame: _Frame, time_ns: Ints) -> tuple[Segments, Segments, _Frame]:
        """Read IP headers; return segments, datagrams, and the packets that lay inside of others."""
        frame = frame.take(frame.at + _MIN_IP4 <= frame.end)
        nibble = frame.bytes[frame.at] >> 4
        ip = _Packets.of_4(frame.take(nibble == 4)).join(_Packets.of_6(frame.take(nibble == 6)))
        ip = self._whole(ip, time_ns)
        within, kept = [], np.ones(len(ip.frame.packet), bool)
        tunnelled = np.isin(ip.protocol, _TUNNELS)
        ports = ip.protocol == UDP
        if ports.any():
            head = _two(ip.frame.bytes, np.minimum(ip.payload + 2, len(ip.frame.bytes) - 2))
            tunnelled |= ports & np.isin(head, _TUNNEL_PORTS)
        for place in np.flatnonzero(tunnelled).tolist():
            kind, where = inside(
                ip.frame.raw, int(ip.protocol[place]), int(ip.payload[place]), int(ip.frame.end[place])
            )
            if kind is not None:
                self.tunnels[kind] = self.tunnels.get(kind, 0) + 1
                kept[place] = False
                within.append((place, where))
        self._refusals(ip, time_ns)
        inner = _inner(ip.frame, within)
        tcp = _tcp(ip.take(kept & (ip.protocol == TCP) & (ip.payload + _MIN_TCP <= ip.frame.end)), time_ns)
        udp = _udp(ip.take(kept & (ip.protocol == UDP) & (ip.payload + _UDP_HEADER <= ip.frame.end)), time_ns)
        return tcp, udp, inner

    def _refusals(self, ip: _Packets, time_ns: Ints) -> None:
        """Note which segments did not get through, as ICMP says."""
        for place in np.flatnonzero((ip.protocol == ICMP4) | (ip.protocol == ICMP6)).tolist():
            frame = ip.frame
            at, end, packet = int(ip.payload[place]), int(frame.end[place]), frame.packet[place]
            found = refusal(frame.raw, int(ip.protocol[place]), at, end, int(time_ns[packet]))
            if found is not None:
                self.refusals.append(found)

    def _whole(self, ip: _Packets, time_ns: Ints) -> _Packets:
        """Skip IPv6 extension headers and put fragments together."""
        odd = np.flatnonzero((ip.version == 6) & np.isin(ip.protocol, _EXTENSIONS))
        for place in odd.tolist():
            protocol, payload, number, fragment = skip_extensions(
                ip.frame.raw, int(ip.protocol[place]), int(ip.payload[place]), int(ip.frame.end[place])
            )
            ip.length[place] -= payload - int(ip.payload[place])
            ip.protocol[place], ip.payload[place] = protocol, payload
            ip.number[place], ip.fragment[place] = number, fragment
        parts = np.flatnonzero(ip.fragment != 0)
        if not len(parts):
            return ip
        extra = bytearray()
        base = len(ip.frame.raw)
        keep = ip.fragment == 0
        for place in parts.tolist():
            key = (ip.ends[place].tobytes(), int(ip.number[place]), int(ip.protocol[place]))
            start = int(ip.payload[place])
            data = ip.frame.raw[start : min(int(ip.frame.end[place]), start + max(int(ip.length[place]), 0))]
            now = int(time_ns[ip.frame.packet[place]])
            whole = self.fragments.add(key, int(ip.fragment[place]), data, int(ip.length[place]), now)
            if whole is not None:
                ip.payload[place], ip.length[place] = base + len(extra), len(whole)
                ip.frame.end[place] = base + len(extra) + len(whole)
                extra += whole
                keep[place] = True
        if extra:
            ip.frame.raw = ip.frame.raw + bytes(extra) + bytes(PAD)
            ip.frame.bytes = np.frombuffer(ip.frame.raw, np.uint8)
        return ip.take(keep)


class _Frame:
    """Network-layer packets: where they begin and end in the bytes."""

    def __init__(self, batch: Batch, packet: Ints, at: Ints, proto: Ints) -> None:
        del proto  # the version stands in the packet itself
        self.raw, self.bytes = batch.raw, batch.bytes
        self.packet, self.at = packet, at
        self.end = (batch.at + batch.captured)[packet]
        """Where what the file holds of it ends."""
        self.passed = (batch.at + batch.passed)[packet]
        """Where it would end if the file held all of it."""

    def take(self, which: Bools | Ints) -> _Frame:
        other = object.__new__(_Frame)
        other.raw, other.bytes = self.raw, self.bytes
        other.packet, other.at = self.packet[which], self.at[which]
        other.end, other.passed = self.end[which], self.passed[which]
        return other


class _Packets:
    """IP packets with their headers read; columns have one element a packet."""

    frame: _Frame
    version: Ints
    ends: Bytes
    protocol: Ints
    payload: Ints
    length: Ints
    """Bytes of payload that passed."""
    number: Ints
    fragment: Ints
    """0, or offset in bytes times 2, plus 1 where more follow, plus a high bit that marks a fragment."""

    @classmethod
    def of_4(cls, frame: _Frame) -> _Packets:
        ip = cls()
        head = _rows(frame.bytes, frame.at, _MIN_IP4)
        size = (head[:, 0] & 15).astype(np.int64) * 4
        total = _pair(head, 2)
        room = frame.passed - frame.at
        total = np.where(total < size, room, np.minimum(total, room))  # 0: the network card was to cut it up
        ip.frame = frame
        ip.version = np.full(len(head), 4, np.int64)
        mapped = np.broadcast_to(_MAPPED, (len(head), 12))
        ip.ends = np.concatenate((mapped, head[:, 12:16], mapped, head[:, 16:20]), axis=1)
        ip.protocol = head[:, 9].astype(np.int64)
        ip.payload = frame.at + size
        ip.length = total - size
        ip.number = _pair(head, 4)
        flags = _pair(head, 6)
        more, offset = flags >> 13 & 1, flags & 0x1FFF
        ip.fragment = np.where((more | offset) != 0, 1 << 20 | offset << 4 | more, 0)
        frame.end = np.minimum(frame.end, frame.at + total)  # what follows is padding
        return ip.take(size >= _MIN_IP4)

    @classmethod
    def of_6(cls, frame: _Frame) -> _Packets:
        frame = frame.take(frame.at + _IP6_HEADER <= frame.end)
        ip = cls()
        head = _rows(frame.bytes, frame.at, _IP6_HEADER)
        length, room = _pair(head, 4), frame.passed - frame.at - _IP6_HEADER
        length = np.where(length == 0, room, np.minimum(length, room))
        ip.frame = frame
        ip.version = np.full(len(head), 6, np.int64)
        ip.ends = np.ascontiguousarray(head[:, 8:40])
        ip.protocol = head[:, 6].astype(np.int64)
        ip.payload = frame.at + _IP6_HEADER
        ip.length = length
        ip.number = np.zeros(len(head), np.int64)
        ip.fragment = np.zeros(len(head), np.int64)
        frame.end = np.minimum(frame.end, ip.payload + length)
        return ip

    def take(self, which: Bools | Ints) -> _Packets:
        other = _Packets()
        other.frame = self.frame.take(which)
        for name in ("version", "ends", "protocol", "payload", "length", "number", "fragment"):
            setattr(other, name, getattr(self, name)[which])
        return other

    def join(self, more: _Packets) -> _Packets:
        if not len(more.version):
            return self
        both = _Packets()
        both.frame = self.frame.take(slice(None))  # type: ignore[arg-type]
        for name in ("packet", "at", "end", "passed"):
            setattr(both.frame, name, np.concatenate((getattr(self.frame, name), getattr(more.frame, name))))
        for name in ("version", "ends", "protocol", "payload", "length", "number", "fragment"):
            setattr(both, name, np.concatenate((getattr(self, name), getattr(more, name))))
        order = np.argsort(both.frame.packet, kind="stable")
        return both.take(order)


def _inner(frame: _Frame, within: list[tuple[int, int]]) -> _Frame:
    inner = frame.take(np.array([place for place, _ in within], np.int64))
    inner.at = np.array([where for _, where in within], np.int64)
    return inner


def _tcp(ip: _Packets, time_ns: Ints) -> Segments:
    head = _rows(ip.frame.bytes, ip.payload, 32)
    size = (head[:, 12] >> 4).astype(np.int64) * 4
    fits = (size >= _MIN_TCP) & (size <= ip.length)
    if not fits.all():
        ip, head, size = ip.take(fits), head[fits], size[fits]
    return _segments(ip, time_ns, head, size)


def _udp(ip: _Packets, time_ns: Ints) -> Segments:
    head = _rows(ip.frame.bytes, ip.payload, 8)
    return _segments(ip, time_ns, head, np.full(len(head), _UDP_HEADER, np.int64))


def _segments(ip: _Packets, time_ns: Ints, head: Bytes, size: Ints) -> Segments:
    payload = ip.payload + size
    length = np.maximum(ip.length - size, 0)
    return Segments(
        raw=ip.frame.raw,
        packet=ip.frame.packet,
        time_ns=time_ns[ip.frame.packet],
        ends=ip.ends,
        source=_pair(head, 0),
        destination=_pair(head, 2),
        number=ip.number,
        payload=payload,
        length=length,
        held=np.clip(ip.frame.end - payload, 0, length),
        head=head,
    )


def _joined(parts: list[Segments]) -> Segments:
    parts = [part for part in parts if len(part.packet)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    # a fragment that was put together lies behind the batch, which only the last part's bytes reach
    raw = max((part.raw for part in parts), key=len)
    names = [name for name in Segments.__slots__ if name != "raw"]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    order = np.argsort(columns["packet"], kind="stable")
    return Segments(raw=raw, **{name: values[order] for name, values in columns.items()})


def _rows(data: Bytes, at: Ints, width: int) -> Bytes:
    """Return `width` bytes from each place on, one row a place."""
    return np.lib.stride_tricks.sliding_window_view(data, width)[np.minimum(at, len(data) - width)]


def _pair(rows: Bytes, column: int) -> Ints:
    return rows[:, column].astype(np.int64) << 8 | rows[:, column + 1]


def _two(data: Bytes, at: Ints) -> Ints:
    return data[at].astype(np.int64) << 8 | data[at + 1]


def _translated(kinds: Ints, table: dict[int, int]) -> Ints:
    result = np.zeros(len(kinds), np.int64)
    for kind, ether in table.items():
        result[kinds == kind] = ether
    return result
