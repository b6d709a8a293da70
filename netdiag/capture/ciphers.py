# SPDX-License-Identifier: Apache-2.0
"""Opening of protected TLS records with keys that are known: suites, key derivation, one record at a time.

RFC 8446 (TLS 1.3), 5288, 6655, 7905 (AEAD in TLS 1.2), 5246, 4346, 2246, 7366 (block ciphers). Whatever does not open
is None, never an error: the keys may be another session's, the bytes may be broken.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

from netdiag.decode.tls_names import cipher_name

__all__ = ["Opener", "Suite", "candidates", "expand_label", "open_12", "open_13", "suite_of"]

_TLS11, _TLS12 = 0x0302, 0x0303
_TAG, _SHORT_TAG = 16, 8
_AEAD = 12
"""Bytes of a nonce."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """What of a cipher suite matters for opening its records."""

    bulk: str
    """gcm, ccm, ccm8, chacha or cbc."""
    key_bytes: int
    hash: str
    """Of the key derivation."""
    mac: str = ""
    """Of a block cipher's records."""


class Opener(Protocol):
    """One direction's keys."""

    def open(self, sequence: int, kind: int, version: int, fragment: bytes) -> tuple[int, bytes] | None:
        """Return the type and the content of a record, or None where it does not open."""


def suite_of(number: int) -> Suite | None:
    """Return the suite of a number; None for one whose records cannot be opened here."""
    name = cipher_name(number)
    found = next((each for part, each in _PARTS.items() if part in name), None)
    if found is None:
        return None
    bulk, key_bytes = found
    derived = "sha384" if name.endswith("SHA384") else "sha256"
    mac = "" if bulk != "cbc" else next(algo for end, algo in _MACS.items() if name.endswith(end))
    return Suite(bulk=bulk, key_bytes=key_bytes, hash=derived, mac=mac)


_PARTS = {
    "AES_128_GCM": ("gcm", 16),
    "AES_256_GCM": ("gcm", 32),
    "CHACHA20_POLY1305": ("chacha", 32),
    "AES_128_CCM_8": ("ccm8", 16),
    "AES_256_CCM_8": ("ccm8", 32),
    "AES_128_CCM": ("ccm", 16),
    "AES_256_CCM": ("ccm", 32),
    "AES_128_CBC": ("cbc", 16),
    "AES_256_CBC": ("cbc", 32),
}
_MACS = {"SHA384": "sha384", "SHA256": "sha256", "SHA": "sha1"}


def candidates(secret: bytes) -> tuple[Suite, ...]:
    """Return the suites of TLS 1.3 that a secret of that length may belong to, the likely one first."""
    if len(secret) == 48:
        return (Suite(bulk="gcm", key_bytes=32, hash="sha384"),)
    return tuple(Suite(bulk=bulk, key_bytes=size, hash="sha256") for bulk, size in (("gcm", 16), ("chacha", 32)))


def expand_label(secret: bytes, label: str, length: int, algorithm: str) -> bytes:
    """HKDF-Expand-Label with an empty context (RFC 8446 section 7.1)."""
    name = b"tls13 " + label.encode()
    info = length.to_bytes(2, "big") + bytes([len(name)]) + name + b"\0"
    found, block, count = b"", b"", 0
    while len(found) < length:
        count += 1
        block = hmac.digest(secret, block + info + bytes([count]), algorithm)
        found += block
    return found[:length]


def open_13(suite: Suite, secret: bytes) -> Opener:
    """Return what opens the records of a traffic secret of TLS 1.3."""
    key = expand_label(secret, "key", suite.key_bytes, suite.hash)
    return _Sealed13(suite, key, expand_label(secret, "iv", _AEAD, suite.hash))


def open_12(
    suite: Suite, master: bytes, randoms: tuple[bytes, bytes], version: int, *, mac_last: bool
) -> tuple[Opener, Opener]:
    """Return what opens the client's and the server's records of TLS 1.0 to 1.2, from the master secret.

    `randoms` are those of client and server; `mac_last`: encrypt-then-MAC was agreed.
    """
    mac_bytes = hashlib.new(suite.mac, usedforsecurity=False).digest_size if suite.mac else 0
    iv_bytes = {"chacha": 12, "cbc": 16 if version < _TLS11 else 0}.get(suite.bulk, 4)
    wanted = 2 * (mac_bytes + suite.key_bytes + iv_bytes)
    block = _prf(master, b"key expansion" + randoms[1] + randoms[0], wanted, suite.hash, version)
    parts, at = [], 0
    for size in (mac_bytes, mac_bytes, suite.key_bytes, suite.key_bytes, iv_bytes, iv_bytes):
        parts.append(block[at : at + size])
        at += size
    if suite.bulk == "cbc":
        client, server = (_Block(suite, parts[n], parts[2 + n], parts[4 + n], mac_last=mac_last) for n in (0, 1))
        return client, server
    return _Sealed12(suite, parts[2], parts[4]), _Sealed12(suite, parts[3], parts[5])


