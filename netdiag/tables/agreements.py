# SPDX-License-Identifier: Apache-2.0
"""What a handshake agreed on, from the messages of both sides. Pure.

Rules that are easily got wrong: the final ServerHello decides, not a HelloRetryRequest; the session id that TLS 1.3
echoes says nothing; a client that offers TLS 1.3 sends a session id for old middleboxes, unless it is one that a server
gave it; in TLS 1.2 a server that resumes echoes the id that was offered and sends no certificate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from netdiag.decode.tls import ClientHello, ServerHello
from netdiag.tables.columns import Objects
from netdiag.tables.hellos import Said

__all__ = ["NAMES", "agreements"]

NAMES = (
    "version", "cipher", "group", "sni", "alpn_offered", "alpn", "offered", "resumed", "early_data", "hello_retry",
    "client_hello_bytes", "certificate_count", "tickets_issued", "resumable", "chain", "client_print", "server_print",
)  # fmt: skip
"""Columns of `handshakes` that the messages tell."""

_CERTIFICATE = 11
_PADDING, _PSK, _EARLY_DATA = 21, 41, 42
"""Extensions that come and go with the session that a client offers."""


def agreements(said: Mapping[int, Said], rows: int) -> dict[str, Objects]:
    """Return the columns, one element a connection, None where the messages do not tell."""
    columns = {name: np.full(rows, None, object) for name in NAMES}
    for row, one in said.items():
        for name, value in (_offer(one) | _choice(one)).items():
            columns[name][row] = value
    return columns


def _offer(said: Said) -> dict[str, Any]:
    """Return what the client's first hello says."""
    if not said.client.client_hellos:
        return {}
    hello = said.client.client_hellos[0]
    return {
        "sni": hello.sni,
        "alpn_offered": None if hello.cut and not hello.alpn else list(hello.alpn),
        "offered": _offered(said, hello),
        "early_data": "offered" if hello.early_data else None if hello.cut else "none",
        "client_hello_bytes": hello.size,
        "client_print": None if hello.cut else _client_print(hello),
    }


def _client_print(hello: ClientHello) -> str:
    """Return what tells clients apart; browsers send their extensions in another order each time."""
    kinds = sorted(set(hello.extensions) - {_PADDING, _PSK, _EARLY_DATA})
    return " ".join((*hello.versions, *hello.ciphers, *hello.groups, *hello.alpn, *map(str, kinds)))


def _server_print(final: ServerHello, group: str | None) -> str:
    return " ".join((final.version, final.cipher, group or "-", *map(str, final.extensions)))


def _offered(said: Said, hello: ClientHello) -> str | None:
    if hello.psk:
        return "psk"
    if hello.ticket:
        return "ticket"
    final = said.server.final
    old = said.session_known or (said.echoed and final is not None and not final.is_13)
    if hello.session_id_bytes and (old or not (hello.offers_13 or hello.cut)):
        return "session_id"
    return None if hello.cut else "none"


def _choice(said: Said) -> dict[str, Any]:
    """Return what the server's hellos and its other messages say."""
    hellos, final = said.server.server_hellos, said.server.final
    retried = any(hello.retry for hello in hellos)
    found: dict[str, Any] = {"hello_retry": True if retried else None}
    if final is None or final.cut:
        # what comes after a retry keeps to its version, cipher and group: RFC 8446 section 4.1.4
        retry = next((hello for hello in hellos if hello.retry and not hello.cut), None)
        return found | ({name: getattr(retry, name) for name in ("version", "cipher", "group")} if retry else {})
    found |= {"hello_retry": retried, "version": final.version, "cipher": final.cipher}
    found |= _choice_13(said, final, retried=retried) if final.is_13 else _choice_12(said, final)
    return found | {"chain": said.chain, "server_print": _server_print(final, found["group"])}


def _choice_13(said: Said, final: ServerHello, *, retried: bool) -> dict[str, Any]:
    """TLS 1.3: the rest of the server's flight is encrypted, ALPN and certificates with it."""
    refused = bool(said.client.client_hellos and said.client.client_hellos[0].early_data and (retried or not final.psk))
    return {"group": final.group, "resumed": final.psk} | ({"early_data": "refused"} if refused else {})


def _choice_12(said: Said, final: ServerHello) -> dict[str, Any]:
    full = _CERTIFICATE in said.server.kinds
    resumed = False if full else (True if said.echoed else None)
    found: dict[str, Any] = {"alpn": final.alpn, "group": said.server.curve, "resumed": resumed}
    found["certificate_count"] = 0 if resumed and said.server_whole else said.server.certificates
    if said.server_whole and said.server.cut_at is None:
        found["tickets_issued"] = len(said.server.ticket_lifetimes)
    found["resumable"] = True if final.session_id_bytes or said.server.ticket_lifetimes else None
    early = bool(said.client.client_hellos and said.client.client_hellos[0].early_data)
    return found | ({"early_data": "refused"} if early else {})
