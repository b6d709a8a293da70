# SPDX-License-Identifier: Apache-2.0
"""Where messages of HTTP/1 begin and end in one direction, with bytes missing here and there.

Lengths are followed over bytes that were not seen. Where the framing itself is missing, it is found again only at the
start of a piece that can be nothing else; until then it is lost, and said to be.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Protocol as Shape

from netdiag.decode.http.head import Head, is_request_start, is_response_start, parse_head

__all__ = ["Framer", "Owner", "Rest"]

_MAX_HEAD = 64 * 1024
_MAX_LINE = 4 * 1024
_HEAD_END = re.compile(rb"\r?\n\r?\n")
# RFC 9112 section 7.1
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r?\Z")
_CHUNK_START = re.compile(rb"[0-9A-Fa-f]{1,8}[ \t]*(?:;[^\r\n]*)?\r\n")
_LAST_CHUNK = b"0\r\n\r\n"


class Rest(Enum):
    """How the body of a message is framed."""

    NONE = 0
    LENGTH = 1
    CHUNKED = 2
    CLOSE = 3
    """It goes on until the connection ends."""
    TUNNEL = 4
    """What follows is no HTTP/1 any more."""


class Owner(Shape):
    """Who is told what a direction holds."""

    def on_start(self, *, request: bool, at_ns: int, offset: int) -> None:
        """The first byte of a message passed."""

    def on_head(self, request: bool, head: Head, at_ns: int, offset: int) -> tuple[Rest, int]:  # noqa: FBT001
        """A head ended before `offset`; return how its body is framed, and its length."""

    def on_body(self, request: bool, at_ns: int, offset: int, data: bytes | None, length: int) -> None:  # noqa: FBT001
        """Bytes of a body passed; `data` None where they were not seen."""

    def on_end(self, request: bool, at_ns: int, offset: int) -> None:  # noqa: FBT001
        """The message ended before `offset`."""

    def on_lost(self, request: bool, at_ns: int, offset: int) -> None:  # noqa: FBT001
        """Framing was lost, or still is, in the bytes before `offset`."""

    def on_tunnel(self, request: bool, at_ns: int, offset: int, data: bytes | None, length: int) -> None:  # noqa: FBT001
        """Bytes passed that are no HTTP/1."""


class _State(Enum):
    HEAD = 0
    LENGTH = 1
    CHUNK_LINE = 2
    CHUNK_DATA = 3
    CHUNK_END = 4
    TRAILER = 5
    CLOSE = 6
    TUNNEL = 7
    LOST = 8
    LOST_CHUNKED = 9


class Framer:
    """One direction of a connection."""

    def __init__(self, owner: Owner, *, request: bool) -> None:
        self._owner, self._request = owner, request
        self._state = _State.HEAD
        self._kept = bytearray()
        self._left = 0
        self._begun = False
        self._is_start = is_request_start if request else is_response_start

    @property
    def lost(self) -> bool:
        """Whether it is not known where the current message ends."""
        return self._state in (_State.LOST, _State.LOST_CHUNKED)

    @property
    def idle(self) -> bool:
        """Whether it stands between two messages."""
        return self._state is _State.HEAD and not self._begun

    @property
    def until_close(self) -> bool:
        """Whether the current body goes on until the connection ends."""
        return self._state is _State.CLOSE

    def give_up(self) -> None:
        """Follow no message until one begins again."""
        if self._state is not _State.TUNNEL:
            self._lose()

    def reset(self) -> None:
        """Expect a new message."""
        self._state, self._begun = _State.HEAD, False
        self._kept.clear()

    def tunnel(self) -> None:
        """What follows is no HTTP/1 any more."""
        self._state = _State.TUNNEL

    def feed(self, at_ns: int, offset: int, data: bytes, *, new_piece: bool) -> None:
        """Take bytes that were seen; `new_piece`: they are the first ones of a piece."""
        if self.lost:
            data, offset = self._resynchronise(at_ns, offset, data, new_piece=new_piece)
        at, end = 0, len(data)
        while at < end:
            state = self._state
            if state is _State.HEAD:
                at = self._head(at_ns, offset, data, at)
            elif state is _State.LENGTH or state is _State.CHUNK_DATA:
                at = self._counted(at_ns, offset, data, at)
            elif state is _State.CLOSE:
                self._owner.on_body(self._request, at_ns, offset + at, data[at:] if at else data, end - at)
                return
            elif state is _State.TUNNEL:
                self._owner.on_tunnel(self._request, at_ns, offset + at, data[at:] if at else data, end - at)
                return
            elif self.lost:
                self._owner.on_lost(self._request, at_ns, offset + end)
                return
            else:
                at = self._line(at_ns, offset, data, at)

    def skip(self, at_ns: int, offset: int, length: int) -> None:
        """Take bytes that were not seen."""
        if self._state is _State.HEAD and self._begun:
            self._cut_head(at_ns, offset)
        while length and self._state in (_State.LENGTH, _State.CHUNK_DATA):
            part = min(length, self._left)
            self._owner.on_body(self._request, at_ns, offset, None, part)
            offset, length = offset + part, length - part
            self._left -= part
            if not self._left:
                self._counted_out(at_ns, offset)
        if not length:
            return
        if self._state in (_State.CLOSE, _State.TUNNEL):
            told = self._owner.on_body if self._state is _State.CLOSE else self._owner.on_tunnel
            told(self._request, at_ns, offset, None, length)
            return
        if self._state is _State.CHUNK_END and length == 2:
            self._state = _State.CHUNK_LINE
            return
        if not self.lost:
            self._lose()
        self._owner.on_lost(self._request, at_ns, offset + length)

    def _lose(self) -> None:
        in_chunks = self._state in (_State.CHUNK_LINE, _State.CHUNK_END, _State.TRAILER, _State.CHUNK_DATA)
        self._state = _State.LOST_CHUNKED if in_chunks or self._state is _State.LOST_CHUNKED else _State.LOST
        self._kept.clear()

    def _resynchronise(self, at_ns: int, offset: int, data: bytes, *, new_piece: bool) -> tuple[bytes, int]:
        """Find the framing again; return what is left to look at, and its offset."""
        if new_piece and self._is_start(data):
            self.reset()
            self._owner.on_lost(self._request, at_ns, offset)
        elif self._state is _State.LOST_CHUNKED and new_piece and _CHUNK_START.match(data):
            self._state = _State.CHUNK_LINE
        elif self._state is _State.LOST_CHUNKED and _ends_chunks(data):
            self._owner.on_lost(self._request, at_ns, offset + len(data))
            self.reset()
            self._owner.on_end(self._request, at_ns, offset + len(data))
            return b"", offset
        return data, offset

    def _head(self, at_ns: int, offset: int, data: bytes, at: int) -> int:
        kept = self._kept
        if not self._begun:
            while at < len(data) and data[at] in b"\r\n":  # RFC 9112 section 2.2
                at += 1
            if at == len(data):
                return at
            self._begun = True
            self._owner.on_start(request=self._request, at_ns=at_ns, offset=offset + at)
        seam = len(kept)
        kept += data[at : at + _MAX_HEAD]
        found = _HEAD_END.search(kept, max(seam - 3, 0))
        if found is None:
            if len(kept) >= _MAX_HEAD or not self._looks_right():
                self._lose()
                self._owner.on_lost(self._request, at_ns, offset + len(data))
                return len(data)
            return min(at + _MAX_HEAD, len(data))
        at += found.end() - seam
        head = parse_head(bytes(kept[: found.end()]))
        kept.clear()
        if head is None or head.is_request != self._request:
            self._lose()
            self._owner.on_lost(self._request, at_ns, offset + at)
            return at
        self._enter(at_ns, offset + at, head)
        return at

    def _looks_right(self) -> bool:
        """Tell whether what came so far can be a head: its first bytes are those of one."""
        start = bytes(self._kept[:16])
        if self._request:
            return bool(re.match(rb"[A-Z][A-Z-]{0,15}(?: |\Z)", start))
        return b"HTTP/1.".startswith(start[:7])

    def _cut_head(self, at_ns: int, offset: int) -> None:
        """Take what there is of a head whose rest was not seen; where its body ends is not known."""
        head = parse_head(bytes(self._kept))
        self._kept.clear()
        if head is not None and head.is_request == self._request:
            self._owner.on_head(self._request, head, at_ns, offset)
        self._state = _State.LOST

    def _enter(self, at_ns: int, offset: int, head: Head) -> None:
        rest, length = self._owner.on_head(self._request, head, at_ns, offset)
        self._left = length
        if rest is Rest.NONE or (rest is Rest.LENGTH and not length):
            self._finish(at_ns, offset)
        elif rest is Rest.LENGTH:
            self._state = _State.LENGTH
        elif rest is Rest.CHUNKED:
            self._state = _State.CHUNK_LINE
        else:
            self._state = _State.CLOSE if rest is Rest.CLOSE else _State.TUNNEL

    def _finish(self, at_ns: int, offset: int) -> None:
        self.reset()
        self._owner.on_end(self._request, at_ns, offset)

    def _counted(self, at_ns: int, offset: int, data: bytes, at: int) -> int:
        part = min(self._left, len(data) - at)
        taken = data if part == len(data) else data[at : at + part]
        self._owner.on_body(self._request, at_ns, offset + at, taken, part)
        self._left -= part
        if not self._left:
            self._counted_out(at_ns, offset + at + part)
        return at + part

    def _counted_out(self, at_ns: int, offset: int) -> None:
        if self._state is _State.CHUNK_DATA:
            self._state = _State.CHUNK_END
        else:
            self._finish(at_ns, offset)

    def _line(self, at_ns: int, offset: int, data: bytes, at: int) -> int:
        """Take a line of the chunked framing: a size, the end of a chunk, a trailer."""
        stop = data.find(b"\n", at, at + _MAX_LINE)
        if stop < 0:
            self._kept += data[at : at + _MAX_LINE]
            if len(self._kept) > _MAX_LINE:
                self._lose()
            return min(at + _MAX_LINE, len(data))
        line = bytes(self._kept) + data[at:stop]
        self._kept.clear()
        at = stop + 1
        if self._state is _State.CHUNK_END:
            if line.strip():
                self._lose()
            else:
                self._state = _State.CHUNK_LINE
        elif self._state is _State.CHUNK_LINE:
            self._size(line)
        elif not line.strip():
            self._finish(at_ns, offset + at)
        return at

    def _size(self, line: bytes) -> None:
        found = _CHUNK_LINE.match(line)
        if found is None:
            self._lose()
        elif size := int(found[1], 16):
            self._state, self._left = _State.CHUNK_DATA, size
        else:
            self._state = _State.TRAILER


def _ends_chunks(data: bytes) -> bool:
    """Tell whether bytes end with the last chunk, and behind another one."""
    return data.endswith(_LAST_CHUNK) and (len(data) == len(_LAST_CHUNK) or data[-7:-5] == b"\r\n")
