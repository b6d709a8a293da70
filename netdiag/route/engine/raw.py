# SPDX-License-Identifier: Apache-2.0
"""Raw sockets: whole packets of constant flows, for TCP, UDP and ICMP over IPv4 and IPv6. Needs CAP_NET_RAW.

Ports are held by ordinary sockets that never connect, so that no other program gets them: the kernel itself then
resets what a target's SYN-ACK half opened.
"""

from __future__ import annotations

import random
import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from netdiag.route.engine import match, packet, parse
from netdiag.route.engine.channel import (
    SO_TIMESTAMPNS,
    Arrival,
    Sent,
    Shot,
    Stamps,
    Tally,
    hop_limit,
    kernel_stamp,
)
from netdiag.route.engine.match import Known, Outcome
from netdiag.route.engine.packet import FlowKey
from netdiag.route.model import Flow, Method, Protocol

__all__ = ["Raw"]

_Control: TypeAlias = list[tuple[int, int, bytes]]

_METHODS = {Protocol.TCP: Method.TCP_RAW, Protocol.UDP: Method.UDP_RAW, Protocol.ICMP: Method.ICMP_RAW}
_SOL_RAW, _ICMP_FILTER, _ICMPV6_FILTER = 255, 1, 1
_WANTED = {4: (0, 3, 11), 6: (1, 2, 3, 129)}
"""ICMP types that reach us: echo replies and errors."""
_BUFFER_BYTES = 1 << 20
_MOST_STEP = 500
"""Sequence numbers rise by less: a server that has a SYN of the flow answers a second one only if its number falls into
the window behind the first. It does so with a reset, and with SYN-ACK again after that."""
_MOST_PACKETS = 4096
"""Read in one go from one socket: a flood must not keep a trace from ending."""


