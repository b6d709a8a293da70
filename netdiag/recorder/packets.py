# SPDX-License-Identifier: Apache-2.0
"""Packets that open and close connections, and those with TLS handshakes in the clear: evidence for other tools.

A packet socket whose filter lets nothing else through, in the recorder's own network namespace. What passes is cut to
headers, to TLS records of the handshake without secrets (`decode.kept`), and to the headers of other records. It waits
in bounded memory; into the recording go only packets of connections that were traced. Standard library only.
"""

from __future__ import annotations

import array
import base64
import contextlib
import socket
import struct
import time
from collections import deque
from collections.abc import Iterable

from netdiag.decode.kept import redact
from netdiag.recording.format import StreamLayout
from netdiag.recording.writer import RecordingWriter

__all__ = ["Packets", "cut"]

_ALL = 0x0003
"""ETH_P_ALL."""
_SO_ATTACH_FILTER, _SO_TIMESTAMPNS = 26, 35
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_OUTGOING, _LOOPBACK = 4, 772
_BUFFER = 4 << 20
_MOST_BYTES = 8 << 20
_MOST_ENDS = 1 << 17
_AT_ONCE = 256
_LONGEST = 16_384
_HANDSHAKE, _RECORD_HEADER = 22, 5
_MAPPED = bytes(10) + b"\xff\xff"
_REJECT = 27
_FILTER = (
    (0x30, 0, 0, 0),  # 0: version of IP
    (0x54, 0, 0, 0xF0),
    (0x15, 0, 6, 0x40),  # 4, else at 9
    (0x30, 0, 0, 9),
    (0x15, 0, _REJECT - 5, 6),  # TCP
    (0x28, 0, 0, 6),
    (0x45, _REJECT - 7, 0, 0x1FFF),  # no later fragment
    (0xB1, 0, 0, 0),  # its header's length
    (0x05, 0, 0, 4),  # on at 13
    (0x15, 0, _REJECT - 10, 0x60),  # 9: version 6
    (0x30, 0, 0, 6),
    (0x15, 0, _REJECT - 12, 6),
    (0x01, 0, 0, 40),
    (0x50, 0, 0, 13),  # 13: the flags
    (0x45, 25 - 15, 0, 0x07),  # FIN, SYN, RST
    (0x50, 0, 0, 12),
    (0x54, 0, 0, 0xF0),
    (0x74, 0, 0, 2),
    (0x0C, 0, 0, 0),
    (0x07, 0, 0, 0),  # where the payload begins
    (0x50, 0, 0, 0),
    (0x35, 0, _REJECT - 22, 20),  # the type of a record that is no data
    (0x25, _REJECT - 23, 0, 22),
    (0x50, 0, 0, 1),
    (0x15, 26 - 25, _REJECT - 25, 3),  # its version
    (0x06, 0, 0, 256),  # 25: headers
    (0x06, 0, 0, _LONGEST),  # 26
    (0x06, 0, 0, 0),  # 27
)
"""Classic BPF over a packet that begins with its IP header."""

Ends = bytes
"""Addresses and ports of both ends, the lower end first."""


