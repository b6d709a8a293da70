# SPDX-License-Identifier: Apache-2.0
"""One TLS connection with known secrets: bytes of both directions in order of time in, contents of records out.

TLS 1.3 with early data and key updates, TLS 1.0 to 1.2 with renegotiation. What does not open is counted and given
out to nobody; after bytes that the capture lacks, records are found again by trying the numbers that may come next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from netdiag.capture.ciphers import Opener, Suite, candidates, expand_label, open_12, open_13, suite_of
from netdiag.capture.inside import Inside
from netdiag.capture.keylog import KeyLog

__all__ = ["Decryptor", "Opened"]

_CHANGE_CIPHER_SPEC, _ALERT, _HANDSHAKE, _DATA = 20, 21, 22, 23
_CLIENT_HELLO, _SERVER_HELLO, _END_OF_EARLY_DATA, _FINISHED, _KEY_UPDATE = 1, 2, 5, 20, 24
_VERSIONS_EXTENSION, _EARLY_DATA, _MAC_LAST = 43, 42, 22
_RETRY_RANDOM = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
_TLS12, _TLS13 = 0x0303, 0x0304
_HEADER = 5
_MAX_FRAGMENT = 16384 + 2048
_MAX_MESSAGE = 1 << 18
_MAX_TRIES = 4096
"""Sequence numbers tried after a gap, over the whole connection: each try reads a record once."""
_SEALED_BYTES = {"gcm": 24, "ccm": 24, "ccm8": 16, "chacha": 16, "cbc": 49}
"""What a record of TLS 1.2 is longer than its content, at least."""
_MAX_KEYS = 64
"""Key changes of one direction; each costs two derivations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """Application data of one record."""

    at_ns: int
    """When its last byte passed."""
    client: bool
    """The client sent it."""
    offset: int
    """Of its first byte in the direction's plaintext; after a gap as far as the sizes of records tell."""
    content: bytes = field(repr=False)


@dataclass(slots=True)
class _Side:
    client: bool
    buffer: bytearray = field(default_factory=bytearray)
    lost: bool = False
    """The next record's beginning is not known."""
    missing: int = 0
    """Bytes of the stream since then."""
    openers: tuple[Opener, ...] = ()
    """Of which the first record picks one; none while the direction is in the clear."""
    after: tuple[Opener, ...] = ()
    """Handshake keys while early data may still come."""
    secret: bytes = b""
    sequence: int = 0
    plain: int = 0
    messages: bytearray = field(default_factory=bytearray)
    changes: int = 0


