# SPDX-License-Identifier: Apache-2.0
"""When requests and answers in the clear pass a loopback interface, by the kernel's own stamps: no process is asked."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["Passed", "listening"]

_STAMP = struct.Struct("qq")
_SO_TIMESTAMPNS = 35
_ALL = 3
_LINK = 14
_BUFFER = 8 << 20


@dataclass(slots=True)
class Passed:
    """What passed: instant (ns, CLOCK_REALTIME), the two ports, whether it begins a request."""

    seen: list[tuple[int, int, int, bool]] = field(default_factory=list)

    def pauses_ms(self, port: int) -> list[tuple[int, float]]:
        """Return (client's port, pause before it) of each request to `port` but the first, by time.

        The pause lasts from the last packet of an answer that came before it to the first one of the request.
        """
        found, ended = [], None
        for at, source, target, asks in sorted(self.seen):
            if source == port:
                ended = at
            elif target == port and asks and ended is not None:
                found.append((source, (at - ended) / 1e6))
        return found

    def take(self, at: int, packet: bytes) -> None:
        """Note a packet with data."""
        if packet[12:14] != b"\x08\x00" or packet[23] != socket.IPPROTO_TCP:
            return
        tcp = _LINK + 4 * (packet[_LINK] & 15)
        data = tcp + 4 * (packet[tcp + 12] >> 4)
        end = _LINK + int.from_bytes(packet[_LINK + 2 : _LINK + 4], "big")
        if end > data:
            source, target = struct.unpack_from("!HH", packet, tcp)
            self.seen.append((at, source, target, packet[data : data + 5] == b"POST "))


@contextlib.contextmanager
def listening() -> Iterator[Passed]:
    """Listen on `lo` of this network namespace while the block runs."""
    passed, over = Passed(), threading.Event()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL)) as sock:
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUFFORCE if hasattr(socket, "SO_RCVBUFFORCE") else 33, _BUFFER)
        sock.bind(("lo", _ALL))

        def follow() -> None:
            while not over.is_set():
                if select.select([sock], [], [], 0.1)[0]:
                    packet, extra, _, address = sock.recvmsg(128, 128)
                    stamp = next((data for level, kind, data in extra if kind == _SO_TIMESTAMPNS), None)
                    if address[2] == socket.PACKET_HOST and stamp:
                        seconds, rest = _STAMP.unpack(stamp[: _STAMP.size])
                        passed.take(seconds * 10**9 + rest, packet)

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        try:
            yield passed
        finally:
            over.set()
            thread.join()
