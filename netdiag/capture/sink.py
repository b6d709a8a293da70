# SPDX-License-Identifier: Apache-2.0
"""What reads the bytes that passed: the interface between following packets here and parsing what they carried.

The reader puts TCP streams in order and knows what each connection speaks. Whoever understands a protocol is a
`StreamSink`: it is asked once for each connection and protocol (`begin`), is fed both directions in order of time, and
at the end returns the records and facts that a live trace would have written for the same (`finish`). Datagrams go to a
`DatagramSink`, one at a time, in the order of the file.

- `Stream.offsets` are where this protocol begins in both directions: behind a CONNECT or STARTTLS that is not 0, and
  the one who was fed the part before gets `end(…)` first.
- A `Chunk` is what one packet brought of new bytes, in order of the stream. `offset` counts bytes of the direction from
  `Stream.offsets` of the connection's first protocol, so that offsets are those of the connection. A chunk whose offset
  is behind the end of the one before shows a gap: those bytes passed, and the file does not hold them. `length` may be
  more than `len(data)`: the rest was cut off by the snap length, another gap.
- `data` is a view into a buffer that is used again: who needs bytes after `feed` returns copies them. They never go
  into an error message or a file.
- A connection that is older than the capture has `whole = False`: its first chunk may begin anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from netdiag.recording.format import StreamLayout
from netdiag.recording.reader import Records

__all__ = ["TLS_KEY_LOG", "Chunk", "Datagram", "DatagramSink", "Handler", "Harvest", "Stream", "StreamSink"]

TLS_KEY_LOG = 0x544C534B
"""Type of a decryption-secrets block that holds lines of a TLS key log (pcapng, section 4.7)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """New bytes of one direction, as one packet brought them."""

    at_ns: int
    """When the packet was captured, nanoseconds on the clock of the recording."""
    send: bool
    """From the client (who sent the SYN) to the server."""
    offset: int
    """Of the first byte in its direction."""
    length: int
    """Bytes that passed."""
    data: memoryview
    """Its first bytes, as many as the file holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One protocol on one connection."""

    cookie: int
    """Names the connection in every stream of the recording."""
    speaks: int
    """A value of `netdiag.tables.codes.WireClass`, 1 TLS, 2 HTTP/1, 3 HTTP/2, 4 CONNECT, 5 other."""
    client: tuple[bytes, int]
    """Address (16 bytes, IPv4 as IPv4-mapped) and port."""
    server: tuple[bytes, int]
    offsets: tuple[int, int]
    """Where the protocol begins: bytes from the client, bytes from the server."""
    whole: bool
    """The connection was seen from its start."""
    began_ns: int
    """When the packet with its first byte was captured."""


class Handler(Protocol):
    """Reads one protocol on one connection."""

    def feed(self, chunks: Sequence[Chunk]) -> None:
        """Take new bytes of both directions, in order of time."""

    def end(self, at_ns: int, *, clean: bool | None = None) -> None:
        """Nothing more comes: the connection, the protocol or the file is over.

        `clean`: the connection was closed, and the server had ended what it says by a FIN (True) or had not (False);
        None where no end was seen.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Harvest:
    """What was found: as the recorder would have written it."""

    records: Mapping[str, Records] = field(default_factory=dict)
    """By name of the stream, with the layout that `layouts.layout(name)` gives."""
    layouts: Mapping[str, StreamLayout] = field(default_factory=dict)
    """Of the streams in `records`."""
    facts: Sequence[Mapping[str, Any]] = ()
    """Each has a `kind`."""


class StreamSink(Protocol):
    """Understands one or more protocols on TCP."""

    def secrets(self, kind: int, data: bytes) -> None:
        """Take a decryption-secrets block of a pcapng file; it may come at any time."""

    def begin(self, stream: Stream) -> Handler | None:
        """Return who reads this protocol on this connection; None where it is of no interest."""

    def finish(self) -> Harvest:
        """Return what was found, once all handlers have ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Datagram:
    """One UDP datagram, put together where it came in fragments."""

    at_ns: int
    source: tuple[bytes, int]
    """Address (16 bytes, IPv4 as IPv4-mapped) and port."""
    destination: tuple[bytes, int]
    length: int
    """Bytes that passed."""
    data: memoryview
    """Its first bytes, as many as the file holds; only until `datagram` returns."""


class DatagramSink(Protocol):
    """Understands a protocol on UDP."""

    ports: frozenset[int]
    """Datagrams from or to these ports are wanted."""
    quic: bool
    """So are those from or to any other port that look like a QUIC packet with a long header."""

    def secrets(self, kind: int, data: bytes) -> None:
        """Take a decryption-secrets block of a pcapng file; it may come at any time."""

    def datagram(self, datagram: Datagram) -> None:
        """Take one datagram."""

    def finish(self) -> Harvest:
        """Return what was found."""
