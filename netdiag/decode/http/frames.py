# SPDX-License-Identifier: Apache-2.0
"""Frames of HTTP/2 in one direction (RFC 9113 section 4), with bytes missing here and there.

A frame's length carries over what was not seen. Where a frame's head itself is missing, the next one is looked for at
the start of a piece, and taken only where the piece shows a frame that cannot well be anything else.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol as Shape

__all__ = ["HEAD_BYTES", "PREFACE", "FrameReader", "FrameType", "Receiver", "plausible", "sent_by_client"]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD_BYTES = 9
_MAX_KEPT = 64 * 1024
_MAX_FRAME = 1 << 20
"""Servers and clients stay far below what the protocol allows (16 MB)."""


class FrameType(IntEnum):
    """RFC 9113 section 6."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


_FLAGS = {0: 0x9, 1: 0x2D, 2: 0, 3: 0, 4: 0x1, 5: 0xC, 6: 0x1, 7: 0, 8: 0, 9: 0x4}
_SIZES = {2: 5, 3: 4, 6: 8, 8: 4}


class Receiver(Shape):
    """Who is told of the frames of a direction."""

    def on_frame(self, client: bool, at_ns: int, offset: int, type_: int, flags: int, stream: int, length: int) -> None:  # noqa: FBT001
        """A frame's head passed; `offset` is that of its first byte."""

    def on_data(self, client: bool, at_ns: int, offset: int, data: bytes | None, length: int) -> None:  # noqa: FBT001
        """Bytes of the current DATA frame passed; `data` None where they were not seen."""

    def on_payload(self, client: bool, at_ns: int, offset: int, payload: bytes | None) -> None:  # noqa: FBT001
        """The current frame ended before `offset`; None: its payload was not all seen, or is not looked at."""

    def on_lost(self, client: bool) -> None:  # noqa: FBT001
        """Frames were not seen; told again as long as more pass that cannot be told apart."""


def plausible(data: bytes) -> bool:
    """Tell whether bytes begin with a frame, as far as they go: every head in them is one that the RFC allows."""
    at = 0
    for _ in range(8):
        head = data[at : at + HEAD_BYTES]
        if len(head) < HEAD_BYTES:
            return at > 0
        if not _possible(head):
            return False
        at += HEAD_BYTES + int.from_bytes(head[:3], "big")
        if at > len(data):
            return head[3] in (FrameType.DATA, FrameType.HEADERS)
    return True


def sent_by_client(data: bytes) -> bool | None:
    """Tell from the first header block in whole frames who sends them; None where none tells.

    A request begins with :method and an answer with :status, which stand in HPACK's static table (RFC 7541 appendix A).
    """
    at = 0
    while at + HEAD_BYTES < len(data):
        length, type_, flags = int.from_bytes(data[at : at + 3], "big"), data[at + 3], data[at + 4]
        block = data[at + HEAD_BYTES : at + HEAD_BYTES + length]
        if type_ == FrameType.HEADERS:
            block = block[(flags >> 3 & 1) + (5 if flags & 0x20 else 0) :]
            first = next((byte for byte in block if byte >> 5 != 1), 0)  # sizes of the table may come before
            return True if first in _METHOD else False if first in _STATUS else None
        at += HEAD_BYTES + length
    return None


_METHOD = frozenset({0x82, 0x83, 0x42, 0x43, 0x02, 0x03})
_STATUS = frozenset({*range(0x88, 0x8F), *range(0x48, 0x4F), *range(0x08, 0x0F)})


def _possible(head: bytes) -> bool:
    length, type_, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
    stream = int.from_bytes(head[5:], "big")
    if type_ not in _FLAGS or flags & ~_FLAGS[type_] or stream >> 31 or length > _MAX_FRAME:
        return False
    if _SIZES.get(type_, length) != length or (type_ == FrameType.SETTINGS and length % 6):
        return False
    if type_ in (FrameType.SETTINGS, FrameType.PING, FrameType.GOAWAY):
        return stream == 0
    return type_ == FrameType.WINDOW_UPDATE or stream > 0


class FrameReader:
    """One direction of a connection."""

    def __init__(self, receiver: Receiver, *, client: bool, preface: bool) -> None:
        """`preface`: the connection's first bytes, which only a client sends, are still to come."""
        self._receiver, self._client = receiver, client
        self._skip = len(PREFACE) if preface else 0
        self._head = bytearray()
        self._type = 0
        self._left = 0
        self._in_frame = False
        self._payload: bytearray | None = None
        self.lost = False

    def lose(self) -> None:
        """Frames were not seen: look for the next one."""
        if self._in_frame:
            self._in_frame = False
            self._payload = None
        self._head.clear()
        self._left = self._skip = 0
        self.lost = True
        self._receiver.on_lost(self._client)

    def feed(self, at_ns: int, offset: int, data: bytes, *, new_piece: bool) -> None:
        """Take bytes that were seen; `new_piece`: they are the first ones of a piece."""
        if self.lost:
            if not (new_piece and plausible(data)):
                self._receiver.on_lost(self._client)
                return
            self.lost = False
        at = min(self._skip, len(data))
        self._skip -= at
        while at < len(data) and not self.lost:
            if not self._in_frame:
                at = self._take_head(at_ns, offset, data, at)
            else:
                part = min(self._left, len(data) - at)
                self._take(at_ns, offset + at, data[at : at + part], part)
                at += part

    def skip(self, at_ns: int, offset: int, length: int) -> None:
        """Take bytes that were not seen."""
        part = min(self._skip, length)
        self._skip -= part
        offset, length = offset + part, length - part
        if length and self._in_frame:
            part = min(self._left, length)
            self._payload = None if self._type != FrameType.DATA else self._payload
            self._take(at_ns, offset, None, part)
            length -= part
        if length:
            self.lose()

    def _take_head(self, at_ns: int, offset: int, data: bytes, at: int) -> int:
        want = HEAD_BYTES - len(self._head)
        begin = offset + at - len(self._head)
        self._head += data[at : at + want]
        at = min(at + want, len(data))
        if len(self._head) < HEAD_BYTES:
            return at
        head = bytes(self._head)
        self._head.clear()
        length, type_, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
        stream = int.from_bytes(head[5:], "big") & 0x7FFFFFFF
        if length > _MAX_FRAME or _SIZES.get(type_, length) != length:
            self.lose()
            return at
        self._in_frame, self._type, self._left = True, type_, length
        self._payload = bytearray() if type_ != FrameType.DATA and length <= _MAX_KEPT else None
        self._receiver.on_frame(self._client, at_ns, begin, type_, flags, stream, length)
        if not length:
            self._finish(at_ns, offset + at)
        return at

    def _take(self, at_ns: int, offset: int, data: bytes | None, length: int) -> None:
        self._left -= length
        if self._type == FrameType.DATA:
            self._receiver.on_data(self._client, at_ns, offset, data, length)
        elif self._payload is not None and data is not None:
            self._payload += data
        if not self._left:
            self._finish(at_ns, offset + length)

    def _finish(self, at_ns: int, offset: int) -> None:
        payload, self._payload, self._in_frame = self._payload, None, False
        self._receiver.on_payload(self._client, at_ns, offset, None if payload is None else bytes(payload))
