# SPDX-License-Identifier: Apache-2.0
"""What the encrypted part of a handshake says, once its records are open: ALPN, certificates, tickets, alerts.

The contents of certificates and tickets are counted, not kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from netdiag.decode.tls_names import alert_name

__all__ = ["Inside"]

_NEW_SESSION_TICKET, _ENCRYPTED_EXTENSIONS, _CERTIFICATE, _CERTIFICATE_REQUEST, _FINISHED, _KEY_UPDATE = (
    4, 8, 11, 13, 20, 24,
)  # fmt: skip
_ALPN, _EARLY_DATA = 16, 42
_MAX_ALERTS, _MAX_TICKETS = 16, 64
_MAX_CERTIFICATES = 64


@dataclass(slots=True)
class Inside:
    """What was seen; None = not seen."""

    opened: int = 0
    """Records that the keys opened."""
    closed: int = 0
    """Sealed records that stayed closed."""
    alpn: str | None = None
    extensions_seen: bool = False
    """EncryptedExtensions of TLS 1.3: without ALPN in them, none was agreed."""
    early_accepted: bool = False
    certificates: int | None = None
    certificate_asked: bool = False
    tickets: int = 0
    lifetimes: list[int] = field(default_factory=list)
    """Of the tickets, seconds; at most 64."""
    early_allowed: bool = False
    """A ticket allows early data."""
    key_updates: int = 0
    finished: set[bool] = field(default_factory=set)
    """Sides (True = client) whose Finished was read."""
    alerts: list[dict[str, Any]] = field(default_factory=list)

    def message(self, kind: int, body: bytes, *, client: bool) -> None:
        """Take an encrypted message of TLS 1.3."""
        if kind == _FINISHED:
            self.finished.add(client)
        elif kind == _KEY_UPDATE:
            self.key_updates += 1
        elif client:
            return
        elif kind == _ENCRYPTED_EXTENSIONS:
            self.extensions_seen = True
            extensions = _vector_of_extensions(body, 0)
            self.early_accepted = _EARLY_DATA in extensions
            self.alpn = _text(extensions.get(_ALPN, b"")[3:])
        elif kind == _CERTIFICATE:
            self.certificates = _count(body)
        elif kind == _CERTIFICATE_REQUEST:
            self.certificate_asked = True
        elif kind == _NEW_SESSION_TICKET:
            self._ticket(body)

    def _ticket(self, body: bytes) -> None:
        self.tickets += 1
        if len(self.lifetimes) < _MAX_TICKETS:
            self.lifetimes.append(int.from_bytes(body[:4], "big"))
        at = 8
        for width in (1, 2):
            at += width + int.from_bytes(body[at : at + width], "big")
        self.early_allowed |= _EARLY_DATA in _vector_of_extensions(body, at)

    def message_12(self, kind: int, body: bytes) -> None:
        """Take a message of a TLS 1.2 server: a ticket of it is one usable, the rest the clear text has shown."""
        if kind == _NEW_SESSION_TICKET and len(body) > 6:
            self.tickets += 1
            if len(self.lifetimes) < _MAX_TICKETS:
                self.lifetimes.append(int.from_bytes(body[:4], "big"))

    def alert(self, at_ns: int, code: int, *, client: bool, sealed: bool) -> None:
        """Take an alert."""
        if len(self.alerts) < _MAX_ALERTS:
            self.alerts.append({"at_ns": at_ns, "client": client, "alert": alert_name(code), "sealed": sealed})

    def fact(self, cookie: int) -> dict[str, Any]:
        """Return the fact `inside` about a connection."""
        return {
            "kind": "inside",
            "cookie": cookie,
            "opened": self.opened,
            "closed": self.closed,
            "alpn": self.alpn,
            "extensions": self.extensions_seen,
            "early_accepted": self.early_accepted,
            "certificates": self.certificates,
            "certificate_asked": self.certificate_asked,
            "tickets": self.tickets,
            "lifetimes": list(self.lifetimes),
            "early_allowed": self.early_allowed,
            "key_updates": self.key_updates,
            "finished": len(self.finished) == 2,
            "alerts": list(self.alerts),
        }


def _count(body: bytes) -> int:
    """Count the certificates of a Certificate message of TLS 1.3 (RFC 8446 section 4.4.2)."""
    at = 1 + (body[0] if body else 0)
    end = min(at + 3 + int.from_bytes(body[at : at + 3], "big"), len(body))
    at, count = at + 3, 0
    while at + 3 <= end and count < _MAX_CERTIFICATES:
        at += 3 + int.from_bytes(body[at : at + 3], "big")
        at += 2 + int.from_bytes(body[at : at + 2], "big")
        count += 1
    return count


def _vector_of_extensions(body: bytes, at: int) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    at += 2
    while at + 4 <= len(body) and len(found) < 64:
        kind, size = (int.from_bytes(body[place : place + 2], "big") for place in (at, at + 2))
        found[kind] = body[at + 4 : at + 4 + size]
        at += 4 + size
    return found


def _text(raw: bytes) -> str | None:
    """Return a protocol's name as text, what is no printable ASCII as escapes; None for nothing."""
    shown = "".join(chr(byte) if 0x20 < byte < 0x7F else f"\\x{byte:02x}" for byte in raw[:255])
    return shown or None
