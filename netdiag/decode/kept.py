# SPDX-License-Identifier: Apache-2.0
"""What may be kept of handshake messages: everything else becomes zeros before it is written anywhere. Pure.

Lengths, and values from short lists: versions, cipher suites, groups, signature algorithms, names of hosts and
protocols (RFC 8446 section 4, RFC 5246 section 7.4). A value is copied when it is one that the registries know, or has
the form of a name, and when the list that holds it fills its place to the byte: so wherever a mangled length leads, of
randoms, key shares, tickets, identities, binders, cookies, certificates and signatures at most single numbers of two
or three bytes are copied that look like one of those values or like a length. Standard library only.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping

from netdiag.decode.tls_names import GROUPS, is_grease

__all__ = ["messages", "redact", "session_id"]

_HANDSHAKE = 22
_CLIENT_HELLO, _SERVER_HELLO, _NEW_SESSION_TICKET, _CERTIFICATE, _SERVER_KEY_EXCHANGE = 1, 2, 4, 11, 12
_KNOWN_TYPES = frozenset({0, 1, 2, 3, 4, 5, 6, 8, 11, 12, 13, 14, 15, 16, 20, 21, 22, 24, 25, 67, 254})
_NAMED_CURVE = 3
_RETRY_RANDOM = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
"""The random of a ServerHello that is a HelloRetryRequest: RFC 8446 section 4.1.3."""
_HELLO_FIXED = 35
"""Version, random, length of the session id."""
_MAX_SUITES_BYTES, _MAX_METHODS = 1024, 8
"""No client has longer lists of cipher suites and compression methods."""
_LONGEST_S = 1 << 24
"""Half a year; no ticket lives for longer."""
_MAX_EXTENSIONS, _MAX_CERTIFICATES = 64, 32
_MAX_SHARE = 4096
"""Bytes of a key share; the largest that is in use has 1,665."""
_SESSION_ID_KEPT, _MAX_SESSION_ID = 4, 32
_DRAFTS = 0x7F00
_OLD_GROUPS = 41
"""The last of the curves that have numbers from 1 on: RFC 8422, RFC 9189."""
_HOST = re.compile(rb"[A-Za-z0-9_*-][A-Za-z0-9._*:-]{0,252}")
_PROTOCOL = re.compile(rb"[a-z][a-z0-9./_-]{0,15}")
_SUITES = (
    (0x0001, 0x00C7), (0x00FF, 0x00FF), (0x1301, 0x1307), (0x5600, 0x5600), (0xC001, 0xC0B5), (0xC100, 0xC107),
    (0xCC13, 0xCC15), (0xCCA8, 0xCCAE), (0xD001, 0xD005), (0xFEFE, 0xFEFF),
)  # fmt: skip
"""The numbers that IANA has given to cipher suites, and those of old drafts."""


def redact(data: bytes) -> bytes:
    """Return handshake messages with secrets and bulk zeroed; same length. Never raises."""
    out = bytearray(len(data))
    at = 0
    while at + 4 <= len(data) and data[at] in _KNOWN_TYPES:
        length = int.from_bytes(data[at + 1 : at + 4], "big")
        out[at : at + 4] = data[at : at + 4]
        body = at + 4
        message = _Message(data, body, body + length)
        message.copy(data[at])
        for start, stop in message.kept:
            out[start:stop] = data[start:stop]
        at = body + length
    return bytes(out)


def messages(raw: bytes) -> bytes:
    """Return the handshake messages of a run of TLS records, put together; up to the first strange record."""
    found = bytearray()
    at = 0
    while at + 5 <= len(raw) and raw[at] in (20, 21, _HANDSHAKE) and raw[at + 1] == 3:
        length = int.from_bytes(raw[at + 3 : at + 5], "big")
        if raw[at] == _HANDSHAKE:
            found += raw[at + 5 : at + 5 + length]
        at += 5 + length
    return bytes(found)


def session_id(data: bytes) -> bytes:
    """Return the first bytes of the session id in the first hello, empty where there is none."""
    if len(data) < 4 + _HELLO_FIXED or data[0] not in (_CLIENT_HELLO, _SERVER_HELLO):
        return b""
    return data[39 : 39 + min(data[38], _SESSION_ID_KEPT)]


class _Message:
    """Finds the stretches of one message that stay. Its declared end may lie behind the last byte that is there."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self._data, self._at, self._end = data, at, end
        self._stop = min(end, len(data))
        self.kept: list[tuple[int, int]] = []

    @property
    def _cut(self) -> bool:
        return self._stop < self._end

    def copy(self, kind: int) -> None:
        """Collect what stays of a message of that type."""
        at = self._at
        if kind in (_CLIENT_HELLO, _SERVER_HELLO):
            fits = self._hello(client=kind == _CLIENT_HELLO)
            if not fits:  # nobody knows what stands where
                self.kept = []
        elif kind == _CERTIFICATE:
            self._chain()
        elif kind == _NEW_SESSION_TICKET and self._number(at, 4) <= _LONGEST_S:
            self._keep(at, at + 4)
        elif kind == _SERVER_KEY_EXCHANGE and self._data[at : at + 1] == bytes([_NAMED_CURVE]) and self._curve(at + 1):
            self._keep(at, at + 4)  # with the length of its key

    def _curve(self, at: int) -> bool:
        return _is_group(self._number(at, 2))

    def _keep(self, start: int, end: int) -> None:
        if start < min(end, self._stop):
            self.kept.append((start, min(end, self._stop)))

    def _number(self, at: int, width: int) -> int:
        return int.from_bytes(self._data[at : min(at + width, self._stop)], "big")

    def _hello(self, *, client: bool) -> bool:
        """Collect what stays of a hello; returns whether all its lengths fit, as far as it is there."""
        at = self._at
        if at + _HELLO_FIXED > self._stop:
            return False
        if not _is_version(version := self._number(at, 2)):
            return False
        self._keep(at, at + 2)
        if self._data[at + 2 : at + 34] == _RETRY_RANDOM:
            self._keep(at + 2, at + 34)
        bare = not client and version > _DRAFTS
        if bare:  # neither session id nor compression: RFC 8446 came to echo them later
            at += 34
        else:
            self._keep(at + 34, at + 35)
            if self._data[at + 34] > _MAX_SESSION_ID:
                return False
            at += _HELLO_FIXED + self._data[at + 34]
        if client:
            suites, methods = self._number(at, 2), self._number(at + 2 + self._number(at, 2), 1)
            if suites % 2 or suites > _MAX_SUITES_BYTES or methods > _MAX_METHODS:
                return False
            self._keep(at, at + 2)
            self._numbers(at + 2, at + 2 + suites, _is_suite)
            at += 2 + suites
            self._keep(at, at + 1)
            at += 1 + methods  # that nothing is compressed is all that they say
        else:
            self._keep(at, at + 2)
            at += 2 if bare else 3
        if at >= self._stop:
            return self._cut or at == self._end
        self._keep(at, at + 2)
        whole = self._number(at, 2) == self._end - at - 2
        return whole and self._extensions(at + 2, client=client)

    def _extensions(self, at: int, *, client: bool) -> bool:
        for _ in range(_MAX_EXTENSIONS):
            if at + 4 > self._stop:
                return self._cut or at == self._end
            kind, length = struct.unpack_from(">HH", self._data, at)
            if at + 4 + length > self._end:
                return False
            self._keep(at, at + 4)
            if at + 4 + length <= self._stop:  # of one that is cut nobody knows whether it fills its place
                keep = (_CLIENT_KEPT if client else _SERVER_KEPT).get(kind)
                if keep is not None:
                    keep(self, at + 4, at + 4 + length)
            at += 4 + length
        return False

    # --- contents of extensions -----------------------------------------------------------------------------------

    def _numbers(self, at: int, end: int, known: Callable[[int], bool]) -> None:
        """Keep those numbers of two bytes that are known."""
        for place in range(at, min(end, self._stop) - 1, 2):
            value = self._number(place, 2)
            if known(value) or is_grease(value):
                self.kept.append((place, place + 2))

    def list_of(self, at: int, end: int, width: int, known: Callable[[int], bool]) -> None:
        """Keep a list of numbers whose length stands in `width` bytes."""
        if at + width <= end and self._number(at, width) == end - at - width and (end - at - width) % 2 == 0:
            self._keep(at, at + width)
            self._numbers(at + width, end, known)

    def small(self, at: int, end: int, most: int) -> None:
        """Keep a list of single bytes none of which is larger than `most`, or a placeholder."""
        values = self._data[at + 1 : end]
        if at < end and self._data[at] == len(values) and all(v <= most or v % 0x1F == 0x0B for v in values):
            self._keep(at, at + 1)
            for place, value in enumerate(values, at + 1):
                if value <= most:
                    self._keep(place, place + 1)

    def number(self, at: int, end: int) -> None:
        """Keep a single number of two bytes."""
        if end - at == 2:
            self._keep(at, end)

    def hosts(self, at: int, end: int) -> None:
        """Keep the one host name: RFC 6066 section 3."""
        if end - at < 6 or self._number(at, 2) != end - at - 2 or self._data[at + 2] != 0:
            return
        if self._number(at + 3, 2) == end - at - 5 and _HOST.fullmatch(self._data, at + 5, end):
            self._keep(at, end)

    def protocols(self, at: int, end: int) -> None:
        """Keep names of protocols that look like one, and the lengths of all: RFC 7301 section 3.1."""
        if at + 2 > end or self._number(at, 2) != end - at - 2:
            return
        spans = [(at, at + 2)]
        at += 2
        while at < end:
            stop = at + 1 + self._data[at]
            if stop > end or stop == at + 1:
                return
            name = self._data[at + 1 : stop]
            plain = _PROTOCOL.fullmatch(name) or (len(name) == 2 and is_grease(int.from_bytes(name, "big")))
            spans.append((at, stop if plain else at + 1))
            at = stop
        self.kept += spans

    def shares(self, at: int, end: int, *, client: bool) -> None:
        """Keep groups and lengths of key shares; a HelloRetryRequest holds a group alone."""
        if end - at == 2:
            self._keep(at, end)
            return
        spans = []
        if client:
            if end - at < 2 or self._number(at, 2) != end - at - 2:
                return
            spans.append((at, at + 2))
            at += 2
        while at + 4 <= end:
            group, length = self._number(at, 2), self._number(at + 2, 2)
            if not 0 < length <= _MAX_SHARE:
                return
            known = not client or _is_group(group) or is_grease(group)
            spans.append((at if known else at + 2, at + 4))
            at += 4 + length
        if at == end:
            self.kept += spans

    def _chain(self) -> None:
        """Keep the lengths in a TLS 1.2 chain; the certificates themselves are nobody's business here."""
        at = self._at
        if at + 3 > self._stop or self._number(at, 3) != self._end - at - 3:
            return
        spans = [(at, at + 3)]
        at += 3
        while at + 3 <= self._stop and len(spans) <= _MAX_CERTIFICATES:
            length = self._number(at, 3)
            if not 0 < length <= self._end - at - 3:
                return
            spans.append((at, at + 3))
            at += 3 + length
        if self._cut or at == self._end:
            self.kept += spans


