# SPDX-License-Identifier: Apache-2.0
"""A conversation: pieces of both directions in order of time go in, exchanges and chunks come out. No clock, no I/O."""

from __future__ import annotations

from typing import Literal

from netdiag.decode.http.exchange import Chunk, Exchange, Link
from netdiag.decode.piece import Piece

__all__ = ["Conversation", "Told"]

Told = Exchange | Chunk
"""An exchange is told when it is over or given up, a chunk at once; a chunk may precede its exchange."""


class Conversation:
    """One connection's plaintext."""

    def __init__(self, *, role: Literal["client", "server"] | None = None, joined: bool = False) -> None:
        """`role` is the traced program's; None: told from the bytes. `joined`: the beginning was not seen."""

    def feed(self, piece: Piece) -> list[Told]:
        """Take one piece; return what it finished. Never raises for what the bytes say."""
        raise NotImplementedError

    def end(self, at_ns: int, *, clean: bool | None = None) -> list[Told]:
        """The connection is over: return what was going on.

        `clean`: it ended by FIN or close_notify (True), by a reset (False), or the trace ended first (None).
        """
        raise NotImplementedError

    @property
    def protocol(self) -> Literal["http/1", "h2"] | None:
        """What is spoken; None as long as it is not known or is no HTTP."""
        raise NotImplementedError

    @property
    def not_followed(self) -> str | None:
        """Why some of it could not be followed, in a few words; None where all was."""
        raise NotImplementedError

    @property
    def link(self) -> Link | None:
        """What a connection of HTTP/2 said about itself; None for HTTP/1."""
        raise NotImplementedError
