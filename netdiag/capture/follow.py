# SPDX-License-Identifier: Apache-2.0
"""One connection's bytes: what it speaks, its TLS records, its hellos, and who else reads it.

What is spoken shows in the first bytes of a packet: a request line, the preface of HTTP/2, a TLS record. A CONNECT or a
STARTTLS comes before a handshake, so the first packets of both sides are looked at until something is certain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from netdiag.capture.flows import Flow
from netdiag.capture.sequence import Piece
from netdiag.capture.sink import Chunk, Handler, Stream, StreamSink
from netdiag.capture.walker import Record, Walker, is_header
from netdiag.tables.codes import RecordType, WireClass

__all__ = ["Talk"]

_PEEK = 7
_MAX_UNKNOWN = 32
"""Packets that are looked at for a sign of what is spoken."""
_METHODS = (b"GET ", b"POST", b"PUT ", b"HEAD", b"PATC", b"DELE", b"OPTI")
_HANDSHAKE, _CLIENT_HELLO, _SERVER_HELLO = 22, 1, 2
_SETTLED = (WireClass.HTTP1, WireClass.HTTP2)

Side = tuple[bool, Piece]
"""Whether the client sent it, and the piece."""


def classify(data: bytes, place: int) -> WireClass:
    """Return what the four bytes here begin, as the kernel program does."""
    start = data[place : place + 4]
    if start == b"CONN":
        return WireClass.CONNECT
    if start == b"PRI ":
        return WireClass.HTTP2
    return WireClass.HTTP1 if start in _METHODS else WireClass.OTHER


def who_asks(data: bytes, place: int, held: int) -> bool | None:
    """Tell whether the sender of these bytes is a client, a server (False), or that they do not show it."""
    if held < _PEEK:
        return None
    if is_header(data, place) and data[place] == _HANDSHAKE:
        return {_CLIENT_HELLO: True, _SERVER_HELLO: False}.get(data[place + 5])
    if data[place : place + 5] == b"HTTP/":
        return False
    return True if classify(data, place) != WireClass.OTHER else None


def _is_old_hello(data: bytes, place: int) -> bool:
    """Tell whether a ClientHello in the form of SSL 2 stands here, as old clients have it: RFC 5246 appendix E.2."""
    return bool(data[place] & 0x80) and data[place + 2 : place + 4] == b"\x01\x03" and data[place + 4] <= 4


class Talk:
    """What one connection says."""

    def __init__(
        self, flow: Flow, sinks: Iterable[StreamSink], said: Callable[[Flow, bool, bytes, int, bool], None]
    ) -> None:
        """`said` is called with the handshake records in the clear of a side."""
        self._flow, self._sinks, self._said = flow, tuple(sinks), said
        self._class = 0
        self._walkers: tuple[Walker, Walker] | None = None
        self._settled = False
        self._packets = 0
        self._ends = [0, 0]
        self._until = [0, 0]
        """Up to where each side's bytes were handed in."""
        self._handlers: list[Handler] = []
        self._old = not flow.syns and not flow.answers
        self.records: list[tuple[bool, Record]] = []
        """Sent by the client, and the record; emptied by whoever takes them."""

    @property
    def skips(self) -> bool:
        """Records are all that is looked for."""
        return self._settled and not self._handlers and self._walkers is not None

    @property
    def idle(self) -> bool:
        """Nobody needs to see more of it."""
        return self._settled and self._walkers is None and not self._handlers

    def feed(self, ours: Sequence[Piece], theirs: Sequence[Piece]) -> None:
        """Take new pieces of the client's and the server's direction."""
        for place, pieces in enumerate((ours, theirs)):
            if pieces:
                self._until[place] = pieces[-1][0] + pieces[-1][1]
        if self._settled and not self._handlers:
            self._walk(ours, theirs)
            return
        merged = _in_order_of_time(ours, theirs)
        begin = 0
        if not self._settled:
            for index, side in enumerate(merged):
                if self._settled:
                    break
                before = self._class, self._walkers
                self._look(*side)
                if (self._class, self._walkers) != before:
                    self._hand_on(merged[begin:index])
                    begin = index
                    self._begin_handlers(*side)
                send, piece = side
                self._ends[not send] = max(self._ends[not send], piece[0] + piece[1])
        if self._settled and self._walkers is not None and begin < len(merged):
            rest = merged[begin:]
            self._walk([piece for send, piece in rest if send], [piece for send, piece in rest if not send])
        self._hand_on(merged[begin:])

    def skip(self, send: bool, start: int, end: int) -> bool:  # noqa: FBT001
        """Pass packets of one side that hold a whole record of data each; False where they are to be looked at."""
        if not self.skips or self._walkers is None:
            return False
        walker = self._walkers[not send]
        if not walker.skip(start, end):
            return False
        self._until[not send] = end
        self._tell(send, walker)
        return True

    def end(self, at_ns: int, passed: tuple[int, int]) -> None:
        """Nothing more comes; `passed`: bytes from the client and the server in all, -1 = the file holds no packet."""
        for send, until, reach in zip((True, False), self._until, passed, strict=True):
            if until < reach or reach < 0:
                self._miss(send, at_ns, until, max(reach - until, 1))
        # a FIN of the client alone, or one before a reset by the server, says nothing of the answer's end
        clean = None if not self._flow.closing_ns else self._flow.fins[1 - max(self._flow.client, 0)] > 0
        for handler in self._handlers:
            handler.end(at_ns, clean=clean)
        self._handlers = []
        if self._walkers is not None:
            for send, walker in zip((True, False), self._walkers, strict=True):
                self._tell(send, walker)
                self._collect(send, walker)

    def _miss(self, send: bool, at_ns: int, until: int, length: int) -> None:  # noqa: FBT001
        """Tell that bytes passed behind the last ones that the file holds."""
        if self._walkers is not None:
            self.records.append((send, (at_ns, RecordType.GAP, 0, 0, 0, 0, 0)))
        self._hand_on([(send, (until, length, 0, at_ns, b"", 0))])

    def _walk(self, ours: Sequence[Piece], theirs: Sequence[Piece]) -> None:
        if self._walkers is None:
            return
        for send, walker, pieces in ((True, self._walkers[0], ours), (False, self._walkers[1], theirs)):
            walker.feed(pieces)
            if walker.told:
                self._tell(send, walker)
            self._collect(send, walker)

    def _tell(self, send: bool, walker: Walker) -> None:  # noqa: FBT001 - a side, as everywhere here
        walker.told = False
        if (hello := walker.hello()) is not None:
            self._said(self._flow, send, *hello)

    def _collect(self, send: bool, walker: Walker) -> None:  # noqa: FBT001
        if walker.records:
            self.records += [(send, record) for record in walker.records]
            walker.records = []

    def _look(self, send: bool, piece: Piece) -> None:  # noqa: FBT001
        """Look at the first bytes of a packet for what is spoken."""
        offset, _, held, at, data, place = piece
        if held < _PEEK:
            return
        if is_header(data, place) and (data[place] == _HANDSHAKE or self._old):
            self._say(send, WireClass.TLS, at)
            self._settled = True
            sure = not self._old or data[place] == _HANDSHAKE
            mine, other = Walker(offset, sure=sure), Walker(self._ends[send], sure=sure)
            self._walkers = (mine, other) if send else (other, mine)
            return
        if send and not self._packets and _is_old_hello(data, place):
            size = (data[place] & 0x7F) << 8 | data[place + 1]
            self._say(send, WireClass.TLS, at)
            self.records.append((send, (at, RecordType.HANDSHAKE, size, _CLIENT_HELLO, 0, data[place + 4], 0)))
            self._settled = True
            self._walkers = (Walker(offset + 2 + size, sure=True), Walker(self._ends[1], sure=True))
            return
        found = classify(data, place)
        if send or found != WireClass.OTHER or self._packets:
            self._say(send, found, at)
        self._packets += 1
        self._settled = self._packets >= _MAX_UNKNOWN or found in _SETTLED

    def _say(self, send: bool, found: WireClass, at: int) -> None:  # noqa: FBT001
        if self._class == found or (self._class in (WireClass.CONNECT, *_SETTLED) and found == WireClass.OTHER):
            return
        self._class = found
        self.records.append((send, (at, RecordType.CLASS, 0, int(found), 0, 0, 0)))

    def _begin_handlers(self, send: bool, piece: Piece) -> None:  # noqa: FBT001
        """Ask who reads what is spoken from this piece on; those who read what was before are done."""
        for handler in self._handlers:
            handler.end(piece[3])
        own, other = piece[0], self._ends[send]
        client, server = self._flow.ends if self._flow.client == 0 else self._flow.ends[::-1]
        stream = Stream(
            cookie=self._flow.number + 1,
            speaks=self._class,
            client=client,
            server=server,
            offsets=(own, other) if send else (other, own),
            whole=not self._old,
            began_ns=piece[3],
        )
        found = (sink.begin(stream) for sink in self._sinks)
        self._handlers = [handler for handler in found if handler is not None]

    def _hand_on(self, sides: Sequence[Side]) -> None:
        if not self._handlers or not sides:
            return
        chunks = [
            Chunk(at_ns=at, send=send, offset=offset, length=length, data=memoryview(data)[place : place + held])
            for send, (offset, length, held, at, data, place) in sides
        ]
        for handler in self._handlers:
            handler.feed(chunks)


def _in_order_of_time(ours: Sequence[Piece], theirs: Sequence[Piece]) -> list[Side]:
    """Merge both directions; in each the order stays, for bytes are there when those before them are."""
    found: list[Side] = []
    for send, pieces in ((True, ours), (False, theirs)):
        latest = 0
        for offset, length, held, at, data, place in pieces:
            latest = max(latest, at)
            found.append((send, (offset, length, held, latest, data, place)))
    return sorted(found, key=lambda side: side[1][3])
