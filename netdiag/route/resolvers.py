# SPDX-License-Identifier: Apache-2.0
"""The name servers of this system, and one question to one of them over UDP, over TCP where the answer was cut.

What dnspython itself sends through would load its QUIC and HTTPS transports: a tenth of a second for every check.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
import time
from contextlib import suppress
from pathlib import Path

import dns.exception
import dns.flags
import dns.message

__all__ = ["exchange", "system_resolvers"]

_FILE = Path("/etc/resolv.conf")
_MOST_SERVERS = 3
"""As many as the C library asks."""
_MOST_BYTES = 65535


def system_resolvers(path: Path = _FILE) -> tuple[str, ...]:
    """Return the servers of this system's resolver; none where it has no list of them."""
    found = []
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    for line in lines:
        words = line.split()
        if len(words) >= 2 and words[0] == "nameserver":
            with suppress(ValueError):
                found.append(str(ipaddress.ip_address(words[1])))
    return tuple(found[:_MOST_SERVERS])


def exchange(query: dns.message.Message, server: str, *, timeout_s: float, port: int) -> dns.message.Message:
    """Return the server's answer; TimeoutError, OSError, or an exception of dnspython for an answer that is none.

    Datagrams that do not answer this very question are passed over.
    """
    wire = query.to_wire()
    end = time.monotonic() + timeout_s
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    place = socket.getaddrinfo(server, port, family, socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST)[0][4]
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.connect(place)  # the kernel then keeps other senders away, and tells of a closed port
        sock.send(wire)
        reply = None
        while reply is None:
            sock.settimeout(_left(end))
            reply = _matching(query, sock.recv(_MOST_BYTES))
    if not reply.flags & dns.flags.TC:
        return reply
    return _over_tcp(query, wire, place, family, end)


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _matching(query: dns.message.Message, data: bytes) -> dns.message.Message | None:
    try:
        reply = dns.message.from_wire(data, ignore_trailing=True)
    except dns.message.Truncated as cut:
        reply = cut.message()  # type: ignore[no-untyped-call]
    except (dns.exception.DNSException, ValueError):
        return None
    return reply if query.is_response(reply) else None


def _over_tcp(
    query: dns.message.Message, wire: bytes, place: tuple[object, ...], family: int, end: float
) -> dns.message.Message:
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.settimeout(_left(end))
        sock.connect(place)
        sock.sendall(struct.pack("!H", len(wire)) + wire)
        (length,) = struct.unpack("!H", _exactly(sock, 2, end))
        reply = _matching(query, _exactly(sock, length, end))
    if reply is None:
        raise ValueError("an answer to another question")
    return reply


def _exactly(sock: socket.socket, count: int, end: float) -> bytes:
    data = b""
    while len(data) < count:
        sock.settimeout(_left(end))
        more = sock.recv(count - len(data))
        if not more:
            raise EOFError("the answer ends early")
        data += more
    return data
