# SPDX-License-Identifier: Apache-2.0
"""Heads of HTTP/1 messages: the line that names request or status, and the fields that say how the body is framed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from netdiag.decode.http.exchange import Exchange, Flag, Protocol
from netdiag.decode.http.kept import keep, settle
from netdiag.decode.http.masking import clean_host, clean_method, clean_path, model_in_path

__all__ = ["Head", "is_request_start", "is_response_start", "note_request", "note_response", "parse_head"]

# RFC 9112 sections 3 and 4
_REQUEST = re.compile(rb"([A-Z][A-Z-]{0,15}) (\S{1,65536}) HTTP/1\.([01])\Z")
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: [^\r\n]*)?\Z")
_REQUEST_START = re.compile(rb"(?!PRI )[A-Z][A-Z-]{0,15} (?:[/*]|[A-Za-z][A-Za-z0-9+.-]*://|[\w.\[\]:-]+:[0-9]+ )")
_STATUS_START = re.compile(rb"HTTP/1\.[01] [1-5][0-9]{2}[ \r\n]")
_LINE = re.compile(rb"\r?\n")
_MOST_FIELDS = 256
_LENGTH = re.compile(rb"[0-9]{1,18}")


@dataclass(slots=True, kw_only=True)
class Head:
    """What the head of a message says about itself."""

    is_request: bool
    minor: int
    """Of HTTP/1: 0 or 1."""
    method: bytes = b""
    target: bytes = field(default=b"", repr=False)
    status: int = 0
    length: int | None = None
    """Content-Length."""
    chunked: bool = False
    coded: bool = False
    """Transfer codings end with another than chunked."""
    connection: frozenset[bytes] = frozenset()
    """Words of the Connection field, lower case."""
    upgrade: bool = False
    expect: bool = False
    fields: list[tuple[bytes, bytes]] = field(default_factory=list, repr=False)


def is_request_start(data: bytes) -> bool:
    """Tell whether bytes begin like a request."""
    return bool(_REQUEST_START.match(data[:300]))


def is_response_start(data: bytes) -> bool:
    """Tell whether bytes begin like an answer."""
    return bool(_STATUS_START.match(data[:16]))


def parse_head(raw: bytes) -> Head | None:
    """Return what a head says, up to its empty line or as far as it goes; None where it is none."""
    first, *lines = _LINE.split(raw.lstrip(b"\r\n"), maxsplit=_MOST_FIELDS)
    if request := _REQUEST.match(first):
        head = Head(is_request=True, minor=request[3] == b"1", method=request[1], target=request[2])
    elif status := _STATUS.match(first):
        head = Head(is_request=False, minor=status[1] == b"1", status=int(status[2]))
    else:
        return None
    for name, value in _fields(lines):
        head.fields.append((name, value))
        _note(head, name, value)
    return head


def _fields(lines: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    for line in lines:
        name, colon, value = line.partition(b":")
        if not line:
            return
        if colon and name and len(name) <= 128:
            yield name.strip().lower(), value.strip()


def _note(head: Head, name: bytes, value: bytes) -> None:
    if name == b"content-length":
        head.length = int(value) if _LENGTH.fullmatch(value) else None
    elif name == b"transfer-encoding":
        codings = [each.strip().lower() for each in value.split(b",")]
        head.chunked = codings[-1] == b"chunked"
        head.coded = not head.chunked
    elif name == b"connection":
        head.connection |= {each.strip().lower() for each in value.split(b",")[:16]}
    elif name == b"upgrade":
        head.upgrade = True
    elif name == b"expect":
        head.expect = value.lower() == b"100-continue"


def _ends_connection(head: Head) -> bool:
    return b"close" in head.connection or (head.minor == 0 and b"keep-alive" not in head.connection)


def note_request(head: Head, exchange: Exchange) -> None:
    """Write what a request's head says into the exchange."""
    exchange.protocol = Protocol.HTTP11 if head.minor else Protocol.HTTP10
    exchange.method = clean_method(head.method)
    if head.method == b"CONNECT":
        exchange.host = clean_host(head.target)
    else:
        exchange.path = clean_path(head.target)
        exchange.model = model_in_path(head.target)
        if b"://" in head.target[:40]:
            exchange.host = clean_host(head.target.split(b"://", 1)[1].split(b"/", 1)[0])
    for name, value in head.fields:
        if name == b"host":
            exchange.host = exchange.host or clean_host(value)
        keep(exchange.request_headers, name, value)
    if _ends_connection(head):
        exchange.flags |= Flag.CLIENT_CLOSE
    if head.expect:
        exchange.flags |= Flag.EXPECT


def note_response(head: Head, exchange: Exchange) -> None:
    """Write what a final answer's head says into the exchange."""
    exchange.status = head.status
    if not head.minor:
        exchange.protocol = Protocol.HTTP10  # the lower of the two versions is what both spoke
    for name, value in head.fields:
        keep(exchange.headers, name, value)
    settle(exchange.headers, head.fields)
    if _ends_connection(head):
        exchange.flags |= Flag.SERVER_CLOSE
