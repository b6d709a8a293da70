# SPDX-License-Identifier: Apache-2.0
"""Handshake messages of TLS 1.0 to 1.3, from bytes: what was offered, what was chosen. Pure.

`read` takes the messages of one direction one after the other, without the headers of the records that carried them
(RFC 8446 section 4, RFC 5246 section 7.4), as the fact `hello` has them. It reads each field once, checks every length
against what is there, and never raises: what does not fit is left out and told as `cut`. Values that recordings hold
as zeros (keys, tickets, identities) are only counted; zeros in lists of numbers and names are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from netdiag.decode.tls_names import cipher_name, group_name, is_grease, version_name

__all__ = ["ClientHello", "Messages", "ServerHello", "read"]

_CLIENT_HELLO, _SERVER_HELLO, _NEW_SESSION_TICKET, _CERTIFICATE, _SERVER_KEY_EXCHANGE = 1, 2, 4, 11, 12
_HELLO_RETRY_DRAFT = 6
"""HelloRetryRequest was a message of its own up to draft 21."""
_KNOWN_TYPES = frozenset({0, 1, 2, 3, 4, 5, 6, 8, 11, 12, 13, 14, 15, 16, 20, 21, 22, 24, 25, 67, 254})
_SERVER_NAME, _GROUPS, _ALPN, _TICKET, _PSK, _EARLY_DATA, _VERSIONS, _PSK_MODES, _KEY_SHARE = (
    0, 10, 16, 35, 41, 42, 43, 45, 51,
)  # fmt: skip
_DRAFT_KEY_SHARE = 40
_RETRY_RANDOM = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
"""RFC 8446 section 4.1.3."""
_TLS12 = 0x0303
_NAMED_CURVE = 3
_MAX_MESSAGES = 64
_MAX_EXTENSIONS = 256
_MAX_ITEMS = 512
"""Of a list; a hello of 64 KiB could hold more, a real one has at most a few dozen."""
_MAX_NAME = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientHello:
    """What a client offers. Lists are in its order, without placeholders."""

    size: int
    """Bytes of the message, its header of 4 included."""
    legacy_version: str
    versions: tuple[str, ...]
    """`supported_versions`; the legacy version alone where there is no such extension."""
    ciphers: tuple[str, ...]
    session_id_bytes: int
    sni: str | None = None
    alpn: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    key_shares: tuple[str, ...] = ()
    """Groups for which a key is sent along."""
    ticket: bool | None = None
    """The extension session_ticket: None = absent, False = empty (asks for one), True = carries one."""
    psk: bool = False
    early_data: bool = False
    psk_modes: tuple[int, ...] = ()
    """0 = psk_ke, 1 = psk_dhe_ke."""
    extensions: tuple[int, ...] = ()
    """Numbers of all extensions, without placeholders."""
    grease: bool = False
    cut: bool = False
    """Not all of it was there or fitted: what is absent may have been offered."""

    @property
    def offers_13(self) -> bool:
        """It offers TLS 1.3 or a draft of it."""
        return any(version.startswith("TLSv1.3") for version in self.versions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerHello:
    """What a server chose, or that it asks for another ClientHello."""

    size: int
    version: str
    cipher: str
    session_id_bytes: int
    retry: bool = False
    """It is a HelloRetryRequest: nothing is decided yet."""
    group: str | None = None
    """Of its key share; with `retry` the group that it wants. None in TLS 1.2, where ServerKeyExchange has it."""
    psk: bool = False
    """It accepted a pre-shared key: TLS 1.3 resumption."""
    alpn: str | None = None
    ticket: bool = False
    """TLS 1.2: it will send a NewSessionTicket."""
    extensions: tuple[int, ...] = ()
    """Numbers of its extensions, in its order."""
    cut: bool = False

    @property
    def is_13(self) -> bool:
        """It chose TLS 1.3 or a draft of it."""
        return self.version.startswith("TLSv1.3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """The handshake messages of one direction that pass in the clear."""

    kinds: tuple[int, ...] = ()
    """Types of all messages, in order (RFC 8446 section 4)."""
    client_hellos: tuple[ClientHello, ...] = ()
    server_hellos: tuple[ServerHello, ...] = ()
    certificates: int | None = None
    """Length of the chain in TLS 1.2; None where no certificate message was seen."""
    certificate_bytes: int | None = None
    curve: str | None = None
    """Of the ServerKeyExchange of TLS 1.2."""
    ticket_lifetimes: tuple[int, ...] = ()
    """Hints of the NewSessionTickets of TLS 1.2, seconds."""
    cut_at: int | None = None
    """Offset of the first byte that could not be used; None when all could."""

    @property
    def final(self) -> ServerHello | None:
        """The ServerHello that decides: the first that is no retry."""
        return next((hello for hello in self.server_hellos if not hello.retry), None)


class _CutError(Exception):
    """There is less than a length says."""


class _Bytes:
    """Reads from a stretch of bytes, never past its end."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self._data, self.at, self.end = data, at, min(end, len(data))
        self.short = end > len(data)
        """The data end before this does."""

    @property
    def left(self) -> int:
        return self.end - self.at

    def take(self, length: int) -> bytes:
        if length > self.left:
            raise _CutError
        self.at += length
        return self._data[self.at - length : self.at]

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def part(self, width: int) -> _Bytes:
        """Take a vector whose length stands in `width` bytes."""
        length = self.number(width)
        if length > self.left:
            raise _CutError
        self.at += length
        return _Bytes(self._data, self.at - length, self.at)

    def numbers(self, width: int) -> tuple[int, ...]:
        """Return the rest as numbers of `width` bytes, at most so many as anybody sends."""
        count = min(self.left // width, _MAX_ITEMS)
        return tuple(self.number(width) for _ in range(count))


def read(data: bytes) -> Messages:
    """Return what the messages say; of a message that is cut, what was there."""
    found = _Found()
    at = 0
    while at < len(data):
        kind, end = data[at], at + 4 + int.from_bytes(data[at + 1 : at + 4], "big")
        strange = len(data) - at < 4 or kind not in _KNOWN_TYPES or len(found.kinds) >= _MAX_MESSAGES
        if strange:
            found.cut_at = at
            break
        found.take(kind, _Bytes(data, at + 4, end), size=end - at)
        if end > len(data):
            found.cut_at = len(data)
        at = end
    return found.messages()


class _Found:
    """Collects messages."""

    def __init__(self) -> None:
        self.kinds: list[int] = []
        self.clients: list[ClientHello] = []
        self.servers: list[ServerHello] = []
        self.certificates: int | None = None
        self.certificate_bytes: int | None = None
        self.curve: str | None = None
        self.lifetimes: list[int] = []
        self.cut_at: int | None = None

    def take(self, kind: int, body: _Bytes, *, size: int) -> None:
        self.kinds.append(kind)
        try:
            if kind == _CLIENT_HELLO:
                self.clients.append(_client_hello(body, size))
            elif kind in (_SERVER_HELLO, _HELLO_RETRY_DRAFT):
                self.servers.append(_server_hello(body, size) if kind == _SERVER_HELLO else _draft_retry(body, size))
            elif kind == _CERTIFICATE and self.certificates is None:
                self.certificate_bytes = size
                self.certificates = _certificates(body)
            elif kind == _SERVER_KEY_EXCHANGE and body.number(1) == _NAMED_CURVE:
                self.curve = group_name(body.number(2))
            elif kind == _NEW_SESSION_TICKET:
                self.lifetimes.append(body.number(4))
        except _CutError:
            self.cut_at = body.at if self.cut_at is None else self.cut_at

    def messages(self) -> Messages:
        return Messages(
            kinds=tuple(self.kinds),
            client_hellos=tuple(self.clients),
            server_hellos=tuple(self.servers),
            certificates=self.certificates,
            certificate_bytes=self.certificate_bytes,
            curve=self.curve,
            ticket_lifetimes=tuple(self.lifetimes),
            cut_at=self.cut_at,
        )


def _client_hello(body: _Bytes, size: int) -> ClientHello:
    """Read a ClientHello; without its fixed part it is none, and _CutError is raised."""
    legacy = body.number(2)
    body.take(32)
    session = body.part(1).left
    suites = body.part(2).numbers(2)
    hello = ClientHello(
        size=size,
        legacy_version=version_name(legacy),
        versions=(version_name(legacy),),
        ciphers=_named(suites, cipher_name),
        session_id_bytes=session,
        grease=any(map(is_grease, suites)),
    )
    try:
        body.part(1)  # compression methods
    except _CutError:
        return replace(hello, cut=True)
    extensions, cut = _extensions(body)
    for kind, content in extensions:
        reader = _CLIENT_EXTENSIONS.get(kind)
        try:
            hello = reader(hello, content) if reader else replace(hello, grease=hello.grease or is_grease(kind))
        except _CutError:
            cut = True
    numbers = tuple(kind for kind, _ in extensions if not is_grease(kind))
    return replace(hello, cut=cut or body.short, extensions=numbers)


def _extensions(body: _Bytes) -> tuple[list[tuple[int, _Bytes]], bool]:
    """Return type and content of each extension, and whether something is missing; a hello may have none at all."""
    found: list[tuple[int, _Bytes]] = []
    if not body.left:
        return found, False
    try:
        declared = body.number(2)
        while body.left and len(found) < _MAX_EXTENSIONS:
            found.append((body.number(2), body.part(2)))
            declared -= 4 + found[-1][1].left
    except _CutError:
        return found, True
    return found, declared != 0


def _named(values: tuple[int, ...], name: Callable[[int], str]) -> tuple[str, ...]:
    """Return names, without placeholders and without zeros: those stand for what was not kept."""
    return tuple(name(value) for value in values if value and not is_grease(value))


def _read_sni(hello: ClientHello, content: _Bytes) -> ClientHello:
    names = content.part(2)
    while names.left:
        host = names.number(1) == 0
        name = names.part(2)
        if host and hello.sni is None:
            hello = replace(hello, sni=_text(name))
    return hello


def _text(name: _Bytes) -> str:
    """Return a name as text; what is no printable ASCII as escapes, so that no terminal obeys it."""
    raw = name.take(min(name.left, _MAX_NAME))
    return "".join(chr(byte) if 0x20 < byte < 0x7F else f"\\x{byte:02x}" for byte in raw)


def _read_alpn(hello: ClientHello, content: _Bytes) -> ClientHello:
    names = content.part(2)
    found: list[str] = []
    while names.left and len(found) < _MAX_ITEMS:
        name = names.part(1)
        raw = name.take(name.left)
        if any(raw) and not (len(raw) == 2 and is_grease(int.from_bytes(raw, "big"))):
            found.append(_text(_Bytes(raw, 0, len(raw))))
    return replace(hello, alpn=tuple(found))


def _read_groups(hello: ClientHello, content: _Bytes) -> ClientHello:
    return replace(hello, groups=_named(content.part(2).numbers(2), group_name))


def _read_key_shares(hello: ClientHello, content: _Bytes) -> ClientHello:
    shares = content.part(2)
    found: list[int] = []
    while shares.left and len(found) < _MAX_ITEMS:
        found.append(shares.number(2))
        shares.part(2)
    return replace(hello, key_shares=_named(tuple(found), group_name))


def _read_versions(hello: ClientHello, content: _Bytes) -> ClientHello:
    versions = content.part(1).numbers(2)
    named = _named(versions, version_name)
    return replace(hello, versions=named or hello.versions, grease=hello.grease or any(map(is_grease, versions)))


_CLIENT_EXTENSIONS: dict[int, Callable[[ClientHello, _Bytes], ClientHello]] = {
    _SERVER_NAME: _read_sni,
    _GROUPS: _read_groups,
    _ALPN: _read_alpn,
    _TICKET: lambda hello, content: replace(hello, ticket=content.left > 0),
    _PSK: lambda hello, _: replace(hello, psk=True),
    _EARLY_DATA: lambda hello, _: replace(hello, early_data=True),
    _VERSIONS: _read_versions,
    _PSK_MODES: lambda hello, content: replace(hello, psk_modes=content.part(1).numbers(1)),
    _KEY_SHARE: _read_key_shares,
    _DRAFT_KEY_SHARE: _read_key_shares,
}


def _server_hello(body: _Bytes, size: int) -> ServerHello:
    """Read a ServerHello; one that ends before its cipher decides nothing, and _CutError is raised."""
    version = body.number(2)
    retry = body.take(32) == _RETRY_RANDOM
    # drafts of TLS 1.3 up to 21 had neither session id nor compression
    bare = version != _TLS12 and version_name(version).startswith("TLSv1.3")
    session = 0 if bare else body.part(1).left
    cipher = body.number(2)
    if not bare:
        body.take(min(1, body.left))
    hello = ServerHello(
        size=size, version=version_name(version), cipher=cipher_name(cipher), session_id_bytes=session, retry=retry
    )
    return _chosen(hello, body)


def _draft_retry(body: _Bytes, size: int) -> ServerHello:
    hello = ServerHello(
        size=size, version=version_name(body.number(2)), cipher="0x0000", session_id_bytes=0, retry=True
    )
    return _chosen(hello, body)


def _chosen(hello: ServerHello, body: _Bytes) -> ServerHello:
    extensions, cut = _extensions(body)
    for kind, content in extensions:
        reader = _SERVER_EXTENSIONS.get(kind)
        try:
            hello = reader(hello, content) if reader else hello
        except _CutError:
            cut = True
    return replace(hello, cut=cut or body.short, extensions=tuple(kind for kind, _ in extensions))


def _chosen_alpn(hello: ServerHello, content: _Bytes) -> ServerHello:
    return replace(hello, alpn=_text(content.part(2).part(1)))


_SERVER_EXTENSIONS: dict[int, Callable[[ServerHello, _Bytes], ServerHello]] = {
    _ALPN: _chosen_alpn,
    _TICKET: lambda hello, _: replace(hello, ticket=True),
    _PSK: lambda hello, _: replace(hello, psk=True),
    _VERSIONS: lambda hello, content: replace(hello, version=version_name(content.number(2))),
    _KEY_SHARE: lambda hello, content: replace(hello, group=group_name(content.number(2))),
    _DRAFT_KEY_SHARE: lambda hello, content: replace(hello, group=group_name(content.number(2))),
}


def _certificates(body: _Bytes) -> int:
    """Count the chain of TLS 1.2; of one that is cut the length is not known, and _CutError is raised."""
    total, count = body.number(3), 0
    while total >= 3:
        length = body.number(3)
        count, total = count + 1, total - 3 - length
        body.at = min(body.at + length, body.end)
        if body.at == body.end and total > 0:
            raise _CutError
    return count
