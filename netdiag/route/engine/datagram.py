# SPDX-License-Identifier: Apache-2.0
"""UDP and ICMP without privileges: one socket per flow, the TTL per packet, answers from the error queue.

The fields that routers hash stay the same within a flow. ICMP sockets exist only where `ping_group_range` allows them.
"""

from __future__ import annotations

import errno
import select
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

from netdiag.route.engine import errqueue, packet
from netdiag.route.engine.channel import Arrival, Sent, Shot, Stamps, Tally, hop_limit, kernel_stamp
from netdiag.route.engine.errqueue import QueuedError
from netdiag.route.engine.parse import labels
from netdiag.route.model import Clock, Flow, Kind, Matched, Method, Protocol, Reply

__all__ = ["Datagram"]

_TRIES = 3
"""Sending reports errors of earlier probes; those are read from the queue, and the probe is sent again."""
_ECHO_REPLY = {4: 0, 6: 129}
_PADDED_QUOTE = 128
_LEAST_QUOTE = packet.MAGIC_BYTES + 4
"""Payload bytes that name a probe. Old routers quote none; then only a socket that sent one probe can tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """The socket of a flow."""

    flow: int
    sock: socket.socket
    key: packet.FlowKey


class Datagram:
    """Datagram sockets towards one address."""

    privileged = False
    single_flow = True

    def __init__(self, ip: str, port: int, protocol: Protocol, *, magic: bytes, source: str) -> None:
        self.ip, self.port, self.protocol = ip, port, protocol
        self.method = Method.UDP_SOCKET if protocol is Protocol.UDP else Method.ICMP_SOCKET
        self.tally = Tally()
        self._magic, self._source = magic, source
        self._version = 6 if ":" in ip else 4
        self._stamps = Stamps()
        self._lines: dict[int, _Line] = {}
        self._only: dict[int, int | None] = {}
        """Flow → its one probe; None where it had several."""
        self._poll = select.poll()
        self._line(0)  # where ICMP sockets are not allowed it shows here, as PermissionError

    def send(self, shots: Sequence[Shot]) -> list[Sent]:
        """Send one datagram per shot."""
        built = [(shot, self._line(shot.flow)) for shot in shots]
        for shot in shots:
            self._only[shot.flow] = None if shot.flow in self._only else shot.number
        bodies = [(shot, line, self._body(line, shot.number)) for shot, line in built]
        return [sent for shot, line, body in bodies if (sent := self._shoot(shot, line, body))]

    def receive(self, timeout_s: float) -> list[Arrival]:
        """Return what the error queues and the sockets hold."""
        arrivals: list[Arrival] = []
        ready = {descriptor for descriptor, _ in self._poll.poll(max(0, round(timeout_s * 1000 + 0.5)))}
        for line in self._lines.values():
            if line.sock.fileno() in ready:
                arrivals += self._errors(line) + self._answers(line)
        return arrivals

    def flows(self) -> tuple[Flow, ...]:
        """Return the flows with their ports (ICMP: id and checksum)."""
        constant = self.port if self.protocol is Protocol.UDP else None
        return tuple(
            Flow(
                id=line.flow,
                source_ip=self._source,
                source_port=line.key.source_port,
                port=line.key.checksum if constant is None else constant,
            )
            for _, line in sorted(self._lines.items())
        )

    def now_ns(self) -> int:
        """Return CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    def close(self) -> None:
        """Close the sockets."""
        for line in self._lines.values():
            line.sock.close()
        self._lines.clear()

    def _line(self, flow: int) -> _Line:
        if flow not in self._lines:
            family = socket.AF_INET if self._version == 4 else socket.AF_INET6
            number = 0
            if self.protocol is Protocol.ICMP:
                number = socket.IPPROTO_ICMP if self._version == 4 else socket.IPPROTO_ICMPV6
            sock = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, number)
            errqueue.enable(sock)
            sock.bind((self._source, 0))
            key = packet.FlowKey(
                source=packet.packed(self._source),
                destination=packet.packed(self.ip),
                source_port=int(sock.getsockname()[1]),
                port=self.port,
                checksum=0x4E44 + flow,
                magic=self._magic,
            )
            self._lines[flow] = _Line(flow=flow, sock=sock, key=key)
            self._poll.register(sock, select.POLLIN | select.POLLERR)
        return self._lines[flow]

    def _body(self, line: _Line, number: int) -> bytes:
        if self.protocol is Protocol.UDP:
            return packet.payload(self._magic, number)
        return packet.echo_segment(line.key, number)

    def _shoot(self, shot: Shot, line: _Line, body: bytes) -> Sent | None:
        level, kind = (
            (socket.IPPROTO_IP, socket.IP_TTL) if self._version == 4 else (socket.IPPROTO_IPV6, socket.IPV6_HOPLIMIT)
        )
        control = [(level, kind, struct.pack("@i", shot.ttl))]
        target = (self.ip, self.port if self.protocol is Protocol.UDP else 0)
        for _ in range(_TRIES):
            at_ns = self._stamps.sent(shot.number)
            try:
                line.sock.sendmsg([body], control, 0, target)
            except OSError as error:
                if error.errno in (errno.ENETUNREACH, errno.EACCES, errno.EPERM, errno.EINVAL):
                    return None
            else:
                return Sent(number=shot.number, at_ns=at_ns)
        return None

    def _errors(self, line: _Line) -> list[Arrival]:
        arrivals = []
        while (error := errqueue.read(line.sock)) is not None:
            number = self._number(error.data)
            matched = Matched.PAYLOAD if self.protocol is Protocol.UDP else Matched.SEQUENCE
            if number is None and len(error.data) < _LEAST_QUOTE:
                number, matched = self._only.get(line.flow), Matched.SOCKET
                self.tally.unclaimed += number is None
            elif number is None:
                self.tally.mismatched += 1
            if number is None:
                continue
            rtt_ms, clock = self._stamps.round_trip(number, error.stamp_ns)
            arrivals.append(Arrival(number=number, reply=self._reply(error, rtt_ms, clock, matched)))
        return arrivals

    def _number(self, data: bytes) -> int | None:
        """Return the probe that quoted or echoed bytes are from."""
        if self.protocol is Protocol.UDP:
            number = packet.number_in(data, self._magic)
        else:
            magic = data[8 : 8 + len(self._magic)]
            whole = len(data) >= 8 and self._magic.startswith(magic)  # old routers quote no payload
            number = int.from_bytes(data[6:8], "big") if whole else None
        return number if number is not None and number in self._stamps else None

    def _reply(self, error: QueuedError, rtt_ms: float, clock: Clock, matched: Matched) -> Reply:
        start = error.extension
        if start is None and self.protocol is Protocol.ICMP:
            start = _PADDED_QUOTE - (20 if self._version == 4 else 40)
        return Reply(
            kind=error.kind,
            ip=error.ip,
            rtt_ms=rtt_ms,
            clock=clock,
            matched=matched,
            code=error.code,
            ttl=error.ttl,
            mtu=error.mtu,
            labels=labels(error.data, start) if start is not None else (),
        )

    def _answers(self, line: _Line) -> list[Arrival]:
        arrivals: list[Arrival] = []
        while True:
            try:
                data, control, _, name = line.sock.recvmsg(2048, 512)
            except BlockingIOError:
                return arrivals
            except OSError:  # an error of an earlier probe; the queue has it
                continue
            number = self._answer_number(data) if str(name[0]).partition("%")[0] == self.ip else None
            if number is None:
                self.tally.mismatched += 1
                continue
            rtt_ms, clock = self._stamps.round_trip(number, kernel_stamp(control))
            udp = self.protocol is Protocol.UDP
            reply = Reply(
                kind=Kind.DATA if udp else Kind.ECHO_REPLY,
                ip=self.ip,
                rtt_ms=rtt_ms,
                clock=clock,
                matched=Matched.PAYLOAD,
                ttl=hop_limit(control),
            )
            arrivals.append(Arrival(number=number, reply=reply))

    def _answer_number(self, data: bytes) -> int | None:
        if self.protocol is Protocol.ICMP and (data[:1] != bytes([_ECHO_REPLY[self._version]]) or len(data) < 16):
            return None
        return self._number(data)
