# SPDX-License-Identifier: Apache-2.0
"""The facts `hello` joined to their connections: what client and server said in the clear of the handshake. Pure.

A recording is foreign: what is in its facts is checked, unpacked only up to a bound, and read by a parser that cannot
be hurt. Most connections of a client say the same, so each different text is read once.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pandas as pd

from netdiag.decode.tls import Messages, read
from netdiag.tables.connections import Sockets

__all__ = ["Chained", "Said", "chain_of", "hellos"]

_MAX_BYTES = 1 << 16
"""Of the handshake messages of one direction; the recorder keeps a quarter of it."""
_MAX_COOKIE = 1 << 63
_MAX_CHAIN, _MAX_SIZE = 16, 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Chained:
    """A certificate of a server's chain: names are numbers, equal for equal names of one recording."""

    size: int
    """Bytes."""
    subject: int | None
    issuer: int | None
    fetchable: bool
    """It tells where its issuer's certificate is to be had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What the two sides of a connection said."""

    client: Messages = field(default_factory=Messages)
    server: Messages = field(default_factory=Messages)
    client_whole: bool = False
    """Nothing of it is missing."""
    server_whole: bool = False
    client_session: str | None = None
    """First four bytes of the session id that the client offered, in hex; None where there is none."""
    server_session: str | None = None
    chain: tuple[Chained, ...] | None = None
    """The server's certificates, its own first; None where they did not pass in the clear."""
    session_known: bool = False
    """A server had given that session id to a client before: it is no random one for old middleboxes."""

    @property
    def echoed(self) -> bool:
        """The server answered with the session id that the client had sent."""
        return self.client_session is not None and self.client_session == self.server_session


@dataclass(slots=True)
class _Direction:
    data: bytes = b""
    whole: bool = True
    session: str | None = None
    chain: tuple[Chained, ...] | None = None


def hellos(
    facts: Iterable[Mapping[str, Any]], found: Sockets, connections: pd.DataFrame, start_ns: int
) -> dict[int, Said]:
    """Return what was said by row number of the connection."""
    sound = [fact for fact in facts if _is_sound(fact)]
    cookies = np.array([fact["cookie"] for fact in sound], np.int64)
    at = np.array([fact["at_ns"] - start_ns for fact in sound], np.float64)
    rows = found.rows_of(cookies, at).tolist()
    directions = _join(sound, rows)
    server = (connections["role"] == "server").to_numpy()
    read_once: dict[bytes, Messages] = {}
    issued: set[str | None] = set()
    said: dict[int, Said] = {}
    for row in sorted({row for row, _ in directions}):  # by time of opening
        ours, theirs = (directions.get((row, name), _NOTHING) for name in ("send", "receive"))
        client, answer = (theirs, ours) if server[row] else (ours, theirs)
        said[row] = Said(
            client=_read(client.data, read_once),
            server=_read(answer.data, read_once),
            client_whole=client.whole,
            server_whole=answer.whole,
            client_session=client.session,
            server_session=answer.session,
            chain=answer.chain,
            session_known=client.session in issued,
        )
        if answer.session is not None and not said[row].echoed:
            issued.add(answer.session)
    return said


_NOTHING = _Direction(whole=False)


def _is_sound(fact: Mapping[str, Any]) -> bool:
    cookie, at = fact.get("cookie"), fact.get("at_ns")
    known = type(cookie) is int and 0 <= cookie < _MAX_COOKIE and type(at) is int and 0 <= at < _MAX_COOKIE
    return known and fact.get("direction") in ("send", "receive")


def _join(facts: list[Mapping[str, Any]], rows: list[int]) -> dict[tuple[int, str], _Direction]:
    """Put the parts of each direction together: a pause in a handshake makes two facts of it."""
    texts: dict[int, bytes] = {}
    found: dict[tuple[int, str], _Direction] = {}
    for fact, row in zip(facts, rows, strict=True):
        text = _text(fact, texts)
        if row < 0:
            continue
        one = found.setdefault((row, fact["direction"]), _Direction())
        session = fact.get("session")
        one.session = one.session or (session if isinstance(session, str) and session else None)
        one.chain = one.chain or chain_of(fact.get("chain"))
        one.whole = one.whole and fact.get("whole") is True and text is not None
        one.data = (one.data + (text or b""))[:_MAX_BYTES]
    return found


def chain_of(value: object) -> tuple[Chained, ...] | None:
    """Return a chain as the fact `hello` has it, None for what is none."""
    if not isinstance(value, list) or not 0 < len(value) <= _MAX_CHAIN:
        return None
    found: list[Chained] = []
    for entry in value:
        if not isinstance(entry, list) or len(entry) != len(fields(Chained)):
            return None
        size, subject, issuer, fetchable = entry
        numbers = all(name is None or (type(name) is int and name > 0) for name in (subject, issuer))
        if not numbers or type(size) is not int or not 0 < size < _MAX_SIZE or type(fetchable) is not bool:
            return None
        found.append(Chained(size=size, subject=subject, issuer=issuer, fetchable=fetchable))
    return tuple(found)


def _text(fact: Mapping[str, Any], texts: dict[int, bytes]) -> bytes | None:
    """Return the messages of a fact, its own or those of an earlier one; None where they are not there."""
    if "data" not in fact:
        same = fact.get("same")
        return texts.get(same) if isinstance(same, int) else None
    try:
        packed = base64.b64decode(fact["data"], validate=True)
        data = zlib.decompressobj().decompress(packed, _MAX_BYTES)
    except (binascii.Error, zlib.error, TypeError, ValueError):
        return None
    number = fact.get("id")
    if isinstance(number, int):
        texts[number] = data
    return data


def _read(data: bytes, known: dict[bytes, Messages]) -> Messages:
    if data not in known:
        known[data] = read(data)
    return known[data]
