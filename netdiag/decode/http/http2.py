# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 on one connection: streams side by side, each an exchange (RFC 9113)."""

from __future__ import annotations

from dataclasses import dataclass, field

from netdiag.decode.http.body import AnswerBody, RequestBody
from netdiag.decode.http.exchange import Chunk, Ended, Exchange, Flag, Link, Protocol
from netdiag.decode.http.frames import HEAD_BYTES, FrameReader, FrameType
from netdiag.decode.http.hpack_table import MAX_BLOCK, Fields, HeaderDecoder
from netdiag.decode.http.kept import keep, settle
from netdiag.decode.http.masking import clean_host, clean_method, clean_path, model_in_path
from netdiag.decode.http.windows import Windows

__all__ = ["Http2"]

_END_STREAM, _END_HEADERS, _PADDED, _PRIORITY, _ACK = 0x1, 0x4, 0x8, 0x20, 0x1
_MAX_CONCURRENT, _INITIAL_WINDOW = 3, 4
_REFUSED_STREAM = 7
_MOST_STREAMS = 1024


@dataclass(slots=True)
class _Stream:
    exchange: Exchange
    request: RequestBody | None = None
    answer: AnswerBody | None = None
    asked: bool = False
    """The request ended."""
    doubtful: bool = False
    """Frames were not seen, and its end may have been among them."""


@dataclass(slots=True)
class _Direction:
    """What is under way in one direction."""

    reader: FrameReader
    headers: HeaderDecoder
    windows: Windows
    """Of what this direction sends."""
    type: int = 0
    flags: int = 0
    stream: int = 0
    begin: int = 0
    length: int = 0
    pad: int = 0
    seen: int = 0
    """Bytes of the current DATA frame so far."""
    block: bytearray = field(default_factory=bytearray)
    block_stream: int = 0
    block_flags: int = 0
    block_whole: bool = True
    block_ends: bool = False


