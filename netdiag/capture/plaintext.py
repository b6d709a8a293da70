# SPDX-License-Identifier: Apache-2.0
"""Plaintext of a capture → requests and chunks: HTTP in the clear, and in TLS whose secrets are known.

The conversation code is that of a live trace. Plaintext is looked at and dropped: nothing of it is kept but what the
streams `http_request` and `http_chunk` hold.
"""

from __future__ import annotations

from collections.abc import Sequence

from netdiag.capture.decrypt import Decryptor
from netdiag.capture.exchanges import Exchanges
from netdiag.capture.keylog import KeyLog
from netdiag.capture.sink import TLS_KEY_LOG, Chunk, Handler, Harvest, Stream
from netdiag.decode.http.conversation import Conversation
from netdiag.decode.piece import Direction, Piece
from netdiag.tables.codes import WireClass

__all__ = ["PlaintextSink"]

_CLEAR = (WireClass.HTTP1, WireClass.HTTP2, WireClass.CONNECT)


class PlaintextSink:
    """Reads what connections say in the clear, and behind keys that the user has."""

    def __init__(self, keys: KeyLog | None = None) -> None:
        self._keys = KeyLog() if keys is None else keys
        self._told = Exchanges()

    def secrets(self, kind: int, data: bytes) -> None:
        """Take the key log in a pcapng file."""
        if kind == TLS_KEY_LOG:
            self._keys.add(data)

    def begin(self, stream: Stream) -> Handler | None:
        """Return who reads HTTP, and TLS where there are keys."""
        if stream.speaks in _CLEAR:
            return _Clear(self._told, stream)
        if stream.speaks == WireClass.TLS and stream.whole and self._keys:
            return _Sealed(self._told, stream, self._keys)
        if stream.speaks == WireClass.TLS and stream.whole:
            self._keys.pass_by()
        return None

    def finish(self) -> Harvest:
        """Return the requests, the chunks, and what encrypted handshakes said."""
        return self._told.harvest()


class _Clear:
    """HTTP in the clear."""

    def __init__(self, told: Exchanges, stream: Stream) -> None:
        self._told, self._offsets = told, stream.offsets
        self._number = told.conversation(stream.cookie, whole=stream.whole)
        self._conversation = Conversation(role="client", joined=not stream.whole)

    def feed(self, chunks: Sequence[Chunk]) -> None:
        """Take new bytes."""
        for chunk in chunks:
            piece = Piece(
                at_ns=chunk.at_ns,
                direction=_direction(chunk.send),
                offset=chunk.offset - self._offsets[0 if chunk.send else 1],
                length=chunk.length,
                data=bytes(chunk.data),
            )
            self._told.take(self._number, self._conversation.feed(piece))

    def end(self, at_ns: int, *, clean: bool | None = None) -> None:
        """Tell what was going on."""
        self._told.take(self._number, self._conversation.end(at_ns, clean=clean))
        self._told.over(self._number, self._conversation)


class _Sealed:
    """TLS whose secrets may be known."""

    def __init__(self, told: Exchanges, stream: Stream, keys: KeyLog) -> None:
        self._told, self._stream = told, stream
        self._decryptor = Decryptor(keys)
        self._expected = list(stream.offsets)
        self._number = told.conversation(stream.cookie, how="decrypted")
        self._conversation = Conversation(role="client")

    def feed(self, chunks: Sequence[Chunk]) -> None:
        """Take new bytes; of a side that lacks some, what follows at its place."""
        for chunk in chunks:
            side = 0 if chunk.send else 1
            if chunk.offset > self._expected[side]:
                self._decryptor.gap(chunk.offset - self._expected[side], client=chunk.send)
            self._expected[side] = chunk.offset + chunk.length
            for opened in self._decryptor.feed(chunk.at_ns, bytes(chunk.data), client=chunk.send):
                piece = Piece(
                    at_ns=opened.at_ns,
                    direction=_direction(opened.client),
                    offset=opened.offset,
                    length=len(opened.content),
                    data=opened.content,
                )
                self._told.take(self._number, self._conversation.feed(piece))
            if chunk.length > len(chunk.data):
                self._decryptor.gap(chunk.length - len(chunk.data), client=chunk.send)

    def end(self, at_ns: int, *, clean: bool | None = None) -> None:
        """Tell what was going on; a close_notify is an orderly end, whatever TCP did."""
        inside = self._decryptor.inside
        if any(alert["alert"] == "close_notify" and not alert["client"] for alert in inside.alerts):
            clean = True
        self._told.take(self._number, self._conversation.end(at_ns, clean=clean))
        self._told.over(self._number, self._conversation)
        if inside.opened:
            self._told.inside(inside.fact(self._stream.cookie))


def _direction(send: bool) -> Direction:  # noqa: FBT001 - one of two names
    return "send" if send else "receive"
