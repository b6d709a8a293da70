# SPDX-License-Identifier: Apache-2.0
"""What a conversation tells: exchanges of a request and its answer, and the chunks of streamed answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, IntFlag

__all__ = ["Chunk", "ChunkKind", "Ended", "Exchange", "Flag", "Format", "Link", "Protocol", "StreamKind", "Usage"]


class Protocol(IntEnum):
    """The version of HTTP."""

    HTTP10 = 1
    HTTP11 = 2
    HTTP2 = 3


class StreamKind(IntEnum):
    """How an answer is streamed."""

    NONE = 0
    SSE = 1
    NDJSON = 2
    CHUNKED = 3


class ChunkKind(IntEnum):
    """What the events of a chunk say; of several in one chunk the greatest number wins."""

    OTHER = 1
    HEARTBEAT = 2
    ROLE = 3
    USAGE = 4
    DONE = 5
    REASONING = 6
    CONTENT = 7
    ERROR = 8


class Format(IntEnum):
    """Which format of an answer the request asks for."""

    UNKNOWN = 0
    TEXT = 1
    JSON_OBJECT = 2
    JSON_SCHEMA = 3


class Ended(IntEnum):
    """How an exchange ended."""

    COMPLETE = 1
    CUT = 2
    """The connection ended before the answer did."""
    CLIENT_RESET = 3
    """The client took the stream back (RST_STREAM)."""
    SERVER_RESET = 4
    REFUSED = 5
    """The server did not touch it: RST_STREAM with REFUSED_STREAM, or GOAWAY below its number."""
    NOT_FOLLOWED = 6
    """Bytes were missing: where the answer ended is not known, or not how much of it came before its end."""
    OPEN = 7
    """Still going on when the trace ended."""


class Flag(IntFlag):
    """Facts of an exchange that are yes or no."""

    CLIENT_CLOSE = 1
    """The request says that the connection shall end: `Connection: close`, or HTTP/1.0 without keep-alive."""
    SERVER_CLOSE = 2
    EXPECT = 4
    """The client asked to wait with the body (Expect: 100-continue)."""
    CONTINUED = 8
    """An interim answer (1xx) came."""
    UPGRADED = 16
    """The connection changed its protocol: 101, or a CONNECT that was granted."""
    GAPS = 32
    """Bytes of it were not seen: sizes are right, what stands in the body may be missing."""
    STREAM_ASKED = 64
    """The request's body asks for a stream."""
    STREAM_NOT_ASKED = 128
    """The request's body says that it wants none."""
    CODED = 256
    """The answer's body is compressed: events in it cannot be told apart."""
    PIPELINED = 512
    """Sent before the answer to the request before it had ended, on HTTP/1."""
    HEADERS_UNKNOWN = 1024
    """Some header fields are not known: their HPACK entries were made before the conversation was joined."""
    FINISHED = 2048
    """The stream's own end was seen: `[DONE]`, `message_stop` and their like."""
    JOINED = 4096
    """Its beginning was not seen."""
    REQUEST_PART = 8192
    """Whole frames were not seen that may have been the request's: its size is what was counted, or more."""
    RESPONSE_PART = 16384
    """The same of the answer."""


_NONE = Flag(0)


@dataclass(slots=True, kw_only=True)
class Usage:
    """Tokens as the server counted them; None where it did not say."""

    input: int | None = None
    cached: int | None = None
    output: int | None = None
    reasoning: int | None = None


@dataclass(slots=True, kw_only=True)
class Exchange:
    """One request and what came back. Instants are those of the pieces; 0 = did not happen, or not seen."""

    number: int
    """In its conversation, from 1, in order of the requests."""
    protocol: Protocol
    stream: int = 0
    """Of HTTP/2; 0 in HTTP/1."""
    method: str | None = None
    host: str | None = None
    path: str | None = None
    """Without query, identifiers as `{…}`."""
    status: int = 0
    request_headers: dict[str, str] = field(default_factory=dict)
    """Of those that are kept (probes/headers.toml): lower-case names, cleaned values."""
    headers: dict[str, str] = field(default_factory=dict)
    """Of the answer."""
    began_ns: int = 0
    sent_ns: int = 0
    first_byte_ns: int = 0
    """First byte of the final answer; 1xx is none."""
    ended_ns: int = 0
    request_first: int = 0
    """Offset of its first byte in the plaintext that the client sends."""
    request_end: int = 0
    """Offset after its last byte."""
    response_first: int = 0
    response_end: int = 0
    response_body: int = 0
    """Offset where the answer's body begins."""
    request_bytes: int = 0
    """Head and body, with what frames them; in HTTP/2 its HEADERS and DATA frames."""
    response_bytes: int = 0
    ended: Ended = Ended.OPEN
    flags: Flag = _NONE
    stream_kind: StreamKind = StreamKind.NONE
    format: Format = Format.UNKNOWN
    model: str | None = None
    usage: Usage = field(default_factory=Usage)
    blocked_ns: int = 0
    """HTTP/2: how long the sender of the answer, or of the request, stood at the end of a window."""
    concurrent: int = 0
    """HTTP/2: open streams when it began, itself included."""


@dataclass(slots=True, kw_only=True)
class Chunk:
    """What one piece brought of a streamed answer."""

    exchange: int
    """Its number."""
    at_ns: int
    offset: int
    """Of its first byte in the plaintext that the server sends."""
    length: int
    """Bytes of the body in it, frames and chunk sizes not counted."""
    kind: ChunkKind
    events: int
    """Events that ended in it."""
    tokens: int = 0
    """Events in it that hold content or reasoning. Several tokens in one event count once."""
    token_offset: int = 0
    """Offset after the first event with content in it; 0 without."""


@dataclass(slots=True, kw_only=True)
class Link:
    """What a connection of HTTP/2 said about itself; 0 = not said."""

    max_streams: int = 0
    """SETTINGS_MAX_CONCURRENT_STREAMS of the server."""
    initial_window: int = 0
    """SETTINGS_INITIAL_WINDOW_SIZE of the client."""
    most_streams: int = 0
    """Most streams open at once."""
    goaway_ns: int = 0
    goaway_last: int = 0
    """The last stream that a GOAWAY of the server promises to answer."""
    goaway_error: int = 0
