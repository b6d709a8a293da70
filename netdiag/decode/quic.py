# SPDX-License-Identifier: Apache-2.0
"""QUIC as far as it can be read without anybody's keys: headers of packets, and the contents of Initial packets.

RFC 8999 (all versions), 9000 and 9001 (version 1), 9369 (version 2), and the drafts 29 to 34. The keys of Initial
packets follow from the connection id that the client chose first, so whoever sees that can read them. `packets` and
`open_initial` never raise for what the bytes say, and nothing they do grows beyond the datagram's size.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = [
    "Close", "Contents", "Crypto", "InitialKeys", "Kind", "Packet", "initial_keys", "is_retry_of", "open_initial",
    "packets", "version_name",
]  # fmt: skip

_V1, _V2, _NEGOTIATION = 0x00000001, 0x6B3343CF, 0
_FIRST_DRAFT, _LAST_DRAFT = 0xFF00001D, 0xFF000022
_SALTS = {
    _V1: bytes.fromhex("38762cf7f55934b34d179ae6a4c80cadccbb7f0a"),
    _V2: bytes.fromhex("0dede3def700a6db819381be6e269dcbf9bd2ed9"),
}
_DRAFT_SALT = bytes.fromhex("afbfec289993d24c9e9786f19c6111e04390a899")
"""Drafts 29 to 32; 33 and 34 have that of version 1."""
_RETRY_KEYS = {
    _V1: (bytes.fromhex("be0c690b9f66575a1d766b54e368c84e"), bytes.fromhex("461599d35d632bf2239825bb")),
    _V2: (bytes.fromhex("8fb4b01b56ac48e260fbcbcead7ccc92"), bytes.fromhex("d86969bc2d7c6d9990efb04a")),
}
_TAG = 16
_SAMPLE = 16
_MAX_ID = 20
_MAX_PACKETS = 16
"""Of one datagram: real ones hold up to four."""
_MAX_FRAMES = 256
_MAX_VERSIONS = 64
_PING, _ACK, _ACK_ECN, _CRYPTO, _CLOSE, _APPLICATION_CLOSE = 1, 2, 3, 6, 0x1C, 0x1D


class Kind(Enum):
    """What a packet is."""

    INITIAL = "initial"
    ZERO_RTT = "0-rtt"
    HANDSHAKE = "handshake"
    RETRY = "retry"
    NEGOTIATION = "version-negotiation"
    ONE_RTT = "1-rtt"
    UNKNOWN = "unknown"
    """A long header of a version whose packets are not known here."""


_KINDS_1 = (Kind.INITIAL, Kind.ZERO_RTT, Kind.HANDSHAKE, Kind.RETRY)
_KINDS_2 = (Kind.RETRY, Kind.INITIAL, Kind.ZERO_RTT, Kind.HANDSHAKE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """One packet of a datagram."""

    kind: Kind
    version: int = 0
    destination: bytes = b""
    """Connection id; empty in a short header, where its length cannot be seen."""
    source: bytes = b""
    versions: tuple[int, ...] = ()
    """Of a Version Negotiation."""
    data: bytes = field(default=b"", repr=False)
    """The whole packet, as protected as it passed."""
    protected_at: int = 0
    """Offset in `data` where the packet number begins; 0 where there is none."""
    cut: bool = False
    """It does not end within the bytes that are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crypto:
    """A part of the TLS handshake."""

    offset: int
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """A CONNECTION_CLOSE. An error of TLS is 0x100 plus the alert."""

    code: int
    application: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What an Initial packet says."""

    number: int
    crypto: tuple[Crypto, ...] = ()
    close: Close | None = None
    acknowledges: bool = False
    only_padding: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialKeys:
    """Keys of one direction's Initial packets."""

    key: bytes = field(repr=False)
    iv: bytes = field(repr=False)
    header: bytes = field(repr=False)


def version_name(number: int) -> str:
    """Return `QUICv1`, `QUICv2`, `QUIC-draft29`, or the number in hex."""
    if number in (_V1, _V2):
        return f"QUICv{1 if number == _V1 else 2}"
    if number >> 8 == 0xFF0000:
        return f"QUIC-draft{number & 0xFF}"
    return f"0x{number:08x}"