class Packets:
    """Takes packets from now on; OSError where this process may not."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ALL))
        try:
            program = array.array("B", b"".join(struct.pack("=HBBI", *each) for each in _FILTER))
            address, _ = program.buffer_info()
            attached = struct.pack("HP", len(_FILTER), address)
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, attached)
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            with contextlib.suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
            self._socket.setblocking(False)
            self._drop_unfiltered()
        except BaseException:
            self._socket.close()
            raise
        self._kept: deque[tuple[Ends, int, int, bytes]] = deque()
        self._bytes = self._seen = self._dropped = 0
        self._traced: set[Ends] = set()

    def _drop_unfiltered(self) -> None:
        """Drop what came between the making of the socket and its filter."""
        for _ in range(1 << 16):
            try:
                self._socket.recv(1)
            except OSError:
                return

    def take(self) -> None:
        """Take what has come, a bounded number at a time."""
        for _ in range(_AT_ONCE):
            try:
                data, extra, _, where = self._socket.recvmsg(_LONGEST, 64)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:  # an interface went away: the others go on
                continue
            if where[2] == _OUTGOING and where[3] == _LOOPBACK:
                continue  # it comes in as well
            self._keep(data, _instant(extra))

    def _keep(self, data: bytes, at_ns: int) -> None:
        ends = _ends(data)
        if ends is None:
            return
        kept, length = cut(data)
        self._kept.append((ends, at_ns, length, kept))
        self._seen += 1
        self._bytes += len(kept)
        while self._bytes > _MOST_BYTES:
            self._bytes -= len(self._kept.popleft()[3])
            self._dropped += 1

    def meet(self, layout: StreamLayout, runs: Iterable[memoryview]) -> None:
        """Learn from records of the stream `tcp` which connections are traced."""
        at = {field.name: layout.offset + field.offset for field in layout.fields}
        data = b"".join(runs)
        for start in range(0, len(data), layout.stride):
            (local,) = struct.unpack_from("=H", data, start + at["sport"])
            (remote,) = struct.unpack_from("=H", data, start + at["dport"])
            here, there = (data[start + at[name] : start + at[name] + 16] for name in ("saddr", "daddr"))
            if len(self._traced) < _MOST_ENDS:
                self._traced.add(_key(here, local, there, remote))

    def finish(self, writer: RecordingWriter) -> None:
        """Write the packets of traced connections, and how many were lost."""
        self.take()
        for ends, at_ns, length, data in self._kept:
            if ends in self._traced:
                text = base64.b64encode(data).decode("ascii")
                writer.fact("packet", {"at_ns": at_ns, "length": length, "data": text})
        writer.fact("loss", {"probe": "packets", "seen": self._seen, "lost": self._dropped + self._lost()})
        self._kept.clear()

    def _lost(self) -> int:
        with contextlib.suppress(OSError):
            statistics = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
            return int(struct.unpack("=II", statistics)[1])
        return 0

    def close(self) -> None:
        """Take no more."""
        self._socket.close()


def _instant(extra: list[tuple[int, int, bytes]]) -> int:
    """Return when a packet passed on CLOCK_MONOTONIC, from its stamp on the wall clock."""
    now, wall = time.monotonic_ns(), time.time_ns()
    for level, kind, data in extra:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(data) == 16:
            seconds, part = struct.unpack("=qq", data)
            return max(int(now - (wall - seconds * 1_000_000_000 - part)), 0)
    return now


def _shape(data: bytes) -> tuple[int, bytes, bytes] | None:
    """Return where TCP begins, and both addresses as 16 bytes; None for what is no whole header."""
    if data[:1] and data[0] >> 4 == 4 and len(data) >= 40:
        return (data[0] & 15) * 4, _MAPPED + data[12:16], _MAPPED + data[16:20]
    if data[:1] and data[0] >> 4 == 6 and len(data) >= 60:
        return 40, data[8:24], data[24:40]
    return None


def _ends(data: bytes) -> Ends | None:
    shape = _shape(data)
    if shape is None or len(data) < shape[0] + 20:
        return None
    source, target = struct.unpack_from(">HH", data, shape[0])
    return _key(shape[1], source, shape[2], target)


def _key(one: bytes, one_port: int, other: bytes, other_port: int) -> Ends:
    first, second = sorted((one + struct.pack(">H", one_port), other + struct.pack(">H", other_port)))
    return first + second


def cut(data: bytes) -> tuple[bytes, int]:
    """Return what may be kept of a packet that begins with its IP header, and how long the packet was.

    Of the payload: records of TLS handshakes with zeros in place of secrets, alerts in the clear, the header of the
    first other record. Anything else is cut off.
    """
    shape = _shape(data)
    if shape is None or len(data) < shape[0] + 20:
        return data[:0], len(data)
    declared = struct.unpack_from(">H", data, 2 if shape[0] != 40 or data[0] >> 4 == 4 else 4)[0]
    length = declared + (40 if data[0] >> 4 == 6 else 0)
    length = length if declared else len(data)  # a segment that is longer than the field can say
    begin = shape[0] + (data[shape[0] + 12] >> 4) * 4
    kept, at = bytearray(data[:begin]), begin
    ciphered = False
    while at + _RECORD_HEADER <= len(data) and 20 <= data[at] <= 23 and data[at + 1] == 3:
        size = int.from_bytes(data[at + 3 : at + 5], "big")
        kept += data[at : at + _RECORD_HEADER]
        body = data[at + _RECORD_HEADER : at + _RECORD_HEADER + size]
        if data[at] == _HANDSHAKE and not ciphered:
            kept += redact(body)
        elif size <= 2 and data[at] != 23:
            kept += body
            ciphered |= data[at] == 20
        else:
            break
        if len(body) < size:
            break
        at += _RECORD_HEADER + size
    return bytes(kept), max(length, len(kept))
