# SPDX-License-Identifier: Apache-2.0
"""TCP without privileges: one connect() per probe, each with its own TTL; the error queue says who stopped it.

Every probe has a source port of its own, so balanced paths mix: the channel is not single-flow.
"""

from __future__ import annotations

import errno
import select
import socket
import struct
import time
from collections.abc import Sequence

from netdiag.route.engine import errqueue
from netdiag.route.engine.channel import Arrival, Sent, Shot, Stamps, Tally, source_address
from netdiag.route.engine.errqueue import QueuedError
from netdiag.route.engine.parse import labels
from netdiag.route.model import Clock, Flow, Kind, Matched, Method, Quote, Reply

__all__ = ["TcpConnect", "handshake_rtt_ms"]

_LINGER_RESET = struct.pack("ii", 1, 0)
_TCP_INFO_RTT, _TCP_INFO_RETRANS = 68, 100
_WRITABLE = select.EPOLLOUT | select.EPOLLERR | select.EPOLLHUP
_PADDED_QUOTE = 128
"""Routers that add extensions pad what they quote to this length; the kernel hides the field that says it."""


class TcpConnect:
    """Sockets that try to connect, each the probe of one number."""

    method = Method.TCP_CONNECT
    privileged = False
    single_flow = False

    def __init__(self, ip: str, port: int) -> None:
        self.ip, self.port = ip, port
        self.tally = Tally()
        self._family = socket.AF_INET6 if ":" in ip else socket.AF_INET
        self._stamps = Stamps()
        self._open: dict[int, tuple[int, socket.socket]] = {}
        self._poll = select.epoll()
        self._flows: set[int] = {0}

    def send(self, shots: Sequence[Shot]) -> list[Sent]:
        """Start a connection per shot; sockets are made first, so that the SYNs leave close together."""
        ready = [(shot, self._socket(shot.ttl)) for shot in shots]
        return [sent for shot, sock in ready if (sent := self._start(shot, sock))]

    def receive(self, timeout_s: float) -> list[Arrival]:
        """Return what the sockets learned."""
        arrivals = []
        for descriptor, _ in self._poll.poll(max(0.0, timeout_s)):
            number, sock = self._open.pop(descriptor)
            reply = self._outcome(number, sock)
            self._drop(sock)
            if reply is not None:
                arrivals.append(Arrival(number=number, reply=reply))
        return arrivals

    def flows(self) -> tuple[Flow, ...]:
        """Return the flows, without a source port: each probe has one."""
        source = source_address(self.ip)
        return tuple(Flow(id=number, source_ip=source, port=self.port) for number in range(max(self._flows) + 1))

    def now_ns(self) -> int:
        """Return CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    def close(self) -> None:
        """Give up what is still on its way."""
        for _, sock in self._open.values():
            self._drop(sock)
        self._open.clear()
        self._poll.close()

    def _socket(self, ttl: int) -> socket.socket:
        sock = socket.socket(self._family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        if self._family == socket.AF_INET:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, ttl)
        else:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, ttl)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
        errqueue.enable(sock)
        return sock

    def _start(self, shot: Shot, sock: socket.socket) -> Sent | None:
        self._flows.add(shot.flow)
        at_ns = self._stamps.sent(shot.number)
        code = sock.connect_ex((self.ip, self.port))
        if code not in (0, errno.EINPROGRESS, errno.ECONNREFUSED):
            self._drop(sock)
            return None
        self._open[sock.fileno()] = (shot.number, sock)
        self._poll.register(sock, _WRITABLE)
        return Sent(number=shot.number, at_ns=at_ns, source_port=int(sock.getsockname()[1]))

    def _drop(self, sock: socket.socket) -> None:
        sock.close()  # leaves the poll as well; the linger option makes it a reset

    def _outcome(self, number: int, sock: socket.socket) -> Reply | None:
        error = errqueue.read(sock)
        if error is not None:
            rtt_ms, clock = self._stamps.round_trip(number, error.stamp_ns)
            return _router_reply(error, rtt_ms, clock)
        rtt_ms, clock = self._stamps.round_trip(number, None)
        failed = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failed == 0:
            exact_ms = handshake_rtt_ms(sock)
            kind = Kind.SYN_ACK
            if exact_ms is not None:
                rtt_ms, clock = exact_ms, Clock.TCP_INFO
        elif failed in (errno.ECONNREFUSED, errno.ECONNRESET):
            kind = Kind.RST
        else:
            return None
        return Reply(kind=kind, ip=self.ip, rtt_ms=rtt_ms, clock=clock, matched=Matched.SOCKET)


def handshake_rtt_ms(sock: socket.socket) -> float | None:
    """Return the kernel's round trip of the SYN; None where a SYN was sent again: then it could mean either."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
    if len(info) < _TCP_INFO_RETRANS + 4:
        return None
    (rtt_us,) = struct.unpack_from("=I", info, _TCP_INFO_RTT)
    (again,) = struct.unpack_from("=I", info, _TCP_INFO_RETRANS)
    return rtt_us / 1000 if rtt_us and not again else None


def _router_reply(error: QueuedError, rtt_ms: float, clock: Clock) -> Reply:
    header = 20 if error.version == 4 else 40
    ports = struct.unpack_from("!HH", error.data) if len(error.data) >= 4 else (None, None)
    return Reply(
        kind=error.kind,
        ip=error.ip,
        rtt_ms=rtt_ms,
        clock=clock,
        matched=Matched.SOCKET,
        code=error.code,
        ttl=error.ttl,
        mtu=error.mtu,
        labels=labels(error.data, _PADDED_QUOTE - header),
        quote=Quote(source_port=ports[0], port=ports[1]) if ports[0] is not None else None,
    )
