# SPDX-License-Identifier: Apache-2.0
"""Unusual SYNs, built by Scapy: with an offer of ECN, with data, and of sizes up to a whole packet. Needs root.

They go to one address alone, each from a source port that is held, so that the kernel resets what the target half
opened. Scapy builds packets and reads TCP options; everything that comes in passes the engine's strict parser first.
"""

from __future__ import annotations

import errno
import logging
import random
import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from netdiag.errors import NotPermitted, Unsupported
from netdiag.route.engine import parse
from netdiag.route.engine.channel import source_address
from netdiag.route.model import Kind, OddKind, OddProbe
from netdiag.route.prober import OddRequest

__all__ = ["SIZES", "probe", "ready"]

SIZES = (1500, 1492, 1480, 1460, 1440, 1420, 1400, 1380, 1360, 1280)
"""Whole packets: Ethernet, PPPoE, tunnels in common use, the least of IPv6. Between two of them it is bisected."""

_NO_RAW = "--odd sends raw packets: it needs root or CAP_NET_RAW"
_TIMES = 3
_SIZE_TIMES = 2
_DATA_BYTES = 32
_WAIT_S, _LEAST_WAIT_S = 1.0, 0.3
_EXACT_BYTES = 4
_SYN, _RST, _ACK, _ECE, _CWR = 0x02, 0x04, 0x10, 0x40, 0x80
_ECT0 = 0x02
_MOST_PACKETS = 2048
_HEADERS = {4: 20 + 20 + 8, 6: 40 + 20 + 8}
"""IP and TCP with the options that a SYN with data has here: MSS, and an empty cookie request padded to a word."""


