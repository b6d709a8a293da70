# SPDX-License-Identifier: Apache-2.0
"""Bodies as they pass: looked at for a few facts, never kept. What is held is bounded, and gone when the body is."""

from __future__ import annotations

from collections.abc import Iterable

from netdiag.decode.http.events import Event, Events
from netdiag.decode.http.exchange import Chunk, ChunkKind, Exchange, Flag, Format, StreamKind
from netdiag.decode.http.llm import AnswerFacts, kind_of, read_answer, read_request

__all__ = ["AnswerBody", "RequestBody"]

_HEAD, _TAIL = 8 * 1024, 2 * 1024
_MOST_COUNTED = 0xFFFF


class _Ends:
    """The first and the last bytes of what passes."""

    __slots__ = ("_head", "_tail", "_whole")

    def __init__(self) -> None:
        self._head, self._tail, self._whole = bytearray(), bytearray(), True

    def take(self, data: bytes) -> None:
        if self._whole and len(self._head) < _HEAD:
            room = _HEAD - len(self._head)
            self._head += data[:room]
            data = data[room:]
        if data:
            self._whole = False
            self._tail += data[-_TAIL:]
            if len(self._tail) > 2 * _TAIL:
                del self._tail[:-_TAIL]

    def gap(self) -> None:
        self._whole = False
        self._tail.clear()

    def ends(self) -> tuple[bytes, bytes]:
        return bytes(self._head), bytes(self._tail[-_TAIL:])


class RequestBody:
    """The body of a request: which model, a stream or not, which format."""

    __slots__ = ("_ends", "_exchange")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        coded = exchange.request_headers.get("content-encoding", "identity").lower() != "identity"
        kind = exchange.request_headers.get("content-type", "application/json").lower()
        self._ends = _Ends() if "json" in kind and not coded else None

    def take(self, data: bytes) -> None:
        """Look at bytes that passed."""
        if self._ends is not None:
            self._ends.take(data)

    def gap(self) -> None:
        """Bytes passed that were not seen."""
        self._exchange.flags |= Flag.GAPS
        if self._ends is not None:
            self._ends.gap()

    def end(self) -> None:
        """The body ended, or an answer came before it did: write its facts into the exchange."""
        if self._ends is None:
            return
        facts = read_request(*self._ends.ends())
        self._ends = None
        exchange = self._exchange
        exchange.model = facts.model or exchange.model
        exchange.format = facts.format if facts.format is not Format.UNKNOWN else exchange.format
        if facts.stream is not None:
            exchange.flags |= Flag.STREAM_ASKED if facts.stream else Flag.STREAM_NOT_ASKED


class AnswerBody:
    """The body of an answer: its events where it is streamed, else what its JSON says at its ends."""

    __slots__ = ("_chunk", "_ends", "_events", "_exchange", "_facts", "_new_piece", "_wanted")

    def __init__(self, exchange: Exchange, *, chunked: bool) -> None:
        """`chunked`: it comes as it is made, with no length told ahead."""
        self._exchange = exchange
        self._facts = AnswerFacts(model=None)
        self._events: Events | None = None
        self._ends: _Ends | None = None
        self._chunk: Chunk | None = None
        self._new_piece = False
        kind = exchange.headers.get("content-type", "").partition(";")[0].strip().lower()
        coding = exchange.headers.get("content-encoding", "identity").lower()
        coded = coding != "identity"
        if coded:
            exchange.flags |= Flag.CODED
        exchange.stream_kind = _stream_kind(kind, asked=bool(exchange.flags & Flag.STREAM_ASKED), chunked=chunked)
        self._wanted = exchange.stream_kind is not StreamKind.NONE
        if coded:
            return
        if exchange.stream_kind is StreamKind.SSE:
            self._events = Events()
        elif exchange.stream_kind is StreamKind.NDJSON or (self._wanted and "json" in kind):
            self._events = Events(by_line=True)
        elif "json" in kind:
            self._ends = _Ends()

    def begin_piece(self) -> None:
        """Say that a new piece begins: a write of the server may begin with it."""
        self._new_piece = True

    def take(self, at_ns: int, offset: int, data: bytes) -> None:
        """Look at bytes that passed; `offset` is that of the first one."""
        self._count(at_ns, offset, len(data))
        if self._events is not None:
            self._tell(self._events.feed(data, new_piece=self._new_piece), offset)
        elif self._ends is not None:
            self._ends.take(data)
        self._new_piece = False

    def gap(self, at_ns: int, offset: int, length: int) -> None:
        """Bytes passed that were not seen."""
        self._exchange.flags |= Flag.GAPS
        self._count(at_ns, offset, length)
        if self._events is not None:
            self._tell(self._events.gap(), offset + length)
        elif self._ends is not None:
            self._ends.gap()
        self._new_piece = False

    def flush(self) -> Chunk | None:
        """Return what the current piece brought, and begin a new chunk."""
        chunk, self._chunk = self._chunk, None
        return chunk

    def end(self, *, whole: bool) -> None:
        """The body ended: write its facts into the exchange. `whole`: its framing says that it is all there."""
        exchange, facts = self._exchange, self._facts
        if self._events is not None:
            self._tell(self._events.end(), exchange.response_end)
        if self._ends is not None:
            read_answer(*self._ends.ends(), facts)
        exchange.model = exchange.model or facts.model
        exchange.usage = facts.usage
        if facts.finished or (whole and self._wanted and not facts.spoke):
            exchange.flags |= Flag.FINISHED
        self._events = self._ends = None

    def _count(self, at_ns: int, offset: int, length: int) -> None:
        if not self._wanted or not length:
            return
        chunk = self._chunk
        if chunk is None:
            kind = ChunkKind.OTHER
            self._chunk = Chunk(
                exchange=self._exchange.number, at_ns=at_ns, offset=offset, length=length, kind=kind, events=0
            )
        else:
            chunk.length += length

    def _tell(self, events: Iterable[Event], offset: int) -> None:
        for event in events:
            kind = kind_of(event, self._facts)
            chunk = self._chunk
            if chunk is None:
                continue
            chunk.kind = kind if not chunk.events else max(chunk.kind, kind)
            chunk.events = min(chunk.events + 1, _MOST_COUNTED)
            if kind in (ChunkKind.CONTENT, ChunkKind.REASONING):
                chunk.tokens = min(chunk.tokens + 1, _MOST_COUNTED)
                if kind is ChunkKind.CONTENT and not chunk.token_offset:
                    chunk.token_offset = offset + event.end


def _stream_kind(kind: str, *, asked: bool, chunked: bool) -> StreamKind:
    if kind == "text/event-stream":
        return StreamKind.SSE
    if kind in _LINES:
        return StreamKind.NDJSON
    return StreamKind.CHUNKED if asked and chunked else StreamKind.NONE


_LINES = {
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/stream+json",
    "application/x-jsonlines",
    "application/json-lines",
}