def packets(datagram: bytes) -> Iterator[Packet]:
    """Yield the packets of a datagram; nothing where it does not begin with one."""
    at = 0
    for _ in range(_MAX_PACKETS):
        if at >= len(datagram):
            return
        packet = _packet(datagram[at:])
        if packet is None:
            return
        yield packet
        at += len(packet.data)


def _packet(data: bytes) -> Packet | None:
    if not data[0] & 0x80:
        short = data[0] & 0x40 and len(data) > _SAMPLE + 4
        return Packet(kind=Kind.ONE_RTT, data=data) if short else None
    destination, at = _counted(data, 5)
    source, at = _counted(data, at)
    if destination is None or source is None:
        return None
    packet = Packet(
        kind=Kind.UNKNOWN,
        version=int.from_bytes(data[1:5], "big"),
        destination=destination,
        source=source,
        data=data,
        protected_at=at,
    )
    if packet.version == _NEGOTIATION:
        return _negotiation(packet)
    return _long(packet) if _is_known(packet.version) else packet


def _negotiation(packet: Packet) -> Packet | None:
    rest = packet.data[packet.protected_at :][: 4 * _MAX_VERSIONS]
    offered = tuple(int.from_bytes(rest[place : place + 4], "big") for place in range(0, len(rest), 4))
    return replace(packet, kind=Kind.NEGOTIATION, versions=offered) if offered and not len(rest) % 4 else None


def _long(packet: Packet) -> Packet | None:
    """Tell what a long header of a known version says; None where no such packet can be."""
    data, at = packet.data, packet.protected_at
    kind = (_KINDS_2 if packet.version == _V2 else _KINDS_1)[data[0] >> 4 & 3]
    if not data[0] & 0x40 or max(len(packet.destination), len(packet.source)) > _MAX_ID:
        return None
    if kind is Kind.RETRY:
        return replace(packet, kind=kind)
    if kind is Kind.INITIAL:
        token, at = _integer(data, at)
        at += token or 0
    size, at = _integer(data, at)
    if size is None or size < _SAMPLE + 4:
        return None
    end = at + size
    return replace(packet, kind=kind, data=data[:end], protected_at=at, cut=end > len(data))


def _is_known(version: int) -> bool:
    return version in _SALTS or _FIRST_DRAFT <= version <= _LAST_DRAFT


def _counted(data: bytes, at: int) -> tuple[bytes | None, int]:
    """Read a connection id with its length of a byte."""
    if at >= len(data) or at + 1 + data[at] > len(data):
        return None, at
    return data[at + 1 : at + 1 + data[at]], at + 1 + data[at]


def _integer(data: bytes, at: int) -> tuple[int | None, int]:
    """Read an integer of variable length (RFC 9000 section 16); None past the end."""
    if at >= len(data):
        return None, at
    size = 1 << (data[at] >> 6)
    if at + size > len(data):
        return None, at
    return int.from_bytes(data[at : at + size], "big") & ((1 << (8 * size - 2)) - 1), at + size


@functools.lru_cache(maxsize=64)
def initial_keys(destination: bytes, version: int) -> tuple[InitialKeys, InitialKeys] | None:
    """Return the keys of the client's and of the server's Initial packets; None for a version not known here.

    `destination` is the connection id of the client's first Initial packet, behind a Retry of the first one after it.
    """
    if not _is_known(version):
        return None
    salt = _SALTS.get(version) or (_DRAFT_SALT if version <= 0xFF000020 else _SALTS[_V1])
    secret = hmac.digest(salt, destination, "sha256")
    prefix = "quicv2" if version == _V2 else "quic"
    sides = (_expand(secret, f"{side} in", 32) for side in ("client", "server"))
    client, server = (
        InitialKeys(
            key=_expand(side, f"{prefix} key", 16),
            iv=_expand(side, f"{prefix} iv", 12),
            header=_expand(side, f"{prefix} hp", 16),
        )
        for side in sides
    )
    return client, server


