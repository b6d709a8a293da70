# SPDX-License-Identifier: Apache-2.0
"""DNS messages as they passed the sockets of traced programs, read from their bytes: whole datagrams, streams joined.

Pure. Bytes are foreign: what cannot be read is left out, and a message of which a part was not copied says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from netdiag.decode import dns
from netdiag.tables.columns import Columns

__all__ = ["Passed", "passed"]

_SEND = 1
_TCP = 2
_LENGTH_BYTES = 2
_MOST_PIECES = 4096
"""Of one direction of a stream; a name server ends its connections long before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """One message with what is known of its packet."""

    at_ns: float
    """When it passed: a question with its first byte, an answer with its last."""
    cookie: int
    pid: float
    tid: float
    sent: bool
    server: str | None
    transport: str
    """udp or tcp."""
    message: dns.Message


@dataclass(frozen=True, slots=True, kw_only=True)
class _Packet:
    at_ns: float
    cookie: int
    pid: float
    tid: float
    sent: bool
    server: str | None
    offset: int
    length: int
    data: bytes


def passed(columns: Columns) -> list[Passed]:
    """Return all messages in order of time."""
    found: list[Passed] = []
    streams: dict[tuple[int, bool], list[_Packet]] = {}
    for packet, tcp in _packets(columns):
        if tcp:
            streams.setdefault((packet.cookie, packet.sent), []).append(packet)
        else:
            found += _message(packet, packet.at_ns, packet.data, "udp")
    for pieces in streams.values():
        found += _of_stream(pieces[:_MOST_PIECES])
    return sorted(found, key=lambda each: each.at_ns)


def _packets(columns: Columns) -> Iterator[tuple[_Packet, bool]]:
    names = ("cookie", "offset", "length", "direction", "transport")
    numbers = {name: columns.integers(name).tolist() for name in names}
    cells = zip(
        columns.instant("time").tolist(),
        columns.known("tgid").tolist(),
        columns.known("tid").tolist(),
        columns.address("remote"),
        columns.octets("data", columns.integers("copied").tolist()),
        *numbers.values(),
        strict=True,
    )
    for at, pid, tid, server, data, cookie, offset, length, direction, transport in cells:
        sent = direction == _SEND
        yield (
            _Packet(
                at_ns=at,
                cookie=cookie,
                pid=pid,
                tid=tid,
                sent=sent,
                server=server,
                offset=offset,
                length=length,
                data=data,
            ),
            transport == _TCP,
        )


def _message(packet: _Packet, at_ns: float, data: bytes, transport: str) -> list[Passed]:
    message = dns.read(data)
    if message is None or not message.questions or message.response == packet.sent:
        return []
    about: dict[str, Any] = {name: getattr(packet, name) for name in ("cookie", "pid", "tid", "sent", "server")}
    return [Passed(at_ns=at_ns, transport=transport, message=message, **about)]


def _of_stream(pieces: list[_Packet]) -> list[Passed]:
    """Return the messages of one direction of a stream; it ends where a length was not copied or did not come."""
    ordered = sorted(pieces, key=lambda piece: piece.offset)
    found: list[Passed] = []
    at = 0
    while True:
        head = _bytes(ordered, at, _LENGTH_BYTES)
        if len(head) < _LENGTH_BYTES:
            return found
        end = at + _LENGTH_BYTES + int.from_bytes(head, "big")
        first = next(piece for piece in ordered if piece.offset <= at < piece.offset + piece.length)
        last = next((piece for piece in ordered if piece.offset < end <= piece.offset + piece.length), None)
        if last is None:
            return found
        body = _bytes(ordered, at + _LENGTH_BYTES, end - at - _LENGTH_BYTES)
        found += _message(first, (first if first.sent else last).at_ns, body, "tcp")
        at = end


def _bytes(ordered: list[_Packet], start: int, count: int) -> bytes:
    """Return up to `count` bytes of a stream, as many as were copied without a hole."""
    data = bytearray()
    for piece in ordered:
        at = start + len(data)
        if len(data) >= count or piece.offset > at:
            break
        inside = at - piece.offset
        data += piece.data[inside : inside + count - len(data)]
    return bytes(data)
