# SPDX-License-Identifier: Apache-2.0
"""What a network does with one packet: which router answers it, how late, or where it comes out. No clock, no device.

The packets are whole IPv4 or IPv6 packets. Everything random is drawn from one seeded source.
"""

from __future__ import annotations

import ipaddress
import random
import struct
import zlib
from dataclasses import dataclass, replace

from netdiag.route.lab import meddle
from netdiag.route.lab.topology import Site, Station, Topology, Way

__all__ = ["CLIENT", "SERVER", "Delivery", "Emulator", "Packet", "flow_of"]

CLIENT, SERVER = 0, 1
"""The two ends of the network."""

_PROTOCOLS = {6: "tcp", 17: "udp", 1: "icmp", 58: "icmp"}
_NS_PER_MS = 1_000_000
_MOST_IPV6 = 1232


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A packet that comes out at one end, `delay_ns` after it (or what caused it) came in."""

    delay_ns: int
    side: int
    packet: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """The header fields that a network looks at."""

    version: int
    ttl: int
    protocol: str
    source: str
    destination: str
    flow: int
    """Hash of what load balancers hash; equal in both directions."""
    raw: bytes

    @classmethod
    def read(cls, raw: bytes) -> Packet | None:
        """Return the packet; None for what is neither IPv4 nor IPv6."""
        if len(raw) >= 40 and raw[0] >> 4 == 6:
            version, ttl, number, ends, transport = 6, raw[7], raw[6], (raw[8:24], raw[24:40]), raw[40:]
        elif len(raw) >= 20 and raw[0] >> 4 == 4:
            version, ttl, number, ends = 4, raw[8], raw[9], (raw[12:16], raw[16:20])
            transport = raw[(raw[0] & 15) * 4 :]
        else:
            return None
        protocol = _PROTOCOLS.get(number, "other")
        source, destination = (str(ipaddress.ip_address(end)) for end in ends)
        return cls(
            version=version,
            ttl=ttl,
            protocol=protocol,
            source=source,
            destination=destination,
            flow=zlib.crc32(_hashed(protocol, ends, transport)),
            raw=raw,
        )


def _hashed(protocol: str, ends: tuple[bytes, bytes], transport: bytes) -> bytes:
    """Return what balancers hash: addresses and ports; of ICMP type, code and checksum, as routers do."""
    if protocol == "icmp":
        return b"".join(sorted(ends)) + transport[:4]
    return b"".join(sorted((ends[0] + transport[0:2], ends[1] + transport[2:4])))


def flow_of(protocol: str, one: tuple[str, int], other: tuple[str, int]) -> int:
    """Return the hash of the flow between two endpoints (TCP or UDP)."""
    ends = [(ipaddress.ip_address(ip).packed, struct.pack("!H", port)) for ip, port in (one, other)]
    return zlib.crc32(_hashed(protocol, (ends[0][0], ends[1][0]), ends[0][1] + ends[1][1]))


class Emulator:
    """Takes packets at either end and says what comes out where, and when."""

    def __init__(self, topology: Topology, seed: int = 0) -> None:
        self.topology = topology
        self._random = random.Random(seed)  # noqa: S311 - faults are drawn from a seed
        self._sites = {ipaddress.ip_address(ip): site for site in topology.sites for ip in site.ips}
        self._tokens: dict[tuple[str, int], tuple[float, int]] = {}
        """Per router with a limit: tokens left, and when that was."""

    def accept(self, side: int, raw: bytes, now_ns: int) -> list[Delivery]:
        """Return what becomes of a packet that came in at `side`."""
        packet = Packet.read(raw)
        if packet is None:
            return []
        site = self._sites.get(ipaddress.ip_address(packet.destination if side == CLIENT else packet.source))
        if site is None:
            return []
        way = self.way(site, packet.flow, packet.protocol)
        return self._forth(packet, way, now_ns) if side == CLIENT else self._back(packet, way)

    @staticmethod
    def way(site: Site, flow: int, protocol: str = "tcp") -> Way:
        """Return the way that a flow takes to a site."""
        ways = [way for way in site.ways if not way.protocols or protocol in way.protocols] or site.ways
        at = (flow >> 8) % 10_000 / 10_000 * sum(way.share for way in ways)
        for way in ways:
            at -= way.share
            if at < 0:
                return way
        return ways[-1]

    def _forth(self, packet: Packet, way: Way, now_ns: int) -> list[Delivery]:
        nat: Station | None = None
        for number, stage in enumerate(way.hops, 1):
            station = self._choose(stage, packet.flow, number)
            if self._random.random() < station.drop:
                return []
            nat = station if station.nat else nat
            if packet.ttl <= number:
                return self._answer(packet, station, number, (11, 0) if packet.version == 4 else (3, 0), nat, now_ns)
            code = _obstacle(packet, station)
            if code is not None:
                return self._answer(packet, station, number, code, nat, now_ns) if code else []
            meddled = meddle.changed(packet.raw, packet.version, station.meddles) if station.meddles else packet.raw
            if meddled is None:
                return []
            packet = replace(packet, raw=meddled)
        return self._through(packet, way, SERVER, len(way.hops))

    def _back(self, packet: Packet, way: Way) -> list[Delivery]:
        hops = len(way.hops) if way.back_hops is None else way.back_hops
        tight = next((one for one in reversed(way.hops) if one.mtu is not None and len(packet.raw) > one.mtu), None)
        if tight is not None:
            return [self._too_big(packet, tight)] if tight.mtu_told else []
        return self._through(packet, way, CLIENT, hops) if packet.ttl > hops else []

    @staticmethod
    def _too_big(packet: Packet, station: Station) -> Delivery:
        """Return what a router tells the server about a packet that does not fit; how late is of no matter."""
        code = (3, 4) if packet.version == 4 else (2, 0)
        message = _error(packet, station, code, _quote(packet, station, None, packet.ttl), 1)
        return Delivery(delay_ns=_NS_PER_MS, side=SERVER, packet=message)

    def _through(self, packet: Packet, way: Way, side: int, hops: int) -> list[Delivery]:
        if self._random.random() < way.loss:
            return []
        late = self._late(way.ms / 2, way.jitter_ms / 2)
        return [Delivery(delay_ns=late, side=side, packet=_with_ttl(packet, packet.ttl - hops))]

    def _choose(self, stage: Station, flow: int, number: int) -> Station:
        if not stage.also:
            return stage
        branches = (stage, *stage.also)
        if stage.balance == "packet":
            return self._random.choice(branches)
        return branches[zlib.crc32(struct.pack("!IH", flow, number)) // 7 % len(branches)]

    def _late(self, ms: float, jitter_ms: float) -> int:
        extra = self._random.expovariate(1 / jitter_ms) if jitter_ms else 0.0
        return int((ms + extra) * _NS_PER_MS)

    def _answer(
        self, packet: Packet, station: Station, number: int, code: tuple[int, ...], nat: Station | None, now_ns: int
    ) -> list[Delivery]:
        """Return the ICMP error that a router sends, with what a hostile one sends beside it."""
        if (
            station.silent
            or packet.protocol in station.silent_to
            or self._random.random() < station.loss
            or not self._allowed(station, packet.version, now_ns)
        ):
            return []
        quote = _quote(packet, station, nat, max(1, packet.ttl - number + 1))
        message = _error(packet, station, code, quote, number)
        late = self._late(station.ms, station.jitter_ms)
        answers = [Delivery(delay_ns=late, side=CLIENT, packet=message)]
        for trick in station.hostile:
            bad = _trick(trick, packet, station, code, quote, number)
            answers.append(Delivery(delay_ns=max(0, late - 50_000), side=CLIENT, packet=bad))
            if trick == "duplicate":
                answers[-1] = Delivery(delay_ns=late + 200_000, side=CLIENT, packet=message)
        return answers

    def _allowed(self, station: Station, version: int, now_ns: int) -> bool:
        if station.limit_per_s is None:
            return True
        tokens, then = self._tokens.get((station.ip, version), (float(station.limit_burst), now_ns))
        tokens = min(float(station.limit_burst), tokens + (now_ns - then) / 1e9 * station.limit_per_s)
        allowed = tokens >= 1
        self._tokens[station.ip, version] = (tokens - 1 if allowed else tokens, now_ns)
        return allowed


def _obstacle(packet: Packet, station: Station) -> tuple[int, ...] | None:
    """Return type and code of the error for a packet that a router does not pass on, () for a silent one; else None."""
    if packet.protocol in station.filters:
        return () if station.refuse is None else (3 if packet.version == 4 else 1, station.refuse)
    if station.mtu is not None and len(packet.raw) > station.mtu:
        return () if not station.mtu_told else (3, 4) if packet.version == 4 else (2, 0)
    return None


def _checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total


def _with_ttl(packet: Packet, ttl: int) -> bytes:
    raw = bytearray(packet.raw)
    if packet.version == 6:
        raw[7] = ttl
        return bytes(raw)
    size = (raw[0] & 15) * 4
    raw[8], raw[10:12] = ttl, b"\0\0"
    raw[10:12] = struct.pack("!H", _checksum(bytes(raw[:size])))
    return bytes(raw)


def _quote(packet: Packet, station: Station, nat: Station | None, ttl: int) -> bytes:
    raw = bytearray(_with_ttl(packet, ttl)[: min(station.quote_bytes, _MOST_IPV6)])
    head = 40 if packet.version == 6 else (raw[0] & 15) * 4
    if nat is not None and packet.version == 4:
        if nat.nat == "address":
            raw[12:16] = ipaddress.ip_address(nat.nat_ip).packed
        if packet.protocol == "udp":
            raw[head + 6] ^= 0x15
    return bytes(raw)


def _error(packet: Packet, station: Station, code: tuple[int, ...], quote: bytes, number: int) -> bytes:
    fields = bytearray(4)
    if station.mtu is not None and code in ((3, 4), (2, 0)):
        fields = bytearray(struct.pack("!I", station.mtu))
    body = quote
    if station.mpls:
        body = quote[:128].ljust(128, b"\0") + _extension(station.mpls)
        fields[1 if packet.version == 4 else 0] = 32 if packet.version == 4 else 16
    return _icmp(packet, station, bytes(code), bytes(fields) + body, number)


def _extension(mpls: tuple[int, ...]) -> bytes:
    last = len(mpls) - 1
    entries = b"".join(
        struct.pack("!I", label << 12 | (at == last) << 8 | (1 if at == 0 else 254)) for at, label in enumerate(mpls)
    )
    block = struct.pack("!BBHHBB", 0x20, 0, 0, 4 + len(entries), 1, 1) + entries
    return block[:2] + struct.pack("!H", _checksum(block)) + block[4:]


def _icmp(packet: Packet, station: Station, code: bytes, rest: bytes, number: int) -> bytes:
    source = ipaddress.ip_address(station.address(packet.version)).packed
    target = ipaddress.ip_address(packet.source).packed
    message = code + b"\0\0" + rest
    pseudo = source + target + struct.pack("!II", len(message), 58) if packet.version == 6 else b""
    message = code + struct.pack("!H", _checksum(pseudo + message)) + rest
    ttl = max(1, 255 - number + 1)
    if packet.version == 6:
        return struct.pack("!IHBB", 6 << 28, len(message), 58, ttl) + source + target + message
    head = struct.pack("!BBHHHBBH", 0x45, 0xC0, 20 + len(message), 0, 0, ttl, 1, 0) + source + target
    return head[:10] + struct.pack("!H", _checksum(head)) + head[12:] + message


def _trick(trick: str, packet: Packet, station: Station, code: tuple[int, ...], quote: bytes, number: int) -> bytes:
    """Return a packet that an honest router would not send."""
    head = 40 if packet.version == 6 else 20
    kind = bytes(code)
    if trick == "truncated":
        return _icmp(packet, station, kind, bytes(4) + quote[: head + 3], number)
    if trick == "huge-extension":
        block = struct.pack("!BBHHBB", 0x20, 0, 0, 0xFFFF, 1, 1) + b"\xff" * 900
        return _icmp(packet, station, kind, b"\xff\xff\xff\xff" + quote[:128].ljust(128, b"\0") + block, number)
    if trick == "wrong-quote":
        strange = bytearray(quote)
        strange[head + 4 :] = bytes(byte ^ 0x5A for byte in strange[head + 4 :])
        return _icmp(packet, station, kind, bytes(4) + bytes(strange), number)
    whole = bytearray(_icmp(packet, station, kind, bytes(4) + quote, number))
    whole[head + 2] ^= 0xFF  # wrong-checksum
    return bytes(whole)