@dataclass(slots=True, kw_only=True)
class _Flying:
    """A probe that left."""

    probe: OddProbe
    port: int
    sequence: int
    data: int
    """Bytes of data in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    kind: OddKind
    ttl: int
    size: int = 0


def ready() -> None:
    """Raise NotPermitted without raw sockets, Unsupported without Scapy; sends nothing."""
    try:
        socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW).close()
    except PermissionError:
        raise NotPermitted(_NO_RAW, hint="start it with sudo") from None
    _scapy("inet")


def probe(request: OddRequest, *, base_ns: int) -> tuple[OddProbe, ...]:
    """Return the probes in order of sending. NotPermitted without raw sockets, Unsupported without Scapy.

    All of one sort leave at once; where a size is not answered, more are sent to find the largest that is, and how far
    the others come.
    """
    build = _builder()
    source = source_address(request.ip)
    if source is None:
        return ()
    try:
        with ExitStack() as cleanup:
            sender = _Sender(request, source, build, cleanup, base_ns)
            return _plan(request, sender)
    except PermissionError:
        raise NotPermitted(_NO_RAW, hint="start it with sudo") from None


def _plan(request: OddRequest, sender: _Sender) -> tuple[OddProbe, ...]:
    far = 64
    ttls = range(1, max(1, min(request.last_ttl, far - 1)) + 1)
    wanted = [_Wanted(kind=kind, ttl=far) for _ in range(_TIMES) for kind in (OddKind.PLAIN, OddKind.ECN, OddKind.DATA)]
    wanted += [_Wanted(kind=OddKind.SIZE, ttl=far, size=size) for _ in range(_SIZE_TIMES) for size in SIZES]
    sender.send(wanted + [_Wanted(kind=OddKind.ECT, ttl=ttl) for ttl in ttls])
    passed, lost = sender.passed(), sender.lost()
    if passed is None or lost is None:
        return sender.probes()
    while lost - passed > _EXACT_BYTES and not sender.told:
        known = passed, lost
        middle = (lost + passed) // 2
        sender.send([_Wanted(kind=OddKind.SIZE, ttl=far, size=middle)] * _SIZE_TIMES)
        passed, lost = sender.passed() or passed, min(lost, sender.lost() or lost)
        if (passed, lost) == known:  # nothing left: the way, or the device, is gone
            break
    shown = [_Wanted(kind=OddKind.SIZE, ttl=ttl, size=size) for ttl in ttls for size in (passed, lost)]
    sender.send(shown)
    return sender.probes()


class _Sender:
    """Raw sockets towards one address, and what flew over them."""

    def __init__(
        self,
        request: OddRequest,
        source: str,
        build: Callable[..., bytes],
        cleanup: ExitStack,
        base_ns: int,
    ) -> None:
        self._request, self._source, self._build, self._cleanup = request, source, build, cleanup
        self._base_ns = base_ns
        self._version = 6 if ":" in request.ip else 4
        self._family = socket.AF_INET6 if self._version == 6 else socket.AF_INET
        self._chance = random.SystemRandom()
        self._flying: dict[int, _Flying] = {}
        self._trip_s = 0.0
        self.told = False
        """Whether a router said that a packet is too big."""
        self._out = self._raw(socket.IPPROTO_RAW)
        self._icmp = self._raw(socket.IPPROTO_ICMP if self._version == 4 else socket.IPPROTO_ICMPV6)
        self._tcp = self._raw(socket.IPPROTO_TCP)
        self._tcp.connect((request.ip, 0))

    def _raw(self, number: int) -> socket.socket:
        sock = self._cleanup.enter_context(socket.socket(self._family, socket.SOCK_RAW, number))
        sock.setblocking(False)
        return sock

    def probes(self) -> tuple[OddProbe, ...]:
        """Return all that left, in order."""
        return tuple(one.probe for one in self._flying.values())

    def passed(self) -> int | None:
        """Return the largest size that the target answered."""
        return max((one.probe.size for one in self._sized() if _is_answer(one.probe)), default=None)

    def lost(self) -> int | None:
        """Return the smallest size above that which was never answered."""
        least = self.passed()
        sizes = {one.probe.size for one in self._sized() if least is not None and one.probe.size > least}
        return min(sizes, default=None)

    def _sized(self) -> list[_Flying]:
        return [one for one in self._flying.values() if one.probe.kind is OddKind.SIZE and one.probe.ttl == 64]

    def send(self, wanted: Sequence[_Wanted]) -> None:
        """Send all and wait for their answers, twice the longest round trip seen, a second at most."""
        ready = [one for want in wanted if (one := self._make(want)) is not None]
        for flying, data in ready:
            try:
                self._out.sendto(data, (self._request.ip, 0))
            except OSError as error:
                if error.errno == errno.EPERM:
                    raise
                continue  # larger than this machine's own device carries, or no way there
            now = time.monotonic_ns() - self._base_ns
            flying.probe = replace(flying.probe, sent_ns=now)
            self._flying[flying.port] = flying
        self._wait({flying.port for flying, _ in ready if flying.port in self._flying})

    def _make(self, want: _Wanted) -> tuple[_Flying, bytes] | None:
        holder = self._cleanup.enter_context(socket.socket(self._family, socket.SOCK_STREAM))
        holder.bind((self._source, 0))
        port, sequence = int(holder.getsockname()[1]), self._chance.getrandbits(32)
        data = {OddKind.DATA: _DATA_BYTES, OddKind.SIZE: want.size - _HEADERS[self._version]}.get(want.kind, 0)
        if data < 0:
            return None
        raw = self._build(
            source=self._source,
            target=self._request.ip,
            ttl=want.ttl,
            tos=_ECT0 if want.kind is OddKind.ECT else 0,
            ports=(port, self._request.port),
            sequence=sequence,
            ecn=want.kind is OddKind.ECN,
            data=data,
        )
        made = OddProbe(kind=want.kind, ttl=want.ttl, size=len(raw), sent_ns=0)
        return _Flying(probe=made, port=port, sequence=sequence, data=data), raw

    def _wait(self, ports: set[int]) -> None:
        poll = select.poll()
        for sock in (self._icmp, self._tcp):
            poll.register(sock, select.POLLIN)
        began = time.monotonic()
        while True:
            missing = [port for port in ports if self._flying[port].probe.reply is None]
            longest = max(_LEAST_WAIT_S, 3 * self._trip_s) if self._trip_s else _WAIT_S
            left = began + min(_WAIT_S, longest) - time.monotonic()
            if not missing or left <= 0:
                return
            poll.poll(left * 1000)
            self._drain(self._icmp, self._error)
            self._drain(self._tcp, self._answer)

    def _drain(self, sock: socket.socket, read: Callable[[bytes, str], None]) -> None:
        for _ in range(_MOST_PACKETS):
            try:
                data, name = sock.recvfrom(65536)
            except BlockingIOError:
                return
            except OSError:  # an unreachable that the ICMP socket has, too
                continue
            ip = str(name[0]).partition("%")[0]
            if self._version == 4:
                stripped = parse.strip_ipv4(data)
                if stripped is None:
                    continue
                _, ip, data = stripped
            read(data, ip)

    def _error(self, data: bytes, ip: str) -> None:
        error = parse.icmp(self._version, data)
        if error is None or error.quoted.protocol != socket.IPPROTO_TCP:
            return
        port, _, sequence = struct.unpack_from("!HHI", error.quoted.transport)
        flying = self._flying.get(port)
        if flying is None or flying.sequence != sequence or flying.probe.reply is not None:
            return
        self.told = self.told or error.kind is Kind.TOO_BIG
        flying.probe = replace(flying.probe, reply=error.kind, ip=ip, tos=error.quoted.tos, mtu=error.mtu)

    def _answer(self, data: bytes, ip: str) -> None:
        segment = parse.segment(data)
        if segment is None or ip != self._request.ip or segment.source_port != self._request.port:
            return
        flying = self._flying.get(segment.port)
        if flying is None or flying.probe.reply is not None:
            return
        acked = (segment.acknowledged - flying.sequence - 1) % (1 << 32)
        if acked > flying.data or not segment.flags & _ACK:
            return
        passed_s = (time.monotonic_ns() - self._base_ns - flying.probe.sent_ns) / 1e9
        self._trip_s = max(self._trip_s, passed_s)
        if segment.flags & _RST:
            flying.probe = replace(flying.probe, reply=Kind.RST, ip=ip)
        elif segment.flags & _SYN:
            taken = bool(segment.flags & _ECE) and not segment.flags & _CWR
            flying.probe = replace(flying.probe, reply=Kind.SYN_ACK, ip=ip, ece=taken, acked=acked, mss=_mss(data))


def _is_answer(found: OddProbe) -> bool:
    return found.reply in (Kind.SYN_ACK, Kind.RST)


def _mss(data: bytes) -> int | None:
    """Return the largest segment that a TCP header allows; None where it says nothing readable."""
    try:
        options = dict(_scapy("inet").TCP(data[: (data[12] >> 4) * 4]).options)
    except Exception:  # noqa: BLE001 - foreign bytes in a parser that is not ours
        return None
    value = options.get("MSS")
    return value if isinstance(value, int) else None


def _scapy(layer: str) -> Any:
    logging.getLogger("scapy").setLevel(logging.CRITICAL)  # it warns of interfaces that have no address
    try:
        return import_module(f"scapy.layers.{layer}")
    except ImportError:
        raise Unsupported("--odd needs Scapy", hint="pip install 'netdiag-ebpf[odd]'") from None


def _builder() -> Callable[..., bytes]:
    """Return what builds a SYN; Scapy is only imported here, half a second that no other check pays."""
    inet, inet6 = _scapy("inet"), _scapy("inet6")

    def build(
        *,
        source: str,
        target: str,
        ttl: int,
        tos: int,
        ports: tuple[int, int],
        sequence: int,
        ecn: bool,
        data: int,
    ) -> bytes:
        mss = 1440 if ":" in target else 1460
        segment = inet.TCP(
            sport=ports[0],
            dport=ports[1],
            seq=sequence,
            flags="SEC" if ecn else "S",
            window=64240,
            options=[("MSS", mss), ("TFO", b"")] if data else [("MSS", mss)],
        ) / bytes(data)
        if ":" in target:
            head = inet6.IPv6(src=source, dst=target, hlim=ttl, tc=tos)
        else:
            head = inet.IP(src=source, dst=target, ttl=ttl, tos=tos, flags="DF", id=1 + sequence % 60000)
        return bytes(head / segment)

    return build
