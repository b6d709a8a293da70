# SPDX-License-Identifier: Apache-2.0
"""Handshake messages on their way into the recording, without what must not be kept.

What passes in the clear of a TLS handshake is kept as the fact `hello`, one per direction, with the lengths of
everything but without its secrets and bulk (RFC 8446 section 4, RFC 5246 section 7.4): only what a list here names is
copied - versions, cipher suites, groups, names of host and protocols - and all else becomes zeros: randoms, key shares,
tickets, PSK identities and binders, cookies, certificates, signatures. Of a session id four bytes are kept apart, so
that its echo is recognised. What is left is mostly the same for each connection of a client, and is written once.
Nothing is interpreted here that isn't needed to find those places; where a message does not fit the grammar, nothing of
its lists is kept. Standard library only.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterable

from netdiag.recorder.facts import monotonic_ns
from netdiag.recording.format import StreamLayout
from netdiag.recording.writer import RecordingWriter

__all__ = ["Hellos", "messages", "redact", "session_id"]

_QUIET_NS = 300_000_000
"""A direction that was quiet for so long has said its hello."""
_MAX_OPEN = 20_000
_MAX_BYTES = 16_384
_HANDSHAKE = 22
_CHANGE_CIPHER_BYTES = 6
"""A ChangeCipherSpec record in a packet of its own is not handed on; between two hellos it says nothing."""
_CLIENT_HELLO, _SERVER_HELLO, _NEW_SESSION_TICKET, _CERTIFICATE, _SERVER_KEY_EXCHANGE = 1, 2, 4, 11, 12
_KNOWN_TYPES = frozenset({0, 1, 2, 3, 4, 5, 6, 8, 11, 12, 13, 14, 15, 16, 20, 21, 22, 24, 25, 67, 254})
_NAMED_CURVE = 3
_KEY_SHARES = (40, 51)
"""Of drafts, and of RFC 8446."""
_CLIENT_KEPT = {0: 2, 10: 2, 11: 1, 13: 2, 16: 2, 28: 0, 43: 1, 45: 1}
"""server_name, supported_groups, ec_point_formats, signature_algorithms, ALPN, record_size_limit, supported_versions,
psk_key_exchange_modes: the extensions whose content stays, where it is a list whose length stands in so many bytes; 0 =
one number of two bytes."""
_SERVER_KEPT = {11: 1, 16: 2, 28: 0, 41: 0, 43: 0}
"""Of a server's pre_shared_key there is only the number of the identity that it chose."""
_RETRY_RANDOM = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
"""The random of a ServerHello that is a HelloRetryRequest: RFC 8446 section 4.1.3."""
_HELLO_FIXED = 35
"""Version, random, length of the session id."""
_MAX_SUITES_BYTES, _MAX_METHODS = 1024, 8
"""No client has longer lists of cipher suites and compression methods."""
_SESSION_ID_KEPT = 4
_SEND = 1
"""Of `enum nd_direction`."""
_MAX_KNOWN = 4096
"""Different hellos that are remembered, to write each once."""


class _Open:
    """A direction of a connection that may still say more of its hello."""

    def __init__(self, *, began: int, start: int) -> None:
        self.began, self.last, self.raw, self.whole = began, began, bytearray(), True
        self._start = start

    def add(self, now: int, offset: int, piece: bytes) -> None:
        """Add a piece that continues what is there; any other shows that something is missing."""
        self.last = now
        gap = offset - self._start - len(self.raw)
        fits = gap == 0 or (gap == _CHANGE_CIPHER_BYTES and _is_record(piece) and _ends_with_record(self.raw))
        if self.whole and fits and len(self.raw) + len(piece) <= _MAX_BYTES and (self.raw or _is_record(piece)):
            self._start += gap
            self.raw += piece
        else:
            self.whole = False


def _is_record(data: bytes) -> bool:
    """Tell whether the header of a record of the handshake's time stands here."""
    return data[:1] in (b"\x14", b"\x15", b"\x16") and data[1:2] == b"\x03"


class Hellos:
    """Puts pieces from the ring together and writes one fact per direction of a connection."""

    def __init__(self, writer: RecordingWriter) -> None:
        self._writer = writer
        self._open: dict[tuple[int, int], _Open] = {}
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
        hello = self._open.get(key)
        if hello is None:
            # behind a proxy's CONNECT or after a pause a hello does not begin at the start of the stream
            hello = self._open[key] = _Open(began=now, start=offset)
        hello.add(now, offset, piece)

    def flush(self, now_ns: int | None = None, *, quiet_ns: int = _QUIET_NS) -> None:
        """Write the hellos that are complete: nothing came for `quiet_ns`."""
        now = monotonic_ns() if now_ns is None else now_ns
        for key in [key for key, hello in self._open.items() if now - hello.last >= quiet_ns]:
            hello = self._open.pop(key)
            self._write(key, hello.began, messages(bytes(hello.raw)), whole=hello.whole)

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


def _ends_with_record(raw: bytes | bytearray) -> bool:
    at = 0
    while at + 5 <= len(raw):
        at += 5 + int.from_bytes(raw[at + 3 : at + 5], "big")
    return at == len(raw)