class Raw:
    """Packets of constant flows towards one address."""

    privileged = True
    single_flow = True

    def __init__(self, ip: str, port: int, protocol: Protocol, *, source: str, chance: random.Random) -> None:
        self.ip, self.port, self.protocol = ip, port, protocol
        self.method = _METHODS[protocol]
        self.tally = Tally()
        self._source, self._chance = source, chance
        self._version = 6 if ":" in ip else 4
        self._family = socket.AF_INET6 if self._version == 6 else socket.AF_INET
        self._known = Known(ip=ip, port=port, protocol=protocol, version=self._version)
        self._stamps = Stamps()
        self._holders: dict[int, socket.socket] = {}
        self._sequence = chance.getrandbits(32)
        self._first_id = chance.randrange(1, 30_000)
        """Numbers on the wire start here, not at 0, which kernels replace."""
        self._readers: dict[int, tuple[socket.socket, Callable[[bytes, str, _Control], Outcome]]] = {}
        self._poll = select.poll()
        self._out = socket.socket(self._family, socket.SOCK_RAW, socket.IPPROTO_RAW)
        try:
            self._listen()
        except BaseException:
            self.close()
            raise

    def send(self, shots: Sequence[Shot]) -> list[Sent]:
        """Send at once: all packets are built before the first one leaves."""
        built = [(shot.number, self._build(shot)) for shot in shots]
        target = (self.ip, 0)
        sent = []
        for number, data in built:
            at_ns = self._stamps.sent(number)
            try:
                self._out.sendto(data, target)
            except OSError:  # no way there, or the device's queue is full
                continue
            sent.append(Sent(number=number, at_ns=at_ns))
        return sent

    def receive(self, timeout_s: float) -> list[Arrival]:
        """Return what came and was recognised; the rest is counted."""
        arrivals: list[Arrival] = []
        for descriptor, _ in self._poll.poll(max(0, round(timeout_s * 1000 + 0.5))):
            sock, read = self._readers[descriptor]
            for _ in range(_MOST_PACKETS):
                try:
                    data, control, _, name = sock.recvmsg(2048, 512, socket.MSG_DONTWAIT)
                except BlockingIOError:
                    break
                except OSError:  # a connected raw socket reports unreachables like this; the ICMP socket has them too
                    continue
                self._settle(read(data, str(name[0]).partition("%")[0], control), control, arrivals)
        return arrivals

    def flows(self) -> tuple[Flow, ...]:
        """Return the flows with all that routers may hash."""
        icmp = self.protocol is Protocol.ICMP
        return tuple(
            Flow(
                id=number,
                source_ip=self._source,
                source_port=key.source_port,
                port=key.checksum if icmp else self.port,
                label=key.label if self._version == 6 else None,
            )
            for number, key in sorted(self._known.flows.items())
        )

    def now_ns(self) -> int:
        """Return CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    def close(self) -> None:
        """Close every socket."""
        for sock in (self._out, *self._holders.values(), *(sock for sock, _ in self._readers.values())):
            sock.close()

    def _listen(self) -> None:
        number = socket.IPPROTO_ICMP if self._version == 4 else socket.IPPROTO_ICMPV6
        icmp = socket.socket(self._family, socket.SOCK_RAW, number)
        self._add(icmp, self._read_icmp)
        mask = 0xFFFFFFFF if self._version == 4 else (1 << 256) - 1
        for kind in _WANTED[self._version]:
            mask &= ~(1 << kind)
        if self._version == 4:
            icmp.setsockopt(_SOL_RAW, _ICMP_FILTER, struct.pack("@I", mask))
        else:
            words = struct.pack("@8I", *(mask >> 32 * at & 0xFFFFFFFF for at in range(8)))
            icmp.setsockopt(socket.IPPROTO_ICMPV6, _ICMPV6_FILTER, words)
        if self.protocol is Protocol.TCP:
            tcp = socket.socket(self._family, socket.SOCK_RAW, socket.IPPROTO_TCP)
            self._add(tcp, self._read_tcp)
            tcp.connect((self.ip, 0))  # the kernel then keeps other hosts' segments away

    def _add(self, sock: socket.socket, read: Callable[[bytes, str, _Control], Outcome]) -> None:
        self._readers[sock.fileno()] = (sock, read)
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        if self._version == 6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
        self._poll.register(sock, select.POLLIN)

    def _key(self, flow: int) -> FlowKey:
        if flow not in self._known.flows:
            self._known.flows[flow] = FlowKey(
                source=packet.packed(self._source),
                destination=packet.packed(self.ip),
                source_port=self._hold(flow),
                port=self.port,
                label=self._chance.randrange(1, 1 << 20),
                checksum=self._chance.randrange(1, 0xFFFF),
                magic=self._chance.randbytes(packet.MAGIC_BYTES),
            )
        return self._known.flows[flow]

    def _hold(self, flow: int) -> int:
        if self.protocol is Protocol.ICMP:
            return self._chance.randrange(1, 0x10000)
        kind = socket.SOCK_STREAM if self.protocol is Protocol.TCP else socket.SOCK_DGRAM
        holder = socket.socket(self._family, kind)
        self._holders[flow] = holder
        holder.bind((self._source, 0))
        if kind == socket.SOCK_DGRAM:
            self._add(holder, self._read_udp)
        return int(holder.getsockname()[1])

    def _build(self, shot: Shot) -> bytes:
        key, number = self._key(shot.flow), shot.number + self._first_id
        if self.protocol is Protocol.TCP:
            sequence = self._sequence = (self._sequence + self._chance.randint(1, _MOST_STEP)) % (1 << 32)
            self._known.sequences[sequence] = shot.number
            data = packet.syn(key, shot.ttl, sequence, number)
        elif self.protocol is Protocol.UDP:
            data = packet.udp(key, shot.ttl, number)
        else:
            data = packet.echo(key, shot.ttl, number)
        self._known.sent[shot.number] = data
        self._known.numbers[number & 0xFFFF] = shot.number
        return data

    def _settle(self, outcome: Outcome, control: _Control, arrivals: list[Arrival]) -> None:
        if isinstance(outcome, str):
            setattr(self.tally, outcome, getattr(self.tally, outcome) + 1)
            return
        number, reply = outcome
        rtt_ms, clock = self._stamps.round_trip(number, kernel_stamp(control))
        arrivals.append(Arrival(number=number, reply=reply(rtt_ms, clock)))

    def _read_icmp(self, data: bytes, ip: str, control: _Control) -> Outcome:
        ttl: int | None = hop_limit(control)
        if self._version == 4:
            stripped = parse.strip_ipv4(data)
            if stripped is None:
                return "malformed"
            ttl, ip, data = stripped
        return match.icmp(self._known, data, ip, ttl)

    def _read_tcp(self, data: bytes, ip: str, control: _Control) -> Outcome:
        ttl: int | None = hop_limit(control)
        if self._version == 4:
            stripped = parse.strip_ipv4(data)
            if stripped is None:
                return "malformed"
            ttl, ip, data = stripped
        return match.tcp(self._known, data, ip, ttl)

    def _read_udp(self, data: bytes, ip: str, control: _Control) -> Outcome:
        return match.udp(self._known, data, ip, hop_limit(control))
