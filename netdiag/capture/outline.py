# SPDX-License-Identifier: Apache-2.0
"""What of handshake messages decides how they are cut: hellos that differ in nothing else are cut once. Pure.

A client sends the same hello again and again, but for a random, a session id, key shares and tickets, none of which is
kept. What is left here of them is their length, so that two texts with one outline are equal after the cut.
"""

from __future__ import annotations

__all__ = ["outline"]

_CLIENT_HELLO, _SERVER_HELLO, _TICKET, _CERTIFICATE, _KEY_EXCHANGE = 1, 2, 4, 11, 12
_BARE = frozenset({0, 14, 15, 16, 20})
"""Messages of which nothing but type and length stays."""
_RETRY = b"\xcf\x21\xad\x74"
"""How the random of a HelloRetryRequest begins, which stays."""
_KEY_SHARES = (40, 51)
_SECRET = frozenset({21, 35, 41, 44, 0xFE0D})
"""Padding, ticket, pre-shared keys, cookie, encrypted hello: extensions of which nothing stays, of a client's hello."""
_MAX_EXTENSIONS = 64


def outline(data: bytes) -> bytes | None:
    """Return what decides; None for messages that are unusual in any way: those are cut one by one."""
    parts = []
    at = 0
    while at < len(data):
        if at + 4 > len(data):
            return None
        kind, end = data[at], at + 4 + int.from_bytes(data[at + 1 : at + 4], "big")
        if end > len(data):
            return None
        parts.append(data[at : at + 4])
        if kind in (_CLIENT_HELLO, _SERVER_HELLO):
            if not _hello(data, at + 4, end, parts, client=kind == _CLIENT_HELLO):
                return None
        elif kind in (_KEY_EXCHANGE, _TICKET):
            parts.append(data[at + 4 : min(at + 8, end)])
        elif kind == _CERTIFICATE:
            parts.append(data[at + 4 : end])
        elif kind not in _BARE:
            return None
        at = end
    return b"".join(parts)


def _hello(data: bytes, at: int, end: int, parts: list[bytes], *, client: bool) -> bool:
    if at + 35 > end or data[at] != 3:
        return False
    parts.append(data[at : at + 2])
    if data[at + 2 : at + 6] == _RETRY:
        parts.append(data[at + 2 : at + 34])
    parts.append(data[at + 34 : at + 35])
    at += 35 + data[at + 34]
    fixed = at + 3
    if client:
        fixed = at + 2 + int.from_bytes(data[at : at + 2], "big")
        fixed += 1 + (data[fixed] if fixed < end else 0)
    if fixed + 2 > end:
        return False
    parts.append(data[at : fixed + 2])
    at = fixed + 2
    for _ in range(_MAX_EXTENSIONS):
        if at + 4 > end:
            return at == end
        kind, length = int.from_bytes(data[at : at + 2], "big"), int.from_bytes(data[at + 2 : at + 4], "big")
        stop = at + 4 + length
        if stop > end:
            return False
        if kind in _KEY_SHARES and length > 2:
            parts += (data[at : at + 4], *_shares(data, at + 4, stop, client=client))
        elif client and kind in _SECRET:
            parts.append(data[at : at + 4])
        else:
            parts.append(data[at:stop])
        at = stop
    return False


def _shares(data: bytes, at: int, end: int, *, client: bool) -> list[bytes]:
    """Return groups and lengths of key shares; all of it where they do not fill their place."""
    found, begin = [], at
    if client:
        found.append(data[at : at + 2])
        at += 2
    while at + 4 <= end:
        found.append(data[at : at + 4])
        at += 4 + int.from_bytes(data[at + 2 : at + 4], "big")
    return found if at == end else [data[begin:end]]