def _prf(secret: bytes, seed: bytes, length: int, algorithm: str, version: int) -> bytes:
    """Return bytes of the pseudorandom function: of two hashes up to TLS 1.1 (RFC 2246 section 5)."""
    if version >= _TLS12:
        return _stretch(secret, seed, length, algorithm)
    half = (len(secret) + 1) // 2
    first, second = (
        _stretch(part, seed, length, name) for part, name in ((secret[:half], "md5"), (secret[-half:], "sha1"))
    )
    return bytes(a ^ b for a, b in zip(first, second, strict=True))


def _stretch(secret: bytes, seed: bytes, length: int, algorithm: str) -> bytes:
    found, link = b"", seed
    while len(found) < length:
        link = hmac.digest(secret, link, algorithm)
        found += hmac.digest(secret, link + seed, algorithm)
    return found[:length]


def _aead(suite: Suite, key: bytes) -> AESGCM | AESCCM | ChaCha20Poly1305:
    if suite.bulk == "gcm":
        return AESGCM(key)
    if suite.bulk == "chacha":
        return ChaCha20Poly1305(key)
    return AESCCM(key, tag_length=_SHORT_TAG if suite.bulk == "ccm8" else _TAG)


def _exclusive(fixed: bytes, sequence: int) -> bytes:
    return (int.from_bytes(fixed, "big") ^ sequence).to_bytes(len(fixed), "big")


class _Sealed13:
    """Records of TLS 1.3: the type is inside, at the end, before what fills it up."""

    def __init__(self, suite: Suite, key: bytes, fixed: bytes) -> None:
        self._cipher, self._fixed = _aead(suite, key), fixed

    def open(self, sequence: int, kind: int, version: int, fragment: bytes) -> tuple[int, bytes] | None:
        header = bytes([kind]) + version.to_bytes(2, "big") + len(fragment).to_bytes(2, "big")
        try:
            inner = self._cipher.decrypt(_exclusive(self._fixed, sequence), fragment, header)
        except (InvalidTag, ValueError):
            return None
        inner = inner.rstrip(b"\0")
        return (inner[-1], inner[:-1]) if inner else None


class _Sealed12:
    """AEAD records of TLS 1.2; all but ChaCha20 carry a part of the nonce."""

    def __init__(self, suite: Suite, key: bytes, fixed: bytes) -> None:
        self._cipher, self._fixed = _aead(suite, key), fixed
        self._tag = _SHORT_TAG if suite.bulk == "ccm8" else _TAG

    def open(self, sequence: int, kind: int, version: int, fragment: bytes) -> tuple[int, bytes] | None:
        explicit = _AEAD - len(self._fixed)
        nonce = self._fixed + fragment[:explicit] if explicit else _exclusive(self._fixed, sequence)
        sealed = fragment[explicit:]
        size = len(sealed) - self._tag
        if size < 0:
            return None
        header = sequence.to_bytes(8, "big") + bytes([kind]) + version.to_bytes(2, "big") + size.to_bytes(2, "big")
        try:
            return kind, self._cipher.decrypt(nonce, sealed, header)
        except (InvalidTag, ValueError):
            return None


class _Block:
    """Records of AES in CBC mode with an HMAC inside or, by agreement, outside of the cipher text."""

    def __init__(self, suite: Suite, mac_key: bytes, key: bytes, iv: bytes, *, mac_last: bool) -> None:
        self._mac_key, self._mac = mac_key, suite.mac
        self._mac_bytes = hashlib.new(suite.mac, usedforsecurity=False).digest_size
        self._key, self._iv, self._mac_last = key, iv, mac_last

    def open(self, sequence: int, kind: int, version: int, fragment: bytes) -> tuple[int, bytes] | None:
        sealed, said = fragment, b""
        if self._mac_last:
            sealed, said = fragment[: -self._mac_bytes], fragment[-self._mac_bytes :]
        iv, sealed = (self._iv, sealed) if self._iv else (sealed[:16], sealed[16:])
        if not sealed or len(sealed) % 16 or len(iv) != 16:
            return None
        whole = iv + sealed if not self._iv else sealed
        if self._mac_last and not self._proved(sequence, kind, version, whole, said):
            return None
        # the keys are known to whoever has the file: there is no oracle to guard against here
        decryptor = Cipher(algorithms.AES(self._key), modes.CBC(iv)).decryptor()
        clear = decryptor.update(sealed) + decryptor.finalize()
        size = len(clear) - clear[-1] - 1 - (0 if self._mac_last else self._mac_bytes)
        if size < 0:
            return None
        if not self._mac_last:
            said = clear[size : size + self._mac_bytes]
            if not self._proved(sequence, kind, version, clear[:size], said):
                return None
        if self._iv:
            self._iv = sealed[-16:]  # TLS 1.0: the next record's
        return kind, clear[:size]

    def _proved(self, sequence: int, kind: int, version: int, content: bytes, said: bytes) -> bool:
        header = sequence.to_bytes(8, "big") + bytes([kind]) + version.to_bytes(2, "big")
        text = header + len(content).to_bytes(2, "big") + content
        return hmac.compare_digest(hmac.digest(self._mac_key, text, self._mac), said)
