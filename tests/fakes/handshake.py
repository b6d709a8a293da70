# SPDX-License-Identifier: Apache-2.0
"""Handshake messages as bytes, byte by byte from RFC 5246 and RFC 8446, with places for what must stay secret."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

RANDOM, SESSION, SHARE, TICKET, BINDER, CERTIFICATE, COOKIE = (
    bytes([value]) * 32 for value in (0xF1, 0xF2, 0xF3, 0xF4, 0xF5, 0xF6, 0xF7)
)
"""Bytes that stand for secrets and bulk; they occur nowhere else in a message that is built here."""
RETRY_RANDOM = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")

Extensions = Iterable[tuple[int, bytes]]


def vector(data: bytes, width: int) -> bytes:
    return len(data).to_bytes(width, "big") + data


def numbers(*values: int, width: int = 2) -> bytes:
    return b"".join(value.to_bytes(width, "big") for value in values)


def message(kind: int, body: bytes) -> bytes:
    return bytes([kind]) + vector(body, 3)


def record(data: bytes, kind: int = 22, version: int = 1) -> bytes:
    return bytes([kind, 3, version]) + vector(data, 2)


def extensions(pairs: Extensions) -> bytes:
    return vector(b"".join(numbers(kind) + vector(content, 2) for kind, content in pairs), 2)


def client_hello(
    pairs: Extensions = (), *, version: int = 0x0303, session: bytes = SESSION, suites: Sequence[int] = (0x1302, 0xC030)
) -> bytes:
    """Return a ClientHello; without extensions it has none, as in TLS 1.0."""
    body = numbers(version) + RANDOM + vector(session, 1) + vector(numbers(*suites), 2) + vector(b"\0", 1)
    pairs = list(pairs)
    return message(1, body + (extensions(pairs) if pairs else b""))


def modern(*, psk: bool = False, early: bool = False, groups: Sequence[int] = (29, 23)) -> bytes:
    """Return the ClientHello of a client that speaks TLS 1.3, with everything in it that must not be kept."""
    name = vector(b"\0" + vector(b"api.example.test", 2), 2)
    shares = vector(b"".join(numbers(group) + vector(SHARE, 2) for group in groups[:1]), 2)
    pairs = [
        (0, name), (10, vector(numbers(*groups), 2)), (16, vector(vector(b"h2", 1) + vector(b"http/1.1", 1), 2)),
        (35, TICKET), (43, vector(numbers(0x0304, 0x0303), 1)), (44, vector(COOKIE, 2)), (45, vector(b"\x01", 1)),
        (51, shares), (0x7777, TICKET),
    ]  # fmt: skip
    if early:
        pairs.append((42, b""))
    if psk:
        identities = vector(vector(TICKET, 2) + TICKET[:4], 2)
        pairs.append((41, identities + vector(vector(BINDER, 1), 2)))
    return client_hello(pairs, suites=(0x1302, 0x1301, 0xC030))


def server_hello(
    pairs: Extensions = (), *, version: int = 0x0303, session: bytes = SESSION, suite: int = 0xC030,
    random: bytes = RANDOM,
) -> bytes:  # fmt: skip
    body = numbers(version) + random + vector(session, 1) + numbers(suite) + b"\0"
    pairs = list(pairs)
    return message(2, body + (extensions(pairs) if pairs else b""))


def server_hello_13(*, psk: bool = False, group: int = 29, retry: bool = False) -> bytes:
    share = numbers(group) if retry else numbers(group) + vector(SHARE, 2)
    pairs = [(43, numbers(0x0304)), (51, share)]
    if psk:
        pairs.append((41, numbers(0)))
    if retry:
        pairs.append((44, vector(COOKIE, 2)))
    return server_hello(pairs, suite=0x1302, random=RETRY_RANDOM if retry else RANDOM)


def certificates(count: int = 2) -> bytes:
    return message(11, vector(vector(CERTIFICATE * 20, 3) * count, 3))


def key_exchange(curve: int = 29) -> bytes:
    return message(12, b"\x03" + numbers(curve) + vector(SHARE, 1) + numbers(0x0804) + vector(BINDER * 8, 2))


def ticket_12(lifetime: int = 300) -> bytes:
    return message(4, numbers(lifetime, width=4) + vector(TICKET * 5, 2))


def flight_12(*, count: int = 2) -> bytes:
    """Return a TLS 1.2 server's flight up to ServerHelloDone, with the ticket that follows the client's."""
    pairs = [(16, vector(vector(b"http/1.1", 1), 2)), (35, b"")]
    return server_hello(pairs) + certificates(count) + key_exchange() + message(14, b"") + ticket_12()