def _expand(secret: bytes, label: str, length: int) -> bytes:
    """HKDF-Expand-Label of at most one block of SHA-256."""
    name = b"tls13 " + label.encode()
    info = length.to_bytes(2, "big") + bytes([len(name)]) + name + b"\0\1"
    return hmac.new(secret, info, hashlib.sha256).digest()[:length]


def open_initial(packet: Packet, keys: InitialKeys) -> Contents | None:
    """Return what an Initial packet says; None where these are not its keys, or it is cut."""
    data, at = packet.data, packet.protected_at
    if packet.kind is not Kind.INITIAL or packet.cut or len(data) < at + 4 + _SAMPLE:
        return None
    encryptor = Cipher(algorithms.AES(keys.header), modes.ECB()).encryptor()  # noqa: S305 - what RFC 9001 says
    mask = encryptor.update(data[at + 4 : at + 4 + _SAMPLE])
    first = data[0] ^ mask[0] & 0x0F
    size = (first & 3) + 1
    raw = bytes(a ^ b for a, b in zip(data[at : at + size], mask[1:], strict=False))
    number = int.from_bytes(raw, "big")  # there are too few Initial packets for more than its low bytes to be needed
    header = bytes([first]) + data[1:at] + raw
    nonce = (int.from_bytes(keys.iv, "big") ^ number).to_bytes(12, "big")
    try:
        text = AESGCM(keys.key).decrypt(nonce, data[at + size :], header)
    except (InvalidTag, ValueError):
        return None
    return _contents(number, text)


def _contents(number: int, text: bytes) -> Contents:
    """Read the frames that an Initial packet may hold (RFC 9000 section 12.4); behind a strange one, no more."""
    crypto: list[Crypto] = []
    close, acknowledges, at = None, False, 0
    for _ in range(_MAX_FRAMES):
        at = _end_of_padding(text, at)
        if at >= len(text):
            break
        kind, at = text[at], at + 1
        if kind == _PING:
            continue
        if kind in (_ACK, _ACK_ECN):
            acknowledges = True
            at = _skip_ack(text, at, ecn=kind == _ACK_ECN)
        elif kind == _CRYPTO:
            offset, at = _integer(text, at)
            length, at = _integer(text, at)
            if offset is None or length is None or at + length > len(text):
                break
            crypto.append(Crypto(offset=offset, data=text[at : at + length]))
            at += length
        elif kind in (_CLOSE, _APPLICATION_CLOSE):
            code, _ = _integer(text, at)
            close = None if code is None else Close(code=code, application=kind == _APPLICATION_CLOSE)
            break
        else:
            break
    nothing = not crypto and close is None and not acknowledges
    return Contents(number=number, crypto=tuple(crypto), close=close, acknowledges=acknowledges, only_padding=nothing)


def _end_of_padding(text: bytes, at: int) -> int:
    return len(text) - len(text[at:].lstrip(b"\0"))


def _skip_ack(text: bytes, at: int, *, ecn: bool) -> int:
    """Return the end of an acknowledgement; that of the text where it does not end."""
    _, at = _integer(text, at)
    _, at = _integer(text, at)
    ranges, at = _integer(text, at)
    if ranges is None or ranges > len(text):
        return len(text)
    for _ in range(1 + 2 * ranges + (3 if ecn else 0)):
        value, at = _integer(text, at)
        if value is None:
            return len(text)
    return at


def is_retry_of(packet: Packet, destination: bytes) -> bool:
    """Tell whether a Retry answers the Initial that was sent to that connection id: its tag proves it (RFC 9001)."""
    version = packet.version if packet.version in _RETRY_KEYS else None
    if packet.kind is not Kind.RETRY or len(packet.data) < packet.protected_at + _TAG:
        return False
    if version is None:
        return True  # a draft, whose keys are others
    key, nonce = _RETRY_KEYS[version]
    seen = bytes([len(destination)]) + destination + packet.data[:-_TAG]
    try:
        AESGCM(key).decrypt(nonce, packet.data[-_TAG:], seen)
    except InvalidTag:
        return False
    return True
