# SPDX-License-Identifier: Apache-2.0
"""The prober that really sends: picks the best method that this machine allows, and says which ones it had to leave."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from netdiag.errors import NotPermitted
from netdiag.route.engine import connects, explore, greeting, own_session, session
from netdiag.route.engine.channel import Channel, source_address
from netdiag.route.engine.course import Course
from netdiag.route.engine.datagram import Datagram
from netdiag.route.engine.packet import MAGIC_BYTES
from netdiag.route.engine.raw import Raw
from netdiag.route.engine.session import Endpoints, InSession
from netdiag.route.engine.tcp_connect import TcpConnect
from netdiag.route.model import Connect, Ended, Flow, Method, Odd, OddProbe, Protocol, Trace
from netdiag.route.prober import ConnectRequest, OddRequest, Seen, TraceRequest

__all__ = ["LiveProber", "raw_allowed"]

_NO_RAW = "raw sockets need root or CAP_NET_RAW"
_NO_PING = "ICMP sockets are closed to this user (net.ipv4.ping_group_range)"
_METHODS = {
    (Protocol.TCP, True): Method.TCP_RAW,
    (Protocol.UDP, True): Method.UDP_RAW,
    (Protocol.ICMP, True): Method.ICMP_RAW,
    (Protocol.TCP, False): Method.TCP_CONNECT,
    (Protocol.UDP, False): Method.UDP_SOCKET,
    (Protocol.ICMP, False): Method.ICMP_SOCKET,
}


class LiveProber:
    """Sends over this machine's network. Instants count from `base_ns` (CLOCK_MONOTONIC)."""

    def __init__(self, base_ns: int | None = None) -> None:
        self.base_ns = time.monotonic_ns() if base_ns is None else base_ns

    def trace(self, request: TraceRequest, *, seen: Seen | None = None) -> Trace:
        """Return the probes to one address; NotPermitted where `privileged=True` cannot be had."""
        chance = random.SystemRandom() if request.seed is None else random.Random(request.seed)  # noqa: S311 - a test's
        notes: tuple[str, ...] = ()
        source = source_address(request.ip)
        if source is None:
            return self._failed(request, "this machine has no way to that address")
        try:
            channel = self._raw(request, source, chance) if request.privileged is not False else None
            if channel is None:
                channel = self._plain(request, source, chance)
                notes = (_NO_RAW,) if request.privileged is None else ()
        except OSError as error:
            ping = request.protocol is Protocol.ICMP and isinstance(error, PermissionError)
            return self._failed(request, _NO_PING if ping else f"no socket: {error.strerror}")
        try:
            course = Course(channel, request, base_ns=self.base_ns, source=chance)
            notes += explore.run(course, request, seen)
            return course.trace(notes=notes, error=None if course.sent else "nothing could be sent")
        finally:
            channel.close()

    def inside(self, ends: Endpoints, request: TraceRequest, *, learn_s: float = 5.0) -> Trace:
        """Return the way of an open connection's own segments. NotPermitted without raw sockets.

        `request` says how far and how often. A connection that stays silent for `learn_s` makes a failed trace.
        """
        chance = random.SystemRandom()
        try:
            numbers = session.learn(ends, learn_s)
            if numbers is None:
                return self._failed(request, "the far end sent nothing to learn the connection's numbers from")
            channel = InSession(ends, numbers, chance=chance)
        except PermissionError:
            raise NotPermitted(_NO_RAW, hint="start it with sudo") from None
        try:
            course = Course(channel, request, base_ns=self.base_ns, source=chance)
            return course.trace(notes=explore.run(course, request))
        finally:
            channel.close()

    def inside_own(self, request: TraceRequest, server_name: str) -> Trace:
        """Return the way of the segments of a connection that is opened for it. NotPermitted without raw sockets."""
        try:
            with own_session.opened(request.ip, request.port, server_name) as (ends, numbers):
                channel = InSession(ends, numbers, chance=random.SystemRandom())
                try:
                    course = Course(channel, request, base_ns=self.base_ns, source=random.SystemRandom())
                    return course.trace(notes=explore.run(course, request))
                finally:
                    channel.close()
        except PermissionError:
            raise NotPermitted(_NO_RAW, hint="start it with sudo") from None
        except own_session.Refused as refused:
            return self._failed(request, str(refused))

    def connect(self, request: ConnectRequest) -> Connect:
        """Return the connections to one address."""
        return connects.run(request, base_ns=self.base_ns)

    def odd(self, request: OddRequest) -> Odd:
        """Return unusual probes to one address; ClientHellos need no rights. NotPermitted, Unsupported: see `raw`."""
        probes: tuple[OddProbe, ...] = ()
        if request.raw:
            from netdiag.route.odd import probe  # Scapy: half a second that no other check pays

            probes = probe(request, base_ns=self.base_ns)  # first: what a router tells of sizes holds back later ones
        hellos = greeting.run(request.ip, request.port, request.server_name) if request.server_name else ()
        return Odd(ip=request.ip, port=request.port, probes=probes, greetings=hellos)

    @staticmethod
    def _raw(request: TraceRequest, source: str, chance: random.Random) -> Channel | None:
        try:
            return Raw(request.ip, request.port, request.protocol, source=source, chance=chance)
        except PermissionError:
            if request.privileged:
                raise NotPermitted(_NO_RAW, hint="start it with sudo") from None
            return None

    @staticmethod
    def _plain(request: TraceRequest, source: str, chance: random.Random) -> Channel:
        if request.protocol is Protocol.TCP:
            return TcpConnect(request.ip, request.port)
        magic = chance.randbytes(MAGIC_BYTES)
        return Datagram(request.ip, request.port, request.protocol, magic=magic, source=source)

    def _failed(self, request: TraceRequest, error: str) -> Trace:
        return Trace(
            ip=request.ip,
            port=None if request.protocol is Protocol.ICMP else request.port,
            protocol=request.protocol,
            method=_METHODS[request.protocol, bool(request.privileged)],
            privileged=False,
            started_ns=time.monotonic_ns() - self.base_ns,
            duration_ms=0.0,
            flows=(Flow(id=0),),
            single_flow=False,
            probes=(),
            ended=Ended.FAILED,
            wait_ms=request.wait_s * 1000,
            error=error,
        )


def raw_allowed(make: Callable[..., Raw] = Raw) -> bool:
    """Tell whether raw sockets may be opened; sends nothing."""
    try:
        channel = make("127.0.0.1", 9, Protocol.ICMP, source="127.0.0.1", chance=random.SystemRandom())
    except OSError:
        return False
    channel.close()
    return True
