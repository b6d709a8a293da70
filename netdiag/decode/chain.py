# SPDX-License-Identifier: Apache-2.0
"""How the certificates of a TLS 1.2 chain lead from one to the next, without a word of what they say. Pure.

Of each certificate stay its size, whether it tells where its issuer's certificate can be fetched (RFC 5280 section
4.2.2.1), and its subject and issuer as numbers: names get numbers in the order in which a recording meets them, so
that equal names have equal numbers and nothing else can be learned of them. DER (X.690) is read with every length
checked against what is there; what does not fit is no certificate. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Certificate", "Names", "certificates"]

_CERTIFICATE = 11
_MAX_CHAIN = 10
_MAX_NAMES = 4096
"""Of one recording; names that come later have no number."""
_SEQUENCE, _INTEGER, _VERSION, _EXTENSIONS = 0x30, 0x02, 0xA0, 0xA3
_CA_ISSUERS = bytes.fromhex("06082b06010505073002")
"""id-ad-caIssuers as an object identifier of DER."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """One certificate of a chain; names as they stand in it, in DER."""

    size: int
    """Bytes of the certificate."""
    subject: bytes
    issuer: bytes
    fetchable: bool
    """It tells where its issuer's certificate is to be had."""


class Names:
    """Numbers for the names in certificates, from 1 on, the same for the same name."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def chain(self, messages: bytes) -> list[list[int | bool | None]] | None:
        """Return size, subject, issuer, `fetchable` of each certificate of the first chain, the server's own first.

        None where there is no chain, or not all of it. `messages` are handshake messages without record headers.
        """
        found = certificates(messages)
        if found is None:
            return None
        return [[one.size, self._number(one.subject), self._number(one.issuer), one.fetchable] for one in found]

    def _number(self, name: bytes) -> int | None:
        key = hash(name)  # keyed, 64 bits; hashlib would bring OpenSSL's 4 MB into the recorder
        if key not in self._numbers and len(self._numbers) < _MAX_NAMES:
            self._numbers[key] = len(self._numbers) + 1
        return self._numbers.get(key)


def certificates(messages: bytes) -> list[Certificate] | None:
    """Return the certificates of the first chain among handshake messages, None where it is not there as a whole."""
    at = 0
    while at + 4 <= len(messages):
        end = at + 4 + int.from_bytes(messages[at + 1 : at + 4], "big")
        if messages[at] == _CERTIFICATE:
            try:
                return [_certificate(der) for der in _entries(messages[at + 4 : end], end - at - 4)]
            except _StrangeError:
                return None
        at = end
    return None


class _StrangeError(Exception):
    """It is not what it should be, or not all of it."""


def _entries(body: bytes, size: int) -> Iterator[bytes]:
    """Yield the certificates of a Certificate message: RFC 5246 section 7.4.2."""
    if len(body) < size or size < 3 or int.from_bytes(body[:3], "big") != size - 3:
        raise _StrangeError
    at, count = 3, 0
    while at < size:
        length = int.from_bytes(body[at : at + 3], "big")
        at, count = at + 3 + length, count + 1
        if at > size or not length or count > _MAX_CHAIN:
            raise _StrangeError
        yield body[at - length : at]


def _certificate(der: bytes) -> Certificate:
    """Read the names of a certificate: RFC 5280 section 4.1."""
    at, end = _inside(der, 0, len(der), _SEQUENCE)
    at, end = _inside(der, at, end, _SEQUENCE)  # what is signed
    if der[at : at + 1] == bytes([_VERSION]):
        at = _inside(der, at, end, _VERSION)[1]
    at = _inside(der, at, end, _INTEGER)[1]  # its number
    at = _inside(der, at, end, _SEQUENCE)[1]  # the algorithm of the signature
    issuer = at, _inside(der, at, end, _SEQUENCE)[1]
    at = _inside(der, issuer[1], end, _SEQUENCE)[1]  # from when to when
    subject = at, _inside(der, at, end, _SEQUENCE)[1]
    at = _inside(der, subject[1], end, _SEQUENCE)[1]  # the key
    more = der[at:end]  # identifiers, extensions
    return Certificate(
        size=len(der),
        subject=der[slice(*subject)],
        issuer=der[slice(*issuer)],
        fetchable=bytes([_EXTENSIONS]) in more and _CA_ISSUERS in more,
    )


def _inside(der: bytes, at: int, end: int, tag: int) -> tuple[int, int]:
    """Return where the content of the element at `at` begins and ends; it must have that tag and fit before `end`."""
    if at + 2 > end or der[at] != tag:
        raise _StrangeError
    length, start = der[at + 1], at + 2
    if length >= 0x80:
        width = length & 0x7F
        if not 1 <= width <= 3 or start + width > end:
            raise _StrangeError
        length, start = int.from_bytes(der[start : start + width], "big"), start + width
    if start + length > end:
        raise _StrangeError
    return start, start + length
