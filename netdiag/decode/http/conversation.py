# SPDX-License-Identifier: Apache-2.0
"""A conversation: pieces of both directions in order of time go in, exchanges and chunks come out. No clock, no I/O."""

from __future__ import annotations

from typing import Literal, TypeAlias

from netdiag.decode.http.exchange import Chunk, Exchange, Link
from netdiag.decode.http.frames import PREFACE, plausible, sent_by_client
from netdiag.decode.http.head import is_request_start, is_response_start
from netdiag.decode.http.http1 import Http1
from netdiag.decode.http.http2 import Http2
from netdiag.decode.piece import Piece

__all__ = ["Conversation", "Told"]

Told: TypeAlias = Exchange | Chunk
"""An exchange is told when it is over or given up, a chunk at once; a chunk may precede its exchange."""

_MOST_HELD = 32
"""Pieces that are held until it is known what is spoken."""
_FEW_BYTES = 24
_MOST_NESTED = 2


class Conversation:
    """One connection's plaintext."""

    def __init__(
        self,
        *,
        role: Literal["client", "server"] | None = None,
        joined: bool = False,
        exact: bool = True,
        nested: int = 0,
        first: int = 1,
    ) -> None:
        """`role` is the traced program's; None: told from the bytes. `joined`: the beginning was not seen.

        `exact`: offsets are those of the wire, so that bytes that were not seen show. Those of calls just count what
        was seen: then HTTP/1's requests and answers are paired only where they follow each other one by one, or where
        one call sent several requests.

        `nested` and `first` are for a conversation inside another one: how deep it lies, its first exchange's number.
        """
        self._role, self._joined, self._nested, self._first = role, joined, nested, first
        self._exact = exact
        self._told: list[Told] = []
        self._spoken: Http1 | Http2 | None = None
        self._inside: Conversation | None = None
        self._held: list[Piece] = []
        self._expected: dict[str, int] = {}
        self._silent: str | None = None
        self._at_ns = 0

    def feed(self, piece: Piece) -> list[Told]:
        """Take one piece; return what it finished. Never raises for what the bytes say."""
        self._at_ns = max(self._at_ns, piece.at_ns)
        if self._spoken is None and not self._recognise(piece):
            return []
        held, self._held = self._held, []
        for each in (*held, piece):
            self._take(each)
        return self._taken()

    def end(self, at_ns: int, *, clean: bool | None = None) -> list[Told]:
        """The connection is over: return what was going on.

        `clean`: it ended by FIN or close_notify (True), by a reset (False), or the trace ended first (None).
        """
        if self._inside is not None:
            self._told += self._inside.end(at_ns, clean=clean)
        if self._spoken is not None:
            self._spoken.end(clean=clean)
        self._held.clear()
        return self._taken()

    def _taken(self) -> list[Told]:
        told = list(self._told)  # the list itself is shared with those who follow the protocol
        self._told.clear()
        return told

    @property
    def protocol(self) -> Literal["http/1", "h2"] | None:
        """What is spoken; None as long as it is not known or is no HTTP."""
        if self._spoken is None:
            return None
        return "h2" if isinstance(self._spoken, Http2) else "http/1"

    @property
    def role(self) -> Literal["client", "server"] | None:
        """Which side the traced program is; None as long as nothing tells."""
        return self._role

    @property
    def not_followed(self) -> str | None:
        """Why some of it could not be followed, in a few words; None where all was."""
        inside = self._inside.not_followed if self._inside is not None else None
        return (self._spoken.not_followed if self._spoken is not None else None) or inside

    @property
    def missed(self) -> bool:
        """Whether it shows that something passed that was not seen, though no offset says so."""
        return isinstance(self._spoken, Http1) and self._spoken.missed

    @property
    def link(self) -> Link | None:
        """What a connection of HTTP/2 said about itself; None for HTTP/1."""
        return self._spoken.link if isinstance(self._spoken, Http2) else None

    @property
    def is_tunnel(self) -> bool:
        """Whether it became a tunnel for something else (CONNECT, or another protocol by an upgrade)."""
        return self._inside is not None

    # --- what is spoken -----------------------------------------------------------------------------------------------

    def _recognise(self, piece: Piece) -> bool:
        """Find out what is spoken and who is who; until then hold the pieces, a few of them."""
        start = piece.data
        before = b"".join(each.data for each in self._held if each.direction == piece.direction)
        if before and len(before) < _FEW_BYTES:
            start = before + start
        client = self._is_client(piece)
        if start.startswith(PREFACE[:16]) and client is not False:
            self._speak(Http2(self._told, joined=False), piece, client=True)
        elif is_request_start(start) and client is not False:
            self._speak(self._http1(), piece, client=True)
        elif is_response_start(start) and client is not True:
            self._speak(self._http1(), piece, client=False)
        elif self._joined and len(start) >= _FEW_BYTES and plausible(start):
            client = sent_by_client(start) if client is None else client
            if client is None:
                self._hold(piece, start)
                return False
            self._speak(Http2(self._told, joined=True), piece, client=client)
        else:
            self._hold(piece, start)
            return False
        return True

    def _http1(self) -> Http1:
        return Http1(self._told, self._tunnelled, first=self._first, joined=self._joined, exact=self._exact)

    def _speak(self, spoken: Http1 | Http2, piece: Piece, *, client: bool | None) -> None:
        self._spoken = spoken
        if self._role is None and client is not None:
            self._role = "client" if (piece.direction == "send") == client else "server"

    def _is_client(self, piece: Piece) -> bool | None:
        if self._role is None:
            return None
        return (piece.direction == "send") == (self._role == "client")

    def _hold(self, piece: Piece, start: bytes) -> None:
        if start and len(start) < _FEW_BYTES and len(self._held) < _MOST_HELD:
            self._held.append(piece)
        else:
            self._held.clear()
            self._joined = True  # what comes later is not the beginning

    # --- pieces -------------------------------------------------------------------------------------------------------

    def _take(self, piece: Piece) -> None:
        spoken = self._spoken
        client = self._is_client(piece)
        if spoken is None or client is None:
            return
        direction, offset = piece.direction, piece.offset
        expected = self._expected.get(direction, offset if self._joined or self._nested else 0)
        if offset > expected:
            spoken.skip(client, piece.at_ns, expected, offset - expected)
        known, tail = piece.data[: piece.length], piece.tail
        cut = max(expected - offset, 0)
        if cut >= piece.length:
            return  # seen before
        self._expected[direction] = offset + piece.length
        if known[cut:]:
            spoken.feed(client, piece.at_ns, offset + cut, known[cut:], new_piece=not cut)
        behind = max(piece.length - len(tail), len(known))
        tail = tail[len(tail) - (piece.length - behind) :] if piece.length > behind else b""
        if behind > max(len(known), cut):
            start = max(len(known), cut)
            spoken.skip(client, piece.at_ns, offset + start, behind - start)
        if tail:
            spoken.feed(client, piece.at_ns, offset + behind, tail, new_piece=False)
        spoken.flush()

    def _tunnelled(self, client: bool, at_ns: int, offset: int, data: bytes | None, length: int) -> None:  # noqa: FBT001
        """Bytes of what a tunnel carries: perhaps a conversation of its own."""
        if self._nested >= _MOST_NESTED or not isinstance(self._spoken, Http1):
            return
        if self._inside is None:
            first = self._spoken.next_number
            self._inside = Conversation(role=self._role, exact=self._exact, nested=self._nested + 1, first=first)
        sends = client == (self._role == "client")
        piece = Piece(
            at_ns=at_ns, direction="send" if sends else "receive", offset=offset, length=length, data=data or b""
        )
        self._told += self._inside.feed(piece)