def _is_suite(value: int) -> bool:
    return any(low <= value <= high for low, high in _SUITES)


def _is_group(value: int) -> bool:
    return value in GROUPS or 0 < value <= _OLD_GROUPS


def _is_scheme(value: int) -> bool:
    """Signature schemes: RFC 8446 section 4.2.3, and hash with algorithm of RFC 5246 section 7.4.1.4.1."""
    return value >> 8 in range(1, 10) and value & 0xFF <= 0x20


def _is_version(value: int) -> bool:
    return 0x0300 <= value <= 0x0304 or _DRAFTS < value <= _DRAFTS + 28


_Keep = Callable[[_Message, int, int], None]

_CLIENT_KEPT: Mapping[int, _Keep] = {
    0: _Message.hosts,
    10: lambda message, at, end: message.list_of(at, end, 2, _is_group),
    11: lambda message, at, end: message.small(at, end, 2),
    13: lambda message, at, end: message.list_of(at, end, 2, _is_scheme),
    16: _Message.protocols,
    28: _Message.number,
    40: lambda message, at, end: message.shares(at, end, client=True),
    43: lambda message, at, end: message.list_of(at, end, 1, _is_version),
    45: lambda message, at, end: message.small(at, end, 1),
    51: lambda message, at, end: message.shares(at, end, client=True),
}
"""server_name, supported_groups, ec_point_formats, signature_algorithms, ALPN, record_size_limit, key_share (40: of
drafts), supported_versions, psk_key_exchange_modes."""
_SERVER_KEPT: Mapping[int, _Keep] = {
    11: lambda message, at, end: message.small(at, end, 2),
    16: _Message.protocols,
    28: _Message.number,
    40: lambda message, at, end: message.shares(at, end, client=False),
    41: _Message.number,
    43: _Message.number,
    51: lambda message, at, end: message.shares(at, end, client=False),
}
"""Of a server's pre_shared_key there is only the number of the identity that it chose."""
