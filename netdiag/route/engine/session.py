# SPDX-License-Identifier: Apache-2.0
"""Probes inside the flow of a connection that is open: empty segments one byte before what was acknowledged last.

The routers see the connection's own addresses and ports, so the way is the one that its data takes. The far end
acknowledges such a segment and drops it; neither program notices. It needs CAP_NET_RAW, and a segment of the far end
to learn the numbers from: a busy connection sends one by itself, an idle one at its next keep-alive probe.
"""

from __future__ import annotations

import random
import select
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from netdiag.route.engine import packet, parse
from netdiag.route.engine.channel import SO_TIMESTAMPNS, Arrival, Sent, Shot, Stamps, Tally, hop_limit, kernel_stamp
from netdiag.route.engine.packet import FlowKey
from netdiag.route.engine.parse import IcmpError, Segment
from netdiag.route.model import Flow, Kind, Matched, Method, Quote, Reply

__all__ = ["Endpoints", "InSession", "Numbers", "learn", "numbers_of"]

_ACK, _FIN, _RST, _SYN = 0x10, 0x01, 0x04, 0x02
_WORDS = 1 << 32
_MOST_PACKETS = 1024
FAR_TTL = 64
Control: TypeAlias = list[tuple[int, int, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """An open TCP connection of this machine."""

    local_ip: str
    local_port: int
    remote_ip: str
    remote_port: int

    @property
    def version(self) -> int:
        """4 or 6."""
        return 6 if ":" in self.remote_ip else 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Where the two streams stand."""

    acknowledged: int
    """First of our bytes that the far end has not acknowledged."""
    expected: int
    """First of its bytes that we have not received."""


def numbers_of(segment: Segment, length: int) -> Numbers | None:
    """Return the numbers that a segment of the far end tells, `length` payload bytes; None while it opens or closes."""
    if segment.flags & (_SYN | _FIN | _RST) or not segment.flags & _ACK:
        return None
    return Numbers(acknowledged=segment.acknowledged, expected=(segment.sequence + length) % _WORDS)


def learn(ends: Endpoints, timeout_s: float) -> Numbers | None:
    """Wait for a segment of the far end and return its numbers; None where none came. Sends nothing."""
    end = time.monotonic() + timeout_s
    with _listener(ends, socket.IPPROTO_TCP) as sock:
        sock.connect((ends.remote_ip, 0))
        while (left := end - time.monotonic()) > 0:
            sock.settimeout(left)
            try:
                data = sock.recv(65536)
            except TimeoutError:
                return None
            found = _read_segment(ends, data)
            if found is not None:
                segment, length = found
                numbers = numbers_of(segment, length)
                if numbers is not None:
                    return numbers
    return None


def _read_segment(ends: Endpoints, data: bytes) -> tuple[Segment, int] | None:
    """Return a segment of this connection's far end and its payload length."""
    if ends.version == 4:
        stripped = parse.strip_ipv4(data)
        if stripped is None or stripped[1] != ends.remote_ip:
            return None
        data = stripped[2]
    segment = parse.segment(data)
    if segment is None or (segment.source_port, segment.port) != (ends.remote_port, ends.local_port):
        return None
    return segment, max(0, len(data) - (data[12] >> 4) * 4)


def _listener(ends: Endpoints, number: int) -> socket.socket:
    family = socket.AF_INET if ends.version == 4 else socket.AF_INET6
    sock = socket.socket(family, socket.SOCK_RAW, number)
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    if ends.version == 6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
    return sock


class InSession:
    """A channel whose probes are segments of an open connection. The far end answers few, and none by number."""

    method = Method.IN_SESSION
    privileged = True
    single_flow = True

    def __init__(self, ends: Endpoints, numbers: Numbers, *, chance: random.Random) -> None:
        self.ends, self.numbers = ends, numbers
        self.tally = Tally()
        self._stamps = Stamps()
        self._first = chance.randrange(0x4000, 0xC000)
        self._oldest: int | None = None
        """First probe of those in flight that no router can have stopped."""
        self._key = FlowKey(
            source=packet.packed(ends.local_ip),
            destination=packet.packed(ends.remote_ip),
            source_port=ends.local_port,
            port=ends.remote_port,
        )
        family = socket.AF_INET if ends.version == 4 else socket.AF_INET6
        self._out = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW)
        self._icmp = _listener(ends, socket.IPPROTO_ICMP if ends.version == 4 else socket.IPPROTO_ICMPV6)
        self._tcp = _listener(ends, socket.IPPROTO_TCP)
        self._tcp.connect((ends.remote_ip, 0))
        self._poll = select.poll()
        for sock in (self._icmp, self._tcp):
            self._poll.register(sock, select.POLLIN)

    def send(self, shots: Sequence[Shot]) -> list[Sent]:
        """Send one empty segment per shot."""
        before = (self.numbers.acknowledged - 1) % _WORDS
        built = [
            (
                shot,
                packet.acknowledgement(self._key, shot.ttl, before, self.numbers.expected, self._first + shot.number),
            )
            for shot in shots
        ]
        sent = []
        for shot, data in built:
            at_ns = self._stamps.sent(shot.number)
            try:
                self._out.sendto(data, (self.ends.remote_ip, 0))
            except OSError:  # no way there, or the device's queue is full
                continue
            if shot.ttl >= FAR_TTL:
                self._oldest = shot.number
            sent.append(Sent(number=shot.number, at_ns=at_ns))
        return sent

    def receive(self, timeout_s: float) -> list[Arrival]:
        """Return what came and was recognised."""
        ready = {descriptor for descriptor, _ in self._poll.poll(max(0, round(timeout_s * 1000 + 0.5)))}
        arrivals: list[Arrival] = []
        for sock, read in ((self._icmp, self._error), (self._tcp, self._answer)):
            for _ in range(_MOST_PACKETS if sock.fileno() in ready else 0):
                try:
                    data, control, _, name = sock.recvmsg(65536, 512, socket.MSG_DONTWAIT)
                except BlockingIOError:
                    break
                except OSError:  # an unreachable that the ICMP socket has, too
                    continue
                arrival = read(data, str(name[0]).partition("%")[0], control)
                arrivals += [arrival] if arrival is not None else []
        return arrivals

    def flows(self) -> tuple[Flow, ...]:
        """Return the connection's own flow."""
        ends = self.ends
        return (Flow(id=0, source_ip=ends.local_ip, source_port=ends.local_port, port=ends.remote_port),)

    def now_ns(self) -> int:
        """Return CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    def close(self) -> None:
        """Close the raw sockets; the connection stays."""
        for sock in (self._out, self._icmp, self._tcp):
            sock.close()

    def _error(self, data: bytes, ip: str, control: Control) -> Arrival | None:
        ttl: int | None = hop_limit(control)
        if self.ends.version == 4:
            stripped = parse.strip_ipv4(data)
            if stripped is None:
                self.tally.malformed += 1
                return None
            ttl, ip, data = stripped
        error = parse.icmp(self.ends.version, data)
        if error is None:
            return None
        number = self._number(error)
        if number is None:
            return None
        rtt_ms, clock = self._stamps.round_trip(number, kernel_stamp(control))
        quoted = error.quoted
        reply = Reply(
            kind=error.kind,
            ip=ip,
            rtt_ms=rtt_ms,
            clock=clock,
            matched=Matched.IP_ID if quoted.ip_id is not None else Matched.PAYLOAD,
            code=error.code,
            ttl=ttl,
            mtu=error.mtu,
            labels=error.labels,
            quote=Quote(source_ip=quoted.source, destination_ip=quoted.destination, ttl=quoted.ttl, tos=quoted.tos),
        )
        return Arrival(number=number, reply=reply)

    def _number(self, error: IcmpError) -> int | None:
        """Return the probe that an error is about: our ports, our sequence number, and a number of ours."""
        quoted, key = error.quoted, self._key
        source_port, port, sequence = struct.unpack_from("!HHI", quoted.transport)
        if quoted.protocol != socket.IPPROTO_TCP or (source_port, port) != (key.source_port, key.port):
            self.tally.foreign += 1
            return None
        number = quoted.ip_id
        if number is None and len(quoted.transport) >= 16:
            (number,) = struct.unpack_from("!H", quoted.transport, 14)
        found = None if number is None else number - self._first
        if found is None or found not in self._stamps or sequence != (self.numbers.acknowledged - 1) % _WORDS:
            self.tally.mismatched += 1  # also the connection's own segments, should they meet an error
            return None
        return found

    def _answer(self, data: bytes, _ip: str, control: Control) -> Arrival | None:
        """Take an empty acknowledgement as the answer to the far probe: it left first, so it caused it."""
        found = _read_segment(self.ends, data)
        if found is None or self._oldest is None:
            return None
        segment, length = found
        if length or segment.flags & (_SYN | _FIN | _RST) or segment.acknowledged != self.numbers.acknowledged:
            return None
        number, self._oldest = self._oldest, None
        rtt_ms, clock = self._stamps.round_trip(number, kernel_stamp(control))
        ttl = data[8] if self.ends.version == 4 else hop_limit(control)
        reply = Reply(
            kind=Kind.ACK, ip=self.ends.remote_ip, rtt_ms=rtt_ms, clock=clock, matched=Matched.SEQUENCE, ttl=ttl
        )
        return Arrival(number=number, reply=reply)
