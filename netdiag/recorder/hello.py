# SPDX-License-Identifier: Apache-2.0
"""Handshake messages on their way into the recording, without what must not be kept.

What passes in the clear of a TLS handshake is kept as the fact `hello`, one per direction, with the lengths of
everything but without its secrets and bulk: randoms, key shares, tickets, PSK identities and binders, certificates
and signatures become zeros (RFC 8446 section 4, RFC 5246 section 7.4). Of a session id four bytes are kept apart, so that
its echo is recognised. What is left is mostly the same for each connection of a client, and is written once. Nothing is
interpreted here that isn't needed to find those places; whatever doesn't fit the
grammar is zeroed from there on. Standard library only.
"""

from __future__ import annotations

import base64
import struct
import time
import zlib
from collections.abc import Iterable

from netdiag.recording.format import StreamLayout
from netdiag.recording.writer import RecordingWriter

__all__ = ["Hellos", "messages", "redact", "session_id"]

_QUIET_NS = 300_000_000
"""A direction that was quiet for so long has said its hello."""
_MAX_OPEN = 20_000
_MAX_BYTES = 16_384
_HANDSHAKE, _ALERT_OR_CCS = 22, (20, 21)
_CLIENT_HELLO, _SERVER_HELLO, _NEW_SESSION_TICKET, _CERTIFICATE, _SERVER_KEY_EXCHANGE = 1, 2, 4, 11, 12
_KEPT_OF = {_NEW_SESSION_TICKET: 4, _SERVER_KEY_EXCHANGE: 4}
"""Bytes at the start of other messages that stay: a ticket's lifetime, the curve of a key exchange."""
_KEY_SHARE = 51
_EMPTIED_EXTENSIONS = frozenset({35, 41, 0xFE0D, 0xFF01})
"""session_ticket, pre_shared_key, encrypted_client_hello, renegotiation_info."""
_RETRY_RANDOM = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
"""The random of a ServerHello that is a HelloRetryRequest: RFC 8446 section 4.1.3."""
_SESSION_ID_KEPT = 4
_SEND = 1
"""Of `enum nd_direction`."""
_MAX_KNOWN = 4096
"""Different hellos that are remembered, to write each once."""


