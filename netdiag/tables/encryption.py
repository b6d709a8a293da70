# SPDX-License-Identifier: Apache-2.0
"""Whether a connection is encrypted, as far as ports and the sizes of calls can tell without looking at a byte. Pure.

Signs of TLS: its port; a first read of just a record's header; a second flight of the client that begins with a call
of a Finished message's size. Where no sign shows, equal requests are plain; else it is not known. What was seen on the
wire goes before all of this.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netdiag.tables.codes import WireClass
from netdiag.tables.columns import Objects
from netdiag.tables.records import Wire
from netdiag.tables.turns import numbers_within

__all__ = ["encrypted", "has_peers", "shows_tls"]

_TLS_PORTS = (443, 465, 563, 636, 853, 989, 990, 992, 993, 994, 995, 5061, 6443, 8443)
_PLAIN = (WireClass.HTTP1, WireClass.HTTP2, WireClass.CONNECT)
_RECORD_HEADER = 5
_MIN_HELLO, _MAX_HELLO = 100, 8192
_ALERTS = (7, *(5 + 2 + extra for extra in (16, 17, 24)))
"""An alert in the clear, and encrypted by the usual ciphers."""

_CHANGE_CIPHER = 6
_FINISHED_13 = (58, 74)
_FINISHED_12 = (37, 45)
"""Record with a Finished message: SHA-256 and SHA-384 in TLS 1.3, ChaCha20 and AES-GCM in TLS 1.2."""
_KEY_EXCHANGE_12 = (42, 75, 107, 143, 267)
"""Record with a ClientKeyExchange: X25519, P-256, P-384, P-521, RSA or DHE of 2048 bits."""
_SMALL_FLIGHTS = (
    _CHANGE_CIPHER,
    *_FINISHED_13,
    *(_CHANGE_CIPHER + size for size in _FINISHED_13 + _FINISHED_12),
)
_LARGE_FLIGHTS = (
    *_KEY_EXCHANGE_12,
    *(key + _CHANGE_CIPHER + size for key in _KEY_EXCHANGE_12 for size in _FINISHED_12),
)
_MAX_TICKET_FLIGHT = 450
"""What a TLS 1.2 server answers to the client's Finished: a ticket and its own Finished."""
_MAX_CONNECT_ANSWER = 200
_EARLY_READS = 2
_EQUAL = 0.02
_SMALLER = 0.75
"""A ClientHello is larger than the flight that follows it; a second request is about as large as the first."""

Bools = NDArray[np.bool_]


def encrypted(connections: pd.DataFrame, bursts: pd.DataFrame, turns: pd.DataFrame, seen: Wire) -> Objects:
    """Return True, False or None for each connection; what was seen on the wire needs no signs."""
    rows = len(connections)
    signs = shows_tls(connections, bursts, turns, seen)
    plain = _looks_plain(connections, bursts, turns) & ~signs
    result = np.full(rows, None, object)
    result[signs] = True
    result[plain | np.isin(seen.speaks, _PLAIN)] = False
    result[(connections["outcome"] != "established").to_numpy()] = None  # not a byte was said
    return result


def shows_tls(connections: pd.DataFrame, bursts: pd.DataFrame, turns: pd.DataFrame, seen: Wire) -> Bools:
    """Tell which connections are encrypted for certain."""
    rows = len(connections)
    signs = _by_port(connections) | _reads_headers(bursts, rows) | _finishes(turns, rows)
    signs |= _peer_signs(connections, signs)
    shown: Bools = (signs & ~np.isin(seen.speaks, _PLAIN)) | (seen.speaks == WireClass.TLS)
    return shown


def _by_port(connections: pd.DataFrame) -> Bools:
    server = (connections["role"] == "server").to_numpy()
    port = np.where(server, connections["local_port"], connections["remote_port"])
    return np.isin(port, _TLS_PORTS)