class Http2:
    """Follows both directions; what is finished is put into `told`."""

    def __init__(self, told: list[Exchange | Chunk], *, joined: bool) -> None:
        """`joined`: the connection's beginning was not seen."""
        self._told = told
        self._sides = {client: self._side(client=client, joined=joined) for client in (True, False)}
        self._streams: dict[int, _Stream] = {}
        self._next = 1
        self._highest = 0
        self._touched: set[int] = set()
        self.link = Link()
        self.not_followed: str | None = "joined in the middle: some header fields are not known" if joined else None

    def _side(self, *, client: bool, joined: bool) -> _Direction:
        reader = FrameReader(self, client=client, preface=client and not joined)
        if joined:
            reader.lost = True
        return _Direction(reader=reader, headers=HeaderDecoder(), windows=Windows(known=not joined))

    @property
    def lost(self) -> bool:
        """Whether it is not known, in some direction, where frames begin."""
        return any(side.reader.lost for side in self._sides.values())

    def feed(self, client: bool, at_ns: int, offset: int, data: bytes, *, new_piece: bool) -> None:  # noqa: FBT001
        """Take bytes of one direction that were seen."""
        self._sides[client].reader.feed(at_ns, offset, data, new_piece=new_piece)

    def skip(self, client: bool, at_ns: int, offset: int, length: int) -> None:  # noqa: FBT001
        """Take bytes of one direction that were not seen."""
        self._sides[client].reader.skip(at_ns, offset, length)

    def flush(self) -> None:
        """Tell the chunks of the piece that was fed."""
        for number in self._touched:
            stream = self._streams.get(number)
            if stream is not None and stream.answer is not None and (chunk := stream.answer.flush()) is not None:
                self._told.append(chunk)
        self._touched.clear()

    def end(self, *, clean: bool | None) -> None:
        """Tell what was going on."""
        for stream in list(self._streams.values()):
            known = Ended.OPEN if clean is None else Ended.CUT
            self._finish(stream, Ended.NOT_FOLLOWED if stream.doubtful else known)

    # --- what the readers tell ----------------------------------------------------------------------------------------

    def on_frame(self, client: bool, at_ns: int, offset: int, type_: int, flags: int, stream: int, length: int) -> None:  # noqa: FBT001
        """A frame began."""
        side = self._sides[client]
        side.type, side.flags, side.stream, side.begin, side.length = type_, flags, stream, offset, length
        side.seen = side.pad = 0
        if type_ == FrameType.HEADERS:
            self._begin_block(side, client=client, at_ns=at_ns)
        elif type_ == FrameType.DATA:
            side.windows.use(stream, length, at_ns)
        if type_ in (FrameType.HEADERS, FrameType.DATA, FrameType.CONTINUATION):
            self._extend(client, at_ns, stream, offset + HEAD_BYTES)

    def on_data(self, client: bool, at_ns: int, offset: int, data: bytes | None, length: int) -> None:  # noqa: FBT001
        """Bytes of a DATA frame passed."""
        side = self._sides[client]
        first, side.seen = side.seen == 0, side.seen + length
        self._extend(client, at_ns, side.stream, offset + length)
        if side.flags & _PADDED:
            if first:
                side.pad = data[0] if data else 0
                offset, length, data = offset + 1, length - 1, data[1:] if data is not None else None
            over = max(side.seen - max(side.length - side.pad, 0), 0)
            if over:
                length = max(length - over, 0)
                data = data[:length] if data is not None else None
        stream = self._streams.get(side.stream)
        if stream is None or length <= 0:
            return
        if client:
            self._request_data(stream, data)
        else:
            self._answer_data(stream, at_ns, offset, data, length, first=first)

    def on_payload(self, client: bool, at_ns: int, offset: int, payload: bytes | None) -> None:  # noqa: FBT001
        """A frame ended."""
        side = self._sides[client]
        if side.type in (FrameType.HEADERS, FrameType.CONTINUATION, FrameType.PUSH_PROMISE):
            if side.type != FrameType.PUSH_PROMISE:
                self._extend(client, at_ns, side.stream, offset)
            self._add_to_block(side, payload)
            if side.flags & _END_HEADERS:
                self._end_block(side, client=client, at_ns=at_ns, offset=offset)
        elif side.type == FrameType.DATA:
            if side.flags & _END_STREAM:
                self._half_closed(side.stream, client=client)
        elif payload is not None:
            self._control(side, payload, client=client, at_ns=at_ns)

    def on_lost(self, client: bool) -> None:  # noqa: FBT001
        """Frames were not seen: header blocks may have been among them, and ends of streams."""
        self.not_followed = "frames of HTTP/2 were not seen"
        for side in self._sides.values():
            side.windows.known = False
        self._sides[client].headers.forget()
        self._sides[client].block.clear()
        for stream in self._streams.values():
            stream.exchange.flags |= Flag.GAPS
            stream.doubtful = True
            if not client:
                stream.exchange.flags |= Flag.RESPONSE_PART
            elif not stream.asked:
                stream.exchange.flags |= Flag.REQUEST_PART
            if not client and stream.answer is not None:
                stream.answer.gap(stream.exchange.ended_ns, stream.exchange.response_end, 0)

    # --- header blocks ------------------------------------------------------------------------------------------------

    def _begin_block(self, side: _Direction, *, client: bool, at_ns: int) -> None:
        side.block.clear()
        side.block_stream, side.block_flags, side.block_whole = side.stream, side.flags, True
        if client and side.stream > self._highest and side.stream % 2:
            self._highest = side.stream
            self._open(side.stream, at_ns, side.begin)
        elif not client and (stream := self._streams.get(side.stream)) and not stream.exchange.response_first:
            # an interim answer gives its place back when it is known to be one
            stream.exchange.first_byte_ns, stream.exchange.response_first = at_ns, side.begin

    def _open(self, number: int, at_ns: int, offset: int) -> None:
        if len(self._streams) >= _MOST_STREAMS:
            self.not_followed = "more streams at once than are followed"
            oldest = next(iter(self._streams))
            self._finish(self._streams[oldest], Ended.NOT_FOLLOWED)
        exchange = Exchange(
            number=self._next, protocol=Protocol.HTTP2, stream=number, began_ns=at_ns, request_first=offset
        )
        exchange.request_end = offset
        self._next += 1
        self._streams[number] = _Stream(exchange)
        exchange.concurrent = len(self._streams)
        self.link.most_streams = max(self.link.most_streams, len(self._streams))
        for side in self._sides.values():
            side.windows.open(number)

    def _add_to_block(self, side: _Direction, payload: bytes | None) -> None:
        if payload is None or len(side.block) > MAX_BLOCK:
            side.block_whole = False
            return
        if side.type == FrameType.CONTINUATION:
            side.block += payload
            return
        pad = 0
        if side.flags & _PADDED:
            pad, payload = (payload[0] if payload else 0), payload[1:]
        if side.type == FrameType.PUSH_PROMISE:
            side.block.clear()
            side.block_stream, side.block_whole = 0, True
            payload = payload[4:]
        elif side.flags & _PRIORITY:
            payload = payload[5:]
        side.block += payload[: len(payload) - pad] if pad <= len(payload) else b""

    def _end_block(self, side: _Direction, *, client: bool, at_ns: int, offset: int) -> None:
        fields: Fields = []
        whole = side.block_whole
        if whole:
            fields, whole = side.headers.decode(bytes(side.block))
        else:
            side.headers.forget()
        side.block.clear()
        stream = self._streams.get(side.block_stream)
        if stream is not None:
            if not whole:
                stream.exchange.flags |= Flag.HEADERS_UNKNOWN
                self.not_followed = self.not_followed or "header blocks were not seen"
            if client:
                self._request_fields(stream, fields)
            else:
                self._answer_fields(stream, fields, offset)
            if side.block_flags & _END_STREAM:
                self._half_closed(side.block_stream, client=client)
        side.block_stream = 0
        _ = at_ns

    def _request_fields(self, stream: _Stream, fields: Fields) -> None:
        if stream.request is not None:
            return  # trailers
        exchange = stream.exchange
        for name, value in fields:
            if name == b":method":
                exchange.method = clean_method(value)
            elif name == b":path":
                exchange.path, exchange.model = clean_path(value), model_in_path(value)
            elif name in (b":authority", b"host"):
                exchange.host = exchange.host or clean_host(value)
            elif name == b"expect":
                exchange.flags |= Flag.EXPECT
            else:
                keep(exchange.request_headers, name, value)
        stream.request = RequestBody(exchange)

    def _answer_fields(self, stream: _Stream, fields: Fields, offset: int) -> None:
        exchange = stream.exchange
        if stream.answer is not None:
            return  # trailers
        status = next((value for name, value in fields if name == b":status"), b"")
        exchange.status = int(status) if len(status) == 3 and status.isdigit() else 0
        if not exchange.status and exchange.flags & Flag.RESPONSE_PART:
            exchange.first_byte_ns = exchange.response_first = 0  # trailers: the answer's head was not seen
            return
        if 100 <= exchange.status < 200:
            exchange.flags |= Flag.CONTINUED
            exchange.status = exchange.first_byte_ns = exchange.response_first = exchange.response_bytes = 0
            return
        for name, value in fields:
            keep(exchange.headers, name, value)
        settle(exchange.headers, fields)
        exchange.response_body = offset
        if stream.request is not None:
            stream.request.end()
        length = any(name == b"content-length" for name, _ in fields)
        stream.answer = AnswerBody(exchange, chunked=not length)

    # --- data ---------------------------------------------------------------------------------------------------------

    def _extend(self, client: bool, at_ns: int, number: int, offset: int) -> None:  # noqa: FBT001
        """A frame of a stream reaches up to `offset`, for now."""
        stream = self._streams.get(number)
        if stream is None:
            return
        exchange, side = stream.exchange, self._sides[client]
        new = offset - max(side.begin, exchange.request_end if client else exchange.response_end)
        if client:
            exchange.request_end = offset
            exchange.request_bytes += max(new, 0)
            exchange.sent_ns = at_ns
        else:
            exchange.response_end = offset
            exchange.response_bytes += max(new, 0)
            exchange.ended_ns = at_ns

    def _request_data(self, stream: _Stream, data: bytes | None) -> None:
        if stream.request is None:
            return
        if data is None:
            stream.request.gap()
        else:
            stream.request.take(data)

    def _answer_data(
        self, stream: _Stream, at_ns: int, offset: int, data: bytes | None, length: int, *, first: bool
    ) -> None:
        if stream.answer is None:
            return
        self._touched.add(stream.exchange.stream)
        if first:
            stream.answer.begin_piece()
        if data is None:
            stream.answer.gap(at_ns, offset, length)
        else:
            stream.answer.take(at_ns, offset, data)

    def _half_closed(self, number: int, *, client: bool) -> None:
        stream = self._streams.get(number)
        if stream is None:
            return
        if client:
            stream.asked = True
            if stream.request is not None:
                stream.request.end()
        else:
            self._finish(stream, Ended.COMPLETE)

    def _finish(self, stream: _Stream, ended: Ended) -> None:
        exchange = stream.exchange
        if ended is Ended.COMPLETE and exchange.flags & Flag.RESPONSE_PART:
            ended = Ended.NOT_FOLLOWED
        if stream.request is not None:
            stream.request.end()
        if stream.answer is not None:
            stream.answer.end(whole=ended is Ended.COMPLETE)
            if (chunk := stream.answer.flush()) is not None:
                self._told.append(chunk)
        exchange.ended = ended
        self._streams.pop(exchange.stream, None)
        for side in self._sides.values():
            side.windows.close(exchange.stream)
        self._told.append(exchange)

    # --- control ------------------------------------------------------------------------------------------------------

    def _control(self, side: _Direction, payload: bytes, *, client: bool, at_ns: int) -> None:
        if side.type == FrameType.RST_STREAM:
            self._reset(side.stream, int.from_bytes(payload[:4], "big"), client=client, at_ns=at_ns)
        elif side.type == FrameType.SETTINGS and not side.flags & _ACK:
            self._settings(payload, client=client)
        elif side.type == FrameType.WINDOW_UPDATE:
            increment = int.from_bytes(payload[:4], "big") & 0x7FFFFFFF
            self._window(side.stream, increment, client=client, at_ns=at_ns)
        elif side.type == FrameType.GOAWAY and not client and len(payload) >= 8:
            self._goaway(payload, at_ns)

    def _reset(self, number: int, code: int, *, client: bool, at_ns: int) -> None:
        stream = self._streams.get(number)
        if stream is None:
            return
        refused = code == _REFUSED_STREAM and not client
        exchange = stream.exchange
        exchange.ended_ns = exchange.ended_ns or at_ns
        self._finish(stream, Ended.CLIENT_RESET if client else Ended.REFUSED if refused else Ended.SERVER_RESET)

    def _settings(self, payload: bytes, *, client: bool) -> None:
        for at in range(0, len(payload) - 5, 6):
            name, value = int.from_bytes(payload[at : at + 2], "big"), int.from_bytes(payload[at + 2 : at + 6], "big")
            if name == _MAX_CONCURRENT and not client:
                self.link.max_streams = value
            elif name == _INITIAL_WINDOW and value < 1 << 31:
                self._sides[not client].windows.set_initial(value)  # it limits what the other one sends
                if client:
                    self.link.initial_window = value

    def _window(self, number: int, increment: int, *, client: bool, at_ns: int) -> None:
        blocked = self._sides[not client].windows.update(number, increment, at_ns)
        if not blocked:
            return
        for stream in self._streams.values():
            held = number in (0, stream.exchange.stream) and (stream.answer is not None if client else not stream.asked)
            if held:
                stream.exchange.blocked_ns += blocked

    def _goaway(self, payload: bytes, at_ns: int) -> None:
        self.link.goaway_ns = self.link.goaway_ns or at_ns
        self.link.goaway_last = int.from_bytes(payload[:4], "big") & 0x7FFFFFFF
        self.link.goaway_error = int.from_bytes(payload[4:8], "big")
        for stream in [one for number, one in self._streams.items() if number > self.link.goaway_last]:
            stream.exchange.ended_ns = stream.exchange.ended_ns or at_ns
            self._finish(stream, Ended.REFUSED)
