# SPDX-License-Identifier: Apache-2.0
"""Who closed first, and how long the connection had been idle: the kernel's FIN and RST, refined by close_notify. Pure.

The closing alert of TLS is a record of its own, sent after the last data. Its size on the wire is fixed by the cipher:
24 bytes in TLS 1.3; 31 (AES-GCM) or 23 (ChaCha20) in TLS 1.2. It is no data, and who sends it first closes.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netdiag.tables.columns import Floats, Ints

__all__ = ["CLOSE_NOTIFY_BYTES", "mark_close_notify", "settle"]

CLOSE_NOTIFY_BYTES = (23, 24, 31)
"""Header and payload of an encrypted closing alert."""
_MIN_BEFORE = 2
"""Bursts before it: a handshake needs at least one each way."""
_MIN_HELLO = 100
"""No ClientHello, and so no first flight of a TLS connection, is smaller."""
_MAX_READS = 2
"""Some libraries read the header of a record apart."""

_SAME_PACKET_NS = 2e6
"""The longest that a packet takes from the filter to TCP's queue on a busy machine."""

Bools = NDArray[np.bool_]


def mark_close_notify(connections: pd.DataFrame, bursts: pd.DataFrame, tls: Bools) -> Bools:
    """Tell for each burst whether it is a closing alert: alone, of that size, after all data of a connection.

    `tls` tells which connections are known to be encrypted: on a plain one any size is data.
    """
    row = bursts["connection"].to_numpy()
    count = np.bincount(row, minlength=len(connections))
    end = np.cumsum(count)[row] - 1
    start = end - count[row] + 1
    index = np.arange(len(row))
    alike = np.isin(bursts["bytes"], CLOSE_NOTIFY_BYTES) & (bursts["calls"] <= _MAX_READS).to_numpy()
    send = (bursts["direction"] == "send").to_numpy()
    first_bytes = bursts["bytes"].to_numpy()
    possible: Bools = alike & (index - start >= _MIN_BEFORE) & tls[row]
    possible &= first_bytes[start] >= _MIN_HELLO if len(row) else False
    last: Bools = possible & (index == end)
    if not last.any():
        return last
    after = np.append(last[1:], False) & (index == end - 1)
    both = possible & after & (send != np.append(send[1:], False))
    alone: Bools = (last | both) & ~_habit(row, send, alike, index, end)
    return alone


def _habit(row: Ints, send: Bools, alike: Bools, index: Ints, end: Ints) -> Bools:
    """Tell where the same direction had that size before: then it is how this program talks, not a closing alert."""
    earlier = alike & (index < end - 1)
    key = row * 2 + send
    habit: Bools = np.bincount(key, weights=earlier, minlength=int(key.max()) + 1)[key] > 0
    return habit


def settle(connections: pd.DataFrame, bursts: pd.DataFrame, tls: Bools, alerts: tuple[Floats, Floats]) -> pd.DataFrame:
    """Return the connections with `closing_ns`, `closed_by`, `idle_before_close_ms` and the last data settled.

    `alerts` are the instants of closing alerts that the wire showed, of the traced side and of its peer.
    """
    result, rows = connections.copy(deep=False), len(connections)
    notify = bursts["close_notify"].to_numpy()
    send = (bursts["direction"] == "send").to_numpy()
    sent, read = _Calls(bursts[~notify & send], rows), _Calls(bursts[~notify & ~send], rows)
    ours = np.fmin(_Calls(bursts[notify & send], rows).first_began(), alerts[0])
    theirs = np.fmin(_Calls(bursts[notify & ~send], rows).first_began(), _unread_alert(connections, bursts, tls))
    theirs = np.fmin(theirs, alerts[1])
    result["last_sent_ns"] = np.where(np.isnan(ours), connections["last_sent_ns"], sent.last_ended())
    result["last_received_ns"] = np.where(np.isnan(theirs), connections["last_received_ns"], read.last_ended())
    _settle_side(result, ours, theirs)
    _settle_idle(result, sent, read)
    return result


class _Calls:
    """Bursts of one direction, reduced to one value a connection; NaN where it has none."""

    def __init__(self, bursts: pd.DataFrame, rows: int) -> None:
        self._row = bursts["connection"].to_numpy()
        # What came in counts from its arrival, where one was seen.
        self._began = np.fmin(bursts["arrived_ns"].to_numpy(), bursts["began_ns"].to_numpy())
        self._ended = bursts["ended_ns"].to_numpy()
        self._rows = rows

    def first_began(self) -> Floats:
        least = np.full(self._rows, np.nan)
        np.fmin.at(least, self._row, self._began)
        return least

    def last_ended(self) -> Floats:
        return self.last_until(np.full(self._rows, np.inf))

    def last_until(self, limit: Floats) -> Floats:
        """Return the end of the last burst that began until `limit` (one instant a connection), at most `limit`."""
        greatest, until = np.full(self._rows, np.nan), self._began <= limit[self._row]
        np.fmax.at(greatest, self._row[until], self._ended[until])
        last: Floats = np.minimum(greatest, limit)
        return last


def _settle_side(result: pd.DataFrame, ours: Floats, theirs: Floats) -> None:
    kernel = result["closing_ns"].to_numpy()
    refined = result["closed_by"].notna().to_numpy() & result["close"].isin(["fin", "rst"]).to_numpy()
    alert = np.fmin(ours, theirs)
    earlier = refined & (alert < kernel)
    result["closing_ns"] = np.where(earlier, alert, kernel)
    closed_by = result["closed_by"].to_numpy().copy()
    closed_by[earlier] = np.where(theirs < ours, "remote", "local")[earlier]
    closed_by[earlier & np.isnan(ours)] = "remote"
    result["closed_by"] = pd.Series(closed_by, dtype=object)


def _settle_idle(result: pd.DataFrame, sent: _Calls, read: _Calls) -> None:
    closing = result["closing_ns"].to_numpy()
    last_sent, last_received = result["last_sent_ns"].to_numpy(), result["last_received_ns"].to_numpy()
    sent_at = np.where(last_sent <= closing, last_sent, sent.last_until(closing))
    # The packet passes the socket's filter, where an alert is seen, before TCP queues the data in it.
    with_it = last_received <= closing + _SAME_PACKET_NS
    received_at = np.where(with_it, np.minimum(last_received, closing), read.last_until(closing))
    data = np.fmax(sent_at, received_at)
    moved = (result["bytes_sent"].to_numpy() > 0) | (result["bytes_received"].to_numpy() > 0)
    active = np.where(moved, data, result["established_ns"].to_numpy())
    known = result["closed_by"].notna().to_numpy()
    result["idle_before_close_ms"] = np.where(known, np.maximum((closing - active) / 1e6, 0.0), np.nan)


def _unread_alert(connections: pd.DataFrame, bursts: pd.DataFrame, tls: Bools) -> Floats:
    """Return when a closing alert arrived that lies unread; NaN where none does."""
    rows, row = len(connections), bursts["connection"].to_numpy()
    hello = np.zeros(rows)
    hello[row[::-1]] = bursts["bytes"].to_numpy()[::-1]
    talked = (hello >= _MIN_HELLO) & (np.bincount(row, minlength=rows) >= _MIN_BEFORE)
    arrived = connections["last_received_ns"].to_numpy()
    alone = arrived > _Calls(bursts[~bursts["close_notify"].to_numpy()], rows).last_ended()
    unread = np.isin(connections["unread"], CLOSE_NOTIFY_BYTES)
    return np.where(tls & unread & talked & alone, arrived, np.nan)