def messages(raw: bytes) -> bytes:
    """Return the handshake messages of a run of TLS records, put together; up to the first strange record."""
    found = bytearray()
    at = 0
    while at + 5 <= len(raw) and _is_record(raw[at : at + 2]):
        length = int.from_bytes(raw[at + 3 : at + 5], "big")
        if raw[at] == _HANDSHAKE:
            found += raw[at + 5 : at + 5 + length]
        at += 5 + length
    return bytes(found)


def redact(data: bytes) -> bytes:
    """Return handshake messages with secrets and bulk zeroed; same length."""
    out = bytearray(len(data))
    at = 0
    while at + 4 <= len(data) and data[at] in _KNOWN_TYPES:
        kind, length = data[at], int.from_bytes(data[at + 1 : at + 4], "big")
        out[at : at + 4] = data[at : at + 4]
        body, end = at + 4, min(at + 4 + length, len(data))
        for start, stop in _kept(data, kind, body, end, whole=at + 4 + length <= len(data)):
            out[start:stop] = data[start:stop]
        at = body + length
    return bytes(out)


def session_id(data: bytes) -> bytes:
    """Return the first bytes of the session id in the first hello, empty where there is none."""
    if len(data) < 4 + 35 or data[0] not in (_CLIENT_HELLO, _SERVER_HELLO):
        return b""
    return data[39 : 39 + min(data[38], _SESSION_ID_KEPT)]


_Spans = list[tuple[int, int]]


def _kept(data: bytes, kind: int, at: int, end: int, *, whole: bool) -> _Spans:
    """Return which stretches of a message's body stay."""
    if kind in (_CLIENT_HELLO, _SERVER_HELLO):
        spans, fits = _hello(data, at, end, client=kind == _CLIENT_HELLO)
        # of a whole message that does not fit the grammar nobody knows what stands where
        return spans if fits or not whole else [(at, min(at + 2, end))]
    if kind == _CERTIFICATE:
        return _lengths(data, at, end)
    if kind == _NEW_SESSION_TICKET or (kind == _SERVER_KEY_EXCHANGE and data[at : at + 1] == bytes([_NAMED_CURVE])):
        return [(at, min(at + 4, end))]  # a lifetime; a curve and the length of its key
    return []


def _hello(data: bytes, at: int, end: int, *, client: bool) -> tuple[_Spans, bool]:
    """Return the stretches of a hello that stay, and whether all its lengths fit."""
    if at + _HELLO_FIXED > end:
        return [(at, min(at + 2, end))], False
    spans = [(at, at + 2), (at + 34, at + 35)]
    if data[at + 2 : at + 34] == _RETRY_RANDOM:
        spans.append((at + 2, at + 34))
    at += _HELLO_FIXED + data[at + 34]
    if client:
        for width, most in ((2, _MAX_SUITES_BYTES), (1, _MAX_METHODS)):  # cipher suites, compression methods
            start = at
            at += width + int.from_bytes(data[at : min(at + width, end)], "big")
            if at - start - width > most:
                return spans, False
            spans.append((start, min(at, end)))
    else:
        spans.append((at, min(at + 3, end)))
        at += 3
    if at >= end:
        return [(start, stop) for start, stop in spans if start < stop], at == end
    extensions, stop = _extensions(data, at + 2, end, client=client)
    fits = at + 2 <= end and stop == end and int.from_bytes(data[at : at + 2], "big") == end - at - 2
    return [*spans, (at, min(at + 2, end)), *extensions], fits


def _extensions(data: bytes, at: int, end: int, *, client: bool) -> tuple[_Spans, int]:
    """Return the stretches of the extensions that stay, and where the last one ends."""
    kept = _CLIENT_KEPT if client else _SERVER_KEPT
    spans: _Spans = []
    while at + 4 <= end:
        kind, length = struct.unpack_from(">HH", data, at)
        start, stop = at + 4, min(at + 4 + length, end)
        spans.append((at, start))
        if kind in kept and _is_list(data, start, stop, start + length, kept[kind]):
            spans.append((start, stop))
        elif kind in _KEY_SHARES:
            spans += _key_shares(data, start, stop, client=client)
        at += 4 + length
    return spans, at


def _is_list(data: bytes, at: int, stop: int, end: int, width: int) -> bool:
    """Tell whether a list fills its place, whose `end` may lie behind the last byte that is there, `stop`."""
    if width == 0:
        return end - at == 2
    return at + width <= stop and int.from_bytes(data[at : at + width], "big") == end - at - width


def _key_shares(data: bytes, at: int, end: int, *, client: bool) -> _Spans:
    """Keep groups and lengths; a HelloRetryRequest holds a group alone."""
    if end - at == 2:
        return [(at, end)]
    spans = [(at, at + 2)] if client and at + 2 <= end else []
    at += 2 if client else 0
    while at + 4 <= end:
        spans.append((at, at + 4))
        at += 4 + int.from_bytes(data[at + 2 : at + 4], "big")
    return spans


def _lengths(data: bytes, at: int, end: int) -> _Spans:
    """Keep the lengths in a TLS 1.2 chain; the certificates themselves are nobody's business here."""
    spans = [(at, min(at + 3, end))]
    at += 3
    while at + 3 <= end:
        spans.append((at, at + 3))
        at += 3 + int.from_bytes(data[at : at + 3], "big")
    return spans