def _reads_headers(bursts: pd.DataFrame, rows: int) -> Bools:
    """Tell where one of the first reads took a record's header and no more, as OpenSSL reads from a socket."""
    reads = bursts[(bursts["direction"] == "receive").to_numpy()]
    header = (reads["first_bytes"] == _RECORD_HEADER) & (reads["calls"] > 1)
    found = np.zeros(rows, bool)
    early = reads[(numbers_within(reads["connection"].to_numpy()) <= _EARLY_READS) & header.to_numpy()]
    found[early["connection"]] = True
    return found


def _finishes(turns: pd.DataFrame, rows: int) -> Bools:
    """Tell where the flight of the client's side after its first begins with a Finished message.

    Behind a proxy the first turn is the CONNECT, with a short answer, and the handshake follows.
    """
    first, second, third = (_numbered(turns, number, rows) for number in (1, 2, 3))
    proxied = (first["received_bytes"] <= _MAX_CONNECT_ANSWER).to_numpy() & _is_finish(second, third)
    return _is_finish(first, second) | proxied


def _is_finish(before: pd.DataFrame, turn: pd.DataFrame) -> Bools:
    hello, flight = before["first_call_bytes"].to_numpy(), turn["first_call_bytes"].to_numpy()
    small = np.isin(flight, _SMALL_FLIGHTS)
    answer = turn["received_bytes"].to_numpy()
    large = np.isin(flight, _LARGE_FLIGHTS) & (answer >= min(_FINISHED_12)) & (answer <= _MAX_TICKET_FLIGHT)
    found: Bools = (hello >= _MIN_HELLO) & (hello <= _MAX_HELLO) & (flight <= _SMALLER * hello) & (small | large)
    return found


def _looks_plain(connections: pd.DataFrame, bursts: pd.DataFrame, turns: pd.DataFrame) -> Bools:
    """Tell where a sign of TLS would show: the whole conversation was seen, and it is not one broken handshake."""
    rows = len(connections)
    count = np.bincount(turns["connection"][turns["answered"].to_numpy()], minlength=rows)
    first, second, third = (_numbered(turns, number, rows) for number in (1, 2, 3))
    hello = first["first_call_bytes"].to_numpy()
    alerted = np.zeros(rows, bool)
    alerted[bursts["connection"][bursts["close_notify"].to_numpy()]] = True
    alerted |= np.isin(first["received_bytes"], _ALERTS) | np.isin(second["sent_bytes"], _ALERTS)
    # Some libraries write Finished and first request in one call: then only equal sizes tell a request from a hello.
    alike = _within(first, second, _EQUAL) | (_within(first, second, 1 - _SMALLER) & _within(second, third, _EQUAL))
    clear = (hello < _MIN_HELLO) | (count == 1) | alike
    plain: Bools = clear & (count >= 1) & ~alerted & ~connections["preexisting"].to_numpy()
    return plain


def _within(one: pd.DataFrame, other: pd.DataFrame, share: float) -> Bools:
    """Tell where the first calls of two turns are of one size, but for a share of it."""
    size = one["first_call_bytes"].to_numpy()
    near: Bools = np.abs(other["first_call_bytes"].to_numpy() - size) <= share * size
    return near


def _numbered(turns: pd.DataFrame, number: int, rows: int) -> pd.DataFrame:
    """Return that turn of each connection, one row a connection."""
    chosen = turns[(turns["number"] == number).to_numpy()]
    return chosen.set_index("connection").reindex(np.arange(rows))


def has_peers(connections: pd.DataFrame) -> bool:
    """Tell whether the other end of some connection may have been traced, too: then it shows what that one is."""
    here = pd.MultiIndex.from_frame(connections[["local_ip", "local_port", "remote_ip", "remote_port"]])
    return bool(_peer_signs(connections, np.ones(len(here), bool)).any())


def _peer_signs(connections: pd.DataFrame, signs: Bools) -> Bools:
    """Tell where the other end of the connection, traced on the same machine, shows a sign."""
    here = pd.MultiIndex.from_frame(connections[["local_ip", "local_port", "remote_ip", "remote_port"]])
    there = pd.MultiIndex.from_frame(connections.loc[signs, ["remote_ip", "remote_port", "local_ip", "local_port"]])
    return np.asarray(here.isin(there), bool)