class Hellos:
    """Puts pieces from the ring together and writes one fact per direction of a connection."""

    def __init__(self, writer: RecordingWriter) -> None:
        self._writer = writer
        self._open: dict[tuple[int, int], tuple[int, bytearray, int, bool]] = {}
        self._known: dict[bytes, int] = {}
        self._next = 1

    def take(self, layout: StreamLayout, runs: Iterable[memoryview]) -> None:
        """Take new pieces, in the order in which the kernel wrote them."""
        at = {field.name: layout.offset + field.offset for field in layout.fields}
        data = b"".join(runs)
        for start in range(0, len(data), layout.stride):
            (now,) = struct.unpack_from("=Q", data, start + at["time"])
            (cookie,) = struct.unpack_from("=Q", data, start + at["cookie"])
            (offset,) = struct.unpack_from("=I", data, start + at["offset"])
            (length,) = struct.unpack_from("=H", data, start + at["length"])
            body = start + at["data"]
            self._add(cookie, data[start + at["direction"]], now, offset, data[body : body + length])

    def _add(self, cookie: int, direction: int, now: int, offset: int, piece: bytes) -> None:
        key = (cookie, direction)
        if key not in self._open and len(self._open) >= _MAX_OPEN:
            self.flush(now, quiet_ns=0)
        began, raw, _, whole = self._open.get(key, (now, bytearray(), now, True))
        if whole and offset == len(raw) and len(raw) + len(piece) <= _MAX_BYTES:
            raw += piece
        else:
            whole = False
        self._open[key] = (began, raw, now, whole)

    def flush(self, now_ns: int | None = None, *, quiet_ns: int = _QUIET_NS) -> None:
        """Write the hellos that are complete: nothing came for `quiet_ns`."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) if now_ns is None else now_ns
        for key in [key for key, (_, _, last, _) in self._open.items() if now - last >= quiet_ns]:
            began, raw, _, whole = self._open.pop(key)
            self._write(key, began, messages(bytes(raw)), whole=whole)

    def _write(self, key: tuple[int, int], began: int, hello: bytes, *, whole: bool) -> None:
        session, data = session_id(hello), redact(hello)
        fact = {
            "cookie": key[0],
            "direction": "send" if key[1] == _SEND else "receive",
            "at_ns": began,
            "whole": whole,
            "session": session.hex() if session else None,
        }
        known = self._known.get(data)
        if known is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            fact["id"] = self._known[data] = self._next
            self._next += 1
            fact["data"] = base64.b64encode(zlib.compress(data, 6)).decode("ascii")
        else:
            fact["same"] = known
        self._writer.fact("hello", fact)


def messages(raw: bytes) -> bytes:
    """Return the handshake messages of a run of TLS records, put together; up to the first strange record."""
    found = bytearray()
    at = 0
    while at + 5 <= len(raw):
        kind, length = raw[at], int.from_bytes(raw[at + 3 : at + 5], "big")
        if kind == _HANDSHAKE:
            found += raw[at + 5 : at + 5 + length]
        elif kind not in _ALERT_OR_CCS:
            break
        at += 5 + length
    return bytes(found)


def redact(data: bytes) -> bytes:
    """Return handshake messages with secrets and bulk zeroed; same length."""
    out = bytearray(data)
    at = 0
    while at + 4 <= len(out):
        kind, length = out[at], int.from_bytes(out[at + 1 : at + 4], "big")
        body = at + 4
        end = min(body + length, len(out))
        if kind in (_CLIENT_HELLO, _SERVER_HELLO):
            _hello(out, body, end, client=kind == _CLIENT_HELLO)
        elif kind == _CERTIFICATE:
            _certificates(out, body, end)
        else:
            _zero(out, min(body + _KEPT_OF.get(kind, 0), end), end)
        at = body + length
    return bytes(out)


def session_id(data: bytes) -> bytes:
    """Return the first bytes of the session id in the first hello, empty where there is none."""
    if len(data) < 4 + 35 or data[0] not in (_CLIENT_HELLO, _SERVER_HELLO):
        return b""
    return data[39 : 39 + min(data[38], _SESSION_ID_KEPT)]


def _zero(out: bytearray, start: int, end: int) -> None:
    if end > start:
        out[start:end] = bytes(end - start)


def _hello(out: bytearray, at: int, end: int, *, client: bool) -> None:
    """Zero random, session id, and what extensions must not say."""
    if at + 35 > end:
        _zero(out, at, end)
        return
    if bytes(out[at + 2 : at + 34]) != _RETRY_RANDOM:
        _zero(out, at + 2, at + 34)
    session = out[at + 34]
    _zero(out, at + 35, min(at + 35 + session, end))
    at += 35 + session
    if client:
        at += 2 + int.from_bytes(out[at : at + 2], "big")
        at += 1 + int.from_bytes(out[at : at + 1], "big")
    else:
        at += 3
    at += 2  # the length of all extensions
    while at + 4 <= end:
        kind, length = struct.unpack_from(">HH", out, at)
        start, stop = at + 4, min(at + 4 + length, end)
        if kind in _EMPTIED_EXTENSIONS:
            _zero(out, start, stop)
        elif kind == _KEY_SHARE:
            _key_shares(out, start + (2 if client else 0), stop)
        at += 4 + length


def _key_shares(out: bytearray, at: int, end: int) -> None:
    """Keep groups and lengths; a HelloRetryRequest holds a group alone."""
    while at + 4 <= end:
        length = int.from_bytes(out[at + 2 : at + 4], "big")
        _zero(out, at + 4, min(at + 4 + length, end))
        at += 4 + length


def _certificates(out: bytearray, at: int, end: int) -> None:
    """Keep the lengths in a TLS 1.2 chain; the certificates themselves are nobody's business here."""
    at += 3
    while at + 3 <= end:
        length = int.from_bytes(out[at : at + 3], "big")
        _zero(out, at + 3, min(at + 3 + length, end))
        at += 3 + length