class Decryptor:
    """Reads one connection."""

    def __init__(self, keys: KeyLog) -> None:
        self._keys = keys
        self._sides = {True: _Side(client=True), False: _Side(client=False)}
        self._randoms = {True: b"", False: b""}
        self._suite: Suite | None = None
        self._version = 0
        self._mac_last = False
        self._tries = _MAX_TRIES
        self.inside = Inside()

    def _secret(self, label: str) -> bytes:
        """Return what is known by now: a file may bring secrets after the hello that they belong to."""
        return self._keys.secret(self._randoms[True], label)

    def feed(self, at_ns: int, data: bytes, *, client: bool) -> Iterator[Opened]:
        """Take the next bytes of a direction; yield the application data that they complete."""
        side = self._sides[client]
        side.buffer += data
        while record := self._next(side):
            kind, version, fragment = record
            yield from self._record(side, at_ns, kind, version, fragment)

    def gap(self, missing: int, *, client: bool) -> None:
        """Tell that so many bytes of a direction are not in the capture."""
        side = self._sides[client]
        side.missing += missing + len(side.buffer)
        side.buffer.clear()
        side.messages.clear()
        side.lost = True

    def _next(self, side: _Side) -> tuple[int, int, bytes] | None:
        """Cut the next record off; None while it is not all there."""
        buffer = side.buffer
        if side.lost and not self._found_again(side):
            return None
        if len(buffer) < _HEADER:
            return None
        kind, version, length = buffer[0], buffer[1] << 8 | buffer[2], buffer[3] << 8 | buffer[4]
        if not _is_header(kind, version, length):
            self.gap(0, client=side.client)
            return None
        if len(buffer) < _HEADER + length:
            return None
        fragment = bytes(buffer[_HEADER : _HEADER + length])
        del buffer[: _HEADER + length]
        return kind, version, fragment

    def _found_again(self, side: _Side) -> bool:
        """Look for a record whose number is one of the next; what lies before it is dropped."""
        buffer = side.buffer
        while len(buffer) >= _HEADER:
            kind, version, length = buffer[0], buffer[1] << 8 | buffer[2], buffer[3] << 8 | buffer[4]
            if _is_header(kind, version, length) and side.openers:
                if len(buffer) < _HEADER + length:
                    return False
                if self._numbered(side, kind, version, bytes(buffer[_HEADER : _HEADER + length])):
                    side.lost, side.missing = False, 0
                    return True
            place = buffer.find(b"\x17\x03\x03", 1)
            cut = place if place > 0 else len(buffer) - 2
            side.missing += cut
            del buffer[:cut]
        return False

    def _numbered(self, side: _Side, kind: int, version: int, fragment: bytes) -> bool:
        """Find a record's number, at most as far on as the missing bytes could hold records."""
        most = side.missing // (_HEADER + 17) + 2
        for more in range(min(most, self._tries)):
            self._tries -= 1
            if any(each.open(side.sequence + more, kind, version, fragment) for each in side.openers):
                side.sequence += more
                side.plain += max(side.missing - more * (_HEADER + self._overhead()), 0)
                return True
        return False

    def _overhead(self) -> int:
        return 17 if self._version >= _TLS13 or self._suite is None else _SEALED_BYTES[self._suite.bulk]

    def _record(self, side: _Side, at_ns: int, kind: int, version: int, fragment: bytes) -> Iterator[Opened]:
        if kind == _CHANGE_CIPHER_SPEC:
            self._change(side)
            return
        if not side.openers:
            if kind == _DATA:
                self.inside.closed += 1
            elif kind in (_HANDSHAKE, _ALERT):
                self._content(side, at_ns, kind, fragment, sealed=False)
            return
        opened = self._open(side, kind, version, fragment)
        if opened is None:
            # a plain alert between sealed records: of a side that has no keys (yet)
            if kind == _ALERT and len(fragment) == 2:
                self._content(side, at_ns, kind, fragment, sealed=False)
            self.inside.closed += 1
            return
        self.inside.opened += 1
        kind, content = opened
        if kind == _DATA:
            if content:
                yield Opened(at_ns=at_ns, client=side.client, offset=side.plain, content=content)
            side.plain += len(content)
        else:
            self._content(side, at_ns, kind, content, sealed=True)

    def _open(self, side: _Side, kind: int, version: int, fragment: bytes) -> tuple[int, bytes] | None:
        if self._version >= _TLS13 and kind != _DATA:
            return None
        for opener in side.openers:
            found = opener.open(side.sequence, kind, version, fragment)
            if found:
                side.openers = (opener,)
                side.sequence += 1
                return found
        for opener in side.after:  # the early data are over, or were refused
            found = opener.open(0, kind, version, fragment)
            if found:
                side.openers, side.after, side.sequence = (opener,), (), 1
                return found
        return None

    def _content(self, side: _Side, at_ns: int, kind: int, content: bytes, *, sealed: bool) -> None:
        if kind == _ALERT:
            if len(content) == 2:
                self.inside.alert(at_ns, content[1], client=side.client, sealed=sealed)
            return
        if kind != _HANDSHAKE:
            return
        side.messages += content
        while len(side.messages) >= 4:
            size = 4 + int.from_bytes(side.messages[1:4], "big")
            if size > _MAX_MESSAGE:
                side.messages.clear()
                return
            if len(side.messages) < size:
                return
            message = bytes(side.messages[:size])
            del side.messages[:size]
            self._message(side, message, sealed=sealed)

    def _message(self, side: _Side, message: bytes, *, sealed: bool) -> None:
        kind, body = message[0], message[4:]
        if kind == _CLIENT_HELLO and side.client:
            self._client_hello(body)
        elif kind == _SERVER_HELLO and not side.client:
            self._server_hello(body)
        elif sealed and self._version != _TLS12 and self._is_13(side):
            self.inside.message(kind, body, client=side.client)
            if kind == _FINISHED:
                self._install(side, "TRAFFIC_SECRET_0")
            elif kind == _END_OF_EARLY_DATA and side.after:
                side.openers, side.after, side.sequence = side.after, (), 0
            elif kind == _KEY_UPDATE:
                self._update(side)
        elif not side.client:
            self.inside.message_12(kind, body)

    def _is_13(self, side: _Side) -> bool:
        return self._version >= _TLS13 or bool(side.secret)

    def _client_hello(self, body: bytes) -> None:
        random = body[2:34]
        if len(random) < 32:
            return
        self._randoms[True] = random
        side = self._sides[True]
        if _EARLY_DATA not in _extensions(body, _after_client_suites(body)) or side.openers:
            return
        early = self._secret("CLIENT_EARLY_TRAFFIC_SECRET")
        if early:
            side.openers = tuple(open_13(suite, early) for suite in candidates(early))
            side.secret = early

    def _server_hello(self, body: bytes) -> None:
        random = body[2:34]
        at = 35 + body[34] if len(body) > 34 else len(body)
        if len(random) < 32 or len(body) < at + 3 or random == _RETRY_RANDOM:
            return
        self._randoms[False] = random
        self._suite = suite_of(int.from_bytes(body[at : at + 2], "big"))
        extensions = _extensions(body, at + 3)
        said = extensions.get(_VERSIONS_EXTENSION, body[:2])
        self._version = int.from_bytes(said, "big")
        self._version = _TLS13 if self._version >> 8 == 0x7F else self._version
        self._mac_last = _MAC_LAST in extensions
        if self._version < _TLS13:
            return
        for client in (True, False):
            self._install(self._sides[client], "HANDSHAKE_TRAFFIC_SECRET")

    def _install(self, side: _Side, label: str) -> None:
        """Give a side the keys of a secret of TLS 1.3; one that sends early data goes on with those."""
        secret = self._secret(f"{'CLIENT' if side.client else 'SERVER'}_{label}")
        if not secret:
            # without the secret of the handshake, that of the data opens what follows it
            side.openers, side.after = (), ()
            if label != "TRAFFIC_SECRET_0":
                self._install(side, "TRAFFIC_SECRET_0")
            return
        suites = (self._suite,) if self._suite else candidates(secret)
        openers = tuple(open_13(suite, secret) for suite in suites)
        if side.client and side.openers and label == "HANDSHAKE_TRAFFIC_SECRET":
            side.after = openers
        else:
            side.openers, side.after, side.sequence = openers, (), 0
        side.secret = secret
        side.messages.clear()

    def _update(self, side: _Side) -> None:
        side.changes += 1
        if side.changes > _MAX_KEYS or not side.secret or self._suite is None:
            side.openers = ()
            return
        side.secret = expand_label(side.secret, "traffic upd", len(side.secret), self._suite.hash)
        side.openers, side.sequence = (open_13(self._suite, side.secret),), 0

    def _change(self, side: _Side) -> None:
        """Take the keys of TLS 1.2 into use; in TLS 1.3 a ChangeCipherSpec means nothing."""
        if self._version >= _TLS13 or not self._version or side.changes > _MAX_KEYS:
            return
        master = self._secret("CLIENT_RANDOM")
        side.openers, side.messages, side.changes = (), bytearray(), side.changes + 1
        if master and self._suite and all(self._randoms.values()):
            randoms = self._randoms[True], self._randoms[False]
            both = open_12(self._suite, master, randoms, self._version, mac_last=self._mac_last)
            side.openers, side.sequence = (both[0 if side.client else 1],), 0


def _is_header(kind: int, version: int, length: int) -> bool:
    return _CHANGE_CIPHER_SPEC <= kind <= _DATA and version >> 8 == 3 and 0 < length <= _MAX_FRAGMENT


def _after_client_suites(body: bytes) -> int:
    """Return where the extensions of a ClientHello begin."""
    at = 34
    for width in (1, 2, 1):
        at += width + int.from_bytes(body[at : at + width], "big")
    return at


def _extensions(body: bytes, at: int) -> dict[int, bytes]:
    """Return the extensions that follow; at most 64."""
    found: dict[int, bytes] = {}
    at += 2
    while at + 4 <= len(body) and len(found) < 64:
        kind, size = (int.from_bytes(body[place : place + 2], "big") for place in (at, at + 2))
        found[kind] = body[at + 4 : at + 4 + size]
        at += 4 + size
    return found
