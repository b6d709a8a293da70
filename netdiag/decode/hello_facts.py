# SPDX-License-Identifier: Apache-2.0
"""The fact `hello`: what a recording and a capture keep of one side's handshake messages. Standard library only."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable
from typing import Any

from netdiag.decode.chain import Names
from netdiag.decode.kept import redact, session_id

__all__ = ["HelloFacts"]

_MAX_KNOWN = 4096
"""Different hellos that are remembered, to write each once."""


class HelloFacts:
    """Makes facts of handshake messages; what was told before is named by its number."""

    def __init__(self, cut: Callable[[bytes], bytes] = redact) -> None:
        """`cut` returns what may be kept of messages: `redact`, or one that remembers what it returned."""
        self._cut = cut
        self._known: dict[bytes, int] = {}
        self._names = Names()
        self._next = 1

    def fact(
        self, messages: bytes, *, cookie: int, direction: str, at_ns: int, whole: bool
    ) -> tuple[dict[str, Any], bytes]:
        """Return the members of the fact without its `kind`, and what is kept of the messages."""
        session, data = session_id(messages), self._cut(messages)
        fact: dict[str, Any] = {
            "cookie": cookie,
            "direction": direction,
            "at_ns": at_ns,
            "whole": whole,
            "session": session.hex() if session else None,
        }
        if (chain := self._names.chain(messages)) is not None:
            fact["chain"] = chain
        known = self._known.get(data)
        if known is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            fact["id"] = self._known[data] = self._next
            self._next += 1
            fact["data"] = base64.b64encode(zlib.compress(data, 6)).decode("ascii")
        else:
            fact["same"] = known
        return fact, data
