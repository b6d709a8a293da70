# SPDX-License-Identifier: Apache-2.0
"""Conversations in HTTP as bytes, whole, and ways to cut them into pieces as calls and packets do."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from hpack import Encoder

from netdiag.decode.piece import Direction, Piece

__all__ = ["Talk", "chat_event", "chunked", "cut", "frame", "headers_frame", "pieces", "sse"]

Talk = Sequence[tuple[bool, bytes]]
"""Who says what, in order of time: True is the client."""


def pieces(talk: Talk, *, role: str = "client", step_ns: int = 1_000_000, start_ns: int = 1_000) -> list[Piece]:
    """Return one piece for each thing that is said, `step_ns` apart."""
    offsets, found = {True: 0, False: 0}, []
    for number, (client, data) in enumerate(talk):
        direction: Direction = "send" if client == (role == "client") else "receive"
        at = start_ns + number * step_ns
        found.append(Piece(at_ns=at, direction=direction, offset=offsets[client], length=len(data), data=data))
        offsets[client] += len(data)
    return found


def cut(whole: Iterable[Piece], copied: int, tail: int = 0) -> list[Piece]:
    """Return the pieces with only the first `copied` and last `tail` bytes of each, as kernel programs copy them."""
    made = []
    for each in whole:
        rest = each.data[max(copied, len(each.data) - tail) :] if tail else b""
        made.append(
            Piece(
                at_ns=each.at_ns, direction=each.direction, offset=each.offset, length=each.length,
                data=each.data[:copied], tail=rest,
            )
        )  # fmt: skip
    return made


def chat_event(content: str | None = None, **delta: object) -> bytes:
    """Return an event of an OpenAI-like stream."""
    said = delta if content is None else {"content": content, **delta}
    body = {"id": "x", "object": "chat.completion.chunk", "model": "gpt-x", "choices": [{"index": 0, "delta": said}]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def sse(*contents: str) -> bytes:
    """Return a stream of events, its end included."""
    return b"".join(chat_event(text) for text in contents) + b"data: [DONE]\n\n"


def chunked(*parts: bytes) -> bytes:
    """Return parts as chunks, with the last one."""
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def frame(type_: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame of HTTP/2."""
    return len(payload).to_bytes(3, "big") + bytes((type_, flags)) + stream.to_bytes(4, "big") + payload


def headers_frame(encoder: Encoder, stream: int, fields: Iterable[tuple[str, str]], *, end: bool = False) -> bytes:
    """Return a HEADERS frame with all of its block."""
    return frame(1, 0x5 if end else 0x4, stream, encoder.encode(list(fields)))
