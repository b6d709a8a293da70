# SPDX-License-Identifier: Apache-2.0
"""HTTP/1 on one connection: requests paired with their answers, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from netdiag.decode.http.body import AnswerBody, RequestBody
from netdiag.decode.http.exchange import Chunk, Ended, Exchange, Flag, Protocol
from netdiag.decode.http.framing import Framer, Rest
from netdiag.decode.http.head import Head, note_request, note_response

__all__ = ["Http1", "Tunnelled"]

_MOST_WAITING = 256
"""Pipelined requests without an answer; of more the oldest is given up."""

Tunnelled: TypeAlias = Callable[[bool, int, int, "bytes | None", int], None]
"""Whether the client's, instant, offset, bytes (None: not seen), length."""


class Http1:
    """Follows both directions; what is finished is put into `told`."""

    def __init__(
        self,
        told: list[Exchange | Chunk],
        on_tunnel: Tunnelled,
        *,
        first: int = 1,
        joined: bool = False,
        exact: bool = True,
    ) -> None:
        """`first` is the number of the first exchange; `joined`: the connection's beginning was not seen.

        `exact`: bytes that were not seen show in the offsets. Where they may not, order alone pairs nothing.
        """
        self._told, self._on_tunnel, self._next = told, on_tunnel, first
        self._exact = exact
        self._from_start = not joined
        self._joined = joined
        """No request has come yet: an answer is that of one from before."""
        self._unpaired = 0
        """So many requests wait of which nobody knows whose answer comes next."""
        self._same_call = False
        """The request that begins lies in the same piece as the one before it."""
        self.missed = False
        """What came shows that something passed that was not seen."""
        self._requests, self._answers = Framer(self, request=True), Framer(self, request=False)
        self._waiting: deque[Exchange] = deque()
        """Requests whose answer has not ended, in order."""
        self._asking: Exchange | None = None
        self._request_body: RequestBody | None = None
        self._answering: Exchange | None = None
        self._answer_body: AnswerBody | None = None
        self._answer_start = (0, 0)
        self.not_followed: str | None = None

    @property
    def next_number(self) -> int:
        """The number that the next exchange would get."""
        return self._next

    def feed(self, client: bool, at_ns: int, offset: int, data: bytes, *, new_piece: bool) -> None:  # noqa: FBT001
        """Take bytes of one direction that were seen."""
        if not client and self._answer_body is not None and new_piece:
            self._answer_body.begin_piece()
        if client and new_piece:
            self._same_call = False
        (self._requests if client else self._answers).feed(at_ns, offset, data, new_piece=new_piece)

    def skip(self, client: bool, at_ns: int, offset: int, length: int) -> None:  # noqa: FBT001
        """Take bytes of one direction that were not seen."""
        (self._requests if client else self._answers).skip(at_ns, offset, length)

    def flush(self) -> None:
        """Tell the chunk of the piece that was fed."""
        if self._answer_body is not None and (chunk := self._answer_body.flush()) is not None:
            self._told.append(chunk)

    def end(self, *, clean: bool | None) -> None:
        """Tell what was going on."""
        answering = self._answering
        if answering is not None:
            whole = self._answers.until_close and clean is True
            lost = self._answers.lost
            result = Ended.COMPLETE if whole else Ended.NOT_FOLLOWED if lost else _broken(clean)
            self._finish_answer(result, whole=whole)
        for exchange in list(self._waiting):
            if exchange is self._asking:
                self._end_request_body()
            exchange.ended = Ended.NOT_FOLLOWED if self._unpaired else _broken(clean)
            self._told.append(exchange)
        self._waiting.clear()

    # --- what the framers tell ----------------------------------------------------------------------------------------

    def on_start(self, *, request: bool, at_ns: int, offset: int) -> None:
        """A message began."""
        if not request:
            self._answer_start = (at_ns, offset)
            return
        exchange = Exchange(number=self._next, protocol=Protocol.HTTP11, began_ns=at_ns, request_first=offset)
        exchange.request_end = offset
        if self._waiting:
            exchange.flags |= Flag.PIPELINED
        if not self._exact and self._waiting and not (self._same_call and self._from_start and not self._unpaired):
            self._doubt()
        self._asking = exchange

    def on_head(self, request: bool, head: Head, at_ns: int, offset: int) -> tuple[Rest, int]:  # noqa: FBT001
        """A head ended."""
        return self._request_head(head, at_ns, offset) if request else self._answer_head(head, at_ns, offset)

    def on_body(self, request: bool, at_ns: int, offset: int, data: bytes | None, length: int) -> None:  # noqa: FBT001
        """Bytes of a body passed."""
        if request:
            self._extend_request(at_ns, offset + length)
            if self._request_body is not None:
                if data is None:
                    self._request_body.gap()
                else:
                    self._request_body.take(data)
            return
        self._extend_answer(at_ns, offset + length)
        if self._answer_body is not None:
            if data is None:
                self._answer_body.gap(at_ns, offset, length)
            else:
                self._answer_body.take(at_ns, offset, data)

    def on_end(self, request: bool, at_ns: int, offset: int) -> None:  # noqa: FBT001
        """A message ended."""
        if request:
            self._extend_request(at_ns, offset)
            self._end_request_body()
            self._asking, self._same_call = None, True
        else:
            self._extend_answer(at_ns, offset)
            self._finish_answer(Ended.COMPLETE, whole=True)

    def on_lost(self, request: bool, at_ns: int, offset: int) -> None:  # noqa: FBT001
        """It is not known where the message ends; as long as nothing else begins, what passes belongs to it."""
        self.not_followed = "bytes that frame messages were not seen"
        if request:
            if self._asking is not None and self._asking is not self._answering:
                self._extend_request(at_ns, offset)
                self._asking.flags |= Flag.GAPS
        elif self._answering is not None:
            self._extend_answer(at_ns, offset)
            self._answering.flags |= Flag.GAPS
        elif len(self._waiting) > 1 or (self._waiting and self._answers.lost):
            self._give_up_waiting()  # whose answer comes next is not known

    def on_tunnel(self, request: bool, at_ns: int, offset: int, data: bytes | None, length: int) -> None:  # noqa: FBT001
        """Bytes of another protocol passed."""
        self._on_tunnel(request, at_ns, offset, data, length)

    # --- requests -----------------------------------------------------------------------------------------------------

    def _request_head(self, head: Head, at_ns: int, offset: int) -> tuple[Rest, int]:
        exchange = self._asking
        if exchange is None:
            return Rest.NONE, 0
        if self._answers.lost:
            self._give_up_answer()
        self._next += 1
        self._joined = False
        note_request(head, exchange)
        self._extend_request(at_ns, offset)
        if len(self._waiting) >= _MOST_WAITING:
            self._drop_oldest()
        self._waiting.append(exchange)
        self._unpaired += self._unpaired > 0
        self._request_body = RequestBody(exchange)
        if head.chunked:
            return Rest.CHUNKED, 0
        return (Rest.LENGTH, head.length) if head.length else (Rest.NONE, 0)

    def _extend_request(self, at_ns: int, offset: int) -> None:
        exchange = self._asking
        if exchange is not None:
            exchange.sent_ns = at_ns
            exchange.request_end = max(exchange.request_end, offset)
            exchange.request_bytes = exchange.request_end - exchange.request_first

    def _end_request_body(self) -> None:
        if self._request_body is not None:
            self._request_body.end()
            self._request_body = None

    def _drop_oldest(self) -> None:
        oldest = self._waiting.popleft()
        if oldest is self._answering:
            self._answering = self._answer_body = None
        oldest.ended = Ended.NOT_FOLLOWED
        self._told.append(oldest)
        self.not_followed = "more requests in flight than are followed"

    def _doubt(self) -> None:
        """A request begins before the answer to the last one was over: pipelined, or an answer was not seen."""
        self.missed = True
        self.not_followed = self.not_followed or "a request began before the answer to the last one was over"
        if self._answering is not None:
            self._give_up_answer()
            self._answers.give_up()
        self._unpaired = len(self._waiting)  # none: what begins an answer next is that of the request that begins now

    def _give_up_waiting(self) -> None:
        self._unpaired = 0
        for exchange in self._waiting:
            if exchange is self._asking:
                self._end_request_body()
                self._asking = None
            exchange.ended = Ended.NOT_FOLLOWED
            self._told.append(exchange)
        self._waiting.clear()

    # --- answers ------------------------------------------------------------------------------------------------------

    def _answer_head(self, head: Head, at_ns: int, offset: int) -> tuple[Rest, int]:
        self._give_up_answer()
        exchange = self._waiting[0] if self._waiting else None
        if 100 <= head.status < 200 and head.status != 101:
            if exchange is not None:
                exchange.flags |= Flag.CONTINUED
            return Rest.NONE, 0
        if self._unpaired and exchange is not None:
            return self._answer_unpaired(head, exchange)
        self._answering = exchange
        if exchange is None:
            if not self._joined:
                self.missed = True
                self.not_followed = self.not_followed or "an answer came whose request was not seen"
            return _rest_of(head, "")
        if exchange is self._asking:
            self._end_request_body()  # what was seen of it must do: an answer came before its end
        exchange.first_byte_ns, exchange.response_first = self._answer_start
        exchange.sent_ns = min(exchange.sent_ns, exchange.first_byte_ns)  # the call may return late
        exchange.began_ns = min(exchange.began_ns, exchange.sent_ns)
        exchange.response_body = offset
        note_response(head, exchange)
        self._extend_answer(at_ns, offset)
        rest, length = _rest_of(head, exchange.method or "")
        if rest is Rest.TUNNEL:
            exchange.flags |= Flag.UPGRADED
            self._finish_answer(Ended.COMPLETE, whole=True)
            self._requests.tunnel()
        else:
            self._answer_body = AnswerBody(exchange, chunked=rest in (Rest.CHUNKED, Rest.CLOSE))
        return rest, length

    def _answer_unpaired(self, head: Head, exchange: Exchange) -> tuple[Rest, int]:
        """Count an answer of which it is not known whose it is; when all have come, order pairs again."""
        if exchange is self._asking:
            self._end_request_body()
            self._asking = None
        self._waiting.popleft()
        self._unpaired = len(self._waiting)
        exchange.ended = Ended.NOT_FOLLOWED
        self._told.append(exchange)
        return _rest_of(head, exchange.method or "")

    def _extend_answer(self, at_ns: int, offset: int) -> None:
        exchange = self._answering
        if exchange is not None:
            exchange.ended_ns = at_ns
            exchange.response_end = max(exchange.response_end, offset)
            exchange.response_bytes = exchange.response_end - exchange.response_first

    def _finish_answer(self, ended: Ended, *, whole: bool) -> None:
        exchange, body = self._answering, self._answer_body
        self._answering = self._answer_body = None
        if exchange is None:
            return
        if body is not None:
            body.end(whole=whole)
            if (chunk := body.flush()) is not None:
                self._told.append(chunk)
        if exchange is self._asking:
            self._end_request_body()
        exchange.ended = ended
        if self._waiting and self._waiting[0] is exchange:
            self._waiting.popleft()
        self._told.append(exchange)

    def _give_up_answer(self) -> None:
        """Another message begins while it is not known where the answer ends: clients of HTTP/1 wait for that."""
        if self._answering is not None:
            self._finish_answer(Ended.NOT_FOLLOWED, whole=False)


def _broken(clean: bool | None) -> Ended:  # noqa: FBT001
    return Ended.OPEN if clean is None else Ended.CUT


def _rest_of(head: Head, method: str) -> tuple[Rest, int]:
    """Return how an answer's body is framed: RFC 9112 section 6.3."""
    if head.status == 101 or (method == "CONNECT" and 200 <= head.status < 300):
        return Rest.TUNNEL, 0
    if method == "HEAD" or head.status in (204, 304):
        return Rest.NONE, 0
    if head.chunked:
        return Rest.CHUNKED, 0
    if head.length is not None and not head.coded:
        return Rest.LENGTH, head.length
    return Rest.CLOSE, 0
