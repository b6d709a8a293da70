# SPDX-License-Identifier: Apache-2.0
"""The course of a TLS connection from the headers of its records: where the handshake ends and the data begins. Pure.

In TLS 1.2 the handshake's records keep their type. In TLS 1.3 they look like data from the ServerHello on: the client's
Finished is known by its place and its length, 53 or 69 bytes, which only depends on the cipher's hash.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netdiag.tables.codes import RecordType
from netdiag.tables.columns import Floats, Ints

__all__ = ["Flights"]

Bools = NDArray[np.bool_]

CLIENT_HELLO, SERVER_HELLO = 1, 2
_FINISHED_LENGTHS = (53, 69)
_OVERHEAD_13 = 17
"""Content type and tag."""
_OVERHEAD_12 = 24
"""Explicit nonce and tag of AES-GCM."""
_ALERT_PLAIN = 2
_ALONE_NS, _AT_ONCE_NS = 5_000_000, 50_000_000
_NEVER = np.iinfo(np.int64).max


class Flights:
    """Records with their place in the course of the connection; masks have one element a record."""

    def __init__(self, connections: pd.DataFrame, records: pd.DataFrame) -> None:
        """`records` are sorted by connection and time."""
        self.rows = len(connections)
        self.older: Bools = connections["preexisting"].to_numpy(bool)
        """Connections whose first records passed before the trace."""
        self.talks = pd.MultiIndex.from_frame(connections[["pid", "remote_ip", "remote_port"]])
        """Which program talks with which server on each connection."""
        self.traced: Bools = connections["pid"].notna().to_numpy(bool)
        """Connections whose program is known."""
        self.row: Ints = records["connection"].to_numpy()
        self.time: Floats = records["at_ns"].to_numpy()
        self.type: Ints = records["type"].to_numpy()
        self.length: Ints = records["length"].to_numpy()
        self.first: Ints = records["first"].to_numpy()
        self.second: Ints = records["second"].to_numpy()
        self.version: Ints = records["version"].to_numpy()
        self.resynced: Bools = records["resynced"].to_numpy(bool)
        """Records before it, on its side, are missing."""
        server = (connections["role"] == "server").to_numpy()[self.row]
        self.sent: Bools = (records["direction"] == "send").to_numpy()
        """Sent by the traced side."""
        self.client: Bools = self.sent != server
        """Sent by the client's side, whichever side was traced."""
        self.index: Ints = np.arange(len(self.row))
        self.handshake: Bools = self.type == RecordType.HANDSHAKE
        self.app: Bools = self.type == RecordType.APPLICATION_DATA
        self.hello: Ints = self.first_of(self.handshake & self.client & (self.first == CLIENT_HELLO))
        """Index of the first ClientHello of each connection; a huge number where none was seen."""
        self.server_hello: Ints = self.first_of(self.handshake & ~self.client & (self.first == SERVER_HELLO))
        sealed = self._sealed()
        self.old: Bools = self.any_of(sealed)
        """Which connections speak TLS 1.2 or older."""
        self.new: Bools = ~self.old & self.any_of(self.app & ~self.client) & (self.server_hello < _NEVER)
        """Which connections speak TLS 1.3."""
        self.finished: Ints = self._finished(sealed)
        """Index of the client's Finished; a huge number where none was seen."""
        self.alert: Bools = self._closing_alerts()
        """Which records are closing alerts: the last that their side says."""
        self.data: Bools = self._data()
        """Which records are data that a program sent."""
        self.plain: Ints = np.maximum(self.length - np.where(self.old[self.row], _OVERHEAD_12, _OVERHEAD_13), 0)
        """Bytes of the program's in a record of data."""

    def first_of(self, mask: Bools) -> Ints:
        """Return the index of the first such record of each connection."""
        found = np.full(self.rows, _NEVER, np.int64)
        at = np.flatnonzero(mask)[::-1]
        found[self.row[at]] = at
        return found

    def any_of(self, mask: Bools) -> Bools:
        """Tell for each connection whether it has such a record."""
        return self.first_of(mask) < _NEVER

    def time_of(self, index: Ints) -> Floats:
        """Return when records passed, NaN where there is none."""
        if not len(self.time):
            return np.full(len(index), np.nan)
        return np.where(index < _NEVER, self.time[np.minimum(index, len(self.time) - 1)], np.nan)

    def seen(self, index: Ints) -> Bools:
        """Tell where there is such a record."""
        seen: Bools = index < _NEVER
        return seen

    def _sealed(self) -> Bools:
        """Tell which handshake records come after their side's ChangeCipherSpec: an encrypted Finished of TLS 1.2.

        A hello is none: in TLS 1.3 another one follows that record where the server asked to retry.
        """
        change = self.type == RecordType.CHANGE_CIPHER_SPEC
        changed = np.where(
            self.client, self.first_of(change & self.client)[self.row], self.first_of(change & ~self.client)[self.row]
        )
        hello = np.isin(self.first, (CLIENT_HELLO, SERVER_HELLO)) & (self.second == 0)
        sealed: Bools = self.handshake & (self.index > changed) & ~hello
        return sealed

    def _finished(self, sealed: Bools) -> Ints:
        flight = self.first_of(self.app & ~self.client & (self.index > self.server_hello[self.row]))
        after = self.app & self.client & (self.index > flight[self.row])
        usual = self.first_of(after & np.isin(self.length, _FINISHED_LENGTHS))
        alert = self.first_of(after & (self.length == _OVERHEAD_13 + _ALERT_PLAIN))
        any_ = self.first_of(after)
        new = np.where(usual < _NEVER, usual, np.where(any_ == alert, _NEVER, any_))
        old = self.first_of(sealed & self.client)
        return np.where(self.old, old, np.where(self.new, new, _NEVER))

    def _closing_alerts(self) -> Bools:
        """Take the last record of each side, if it is an alert of TLS 1.2 or has the size of one in TLS 1.3."""
        handed_over = self.index > self.finished[self.row]
        sealed = (self.type == RecordType.ALERT) & (self.length > _ALERT_PLAIN) & self.old[self.row]
        alike = self.app & ~self.old[self.row] & (self.length == _OVERHEAD_13 + _ALERT_PLAIN)
        alike &= handed_over | ~self.seen(self.hello)[self.row]
        found = np.zeros(len(self.row), bool)
        for side in (self.client, ~self.client):
            last = np.full(self.rows, -1, np.int64)
            at = np.flatnonzero(side)
            last[self.row[at]] = at
            found |= (alike | sealed) & (self.index == last[self.row])
        return found

    def closing_times(self, kernel: Floats) -> tuple[Floats, Floats]:
        """Return when the traced side and its peer sent a closing alert, NaN where none did.

        `kernel` are the instants of the first FIN or RST. A last record of two bytes of data looks the same; an alert
        stands alone, or a FIN or RST follows it at once, and no record of its side had that size before.
        """
        times = []
        for side in (self.sent, ~self.sent):
            mine = np.flatnonzero(side)
            before = np.full(len(self.row), -np.inf)
            same = self.row[mine][1:] == self.row[mine][:-1]
            before[mine[1:]] = np.where(same, self.time[mine[:-1]], -np.inf)
            alone = self.time - before > _ALONE_NS
            followed = kernel[self.row] - self.time <= _AT_ONCE_NS
            alike = side & (self.app | (self.type == RecordType.ALERT)) & (self.length == _OVERHEAD_13 + _ALERT_PLAIN)
            habit = np.bincount(self.row[alike & ~self.alert], minlength=self.rows)[self.row] > 0
            times.append(self.time_of(self.first_of(self.alert & side & (alone | followed) & ~habit)))
        return times[0], times[1]

    def _data(self) -> Bools:
        """Leave out the handshake, and closing alerts at either end; early data is data."""
        begun = np.where(self.seen(self.hello), np.where(self.new, self.finished, -1), -1)[self.row]
        early = (
            self.app & self.client & (self.index > self.hello[self.row]) & (self.index < self.server_hello[self.row])
        )
        unfinished = (self.seen(self.hello) & self.new & ~self.seen(self.finished))[self.row]
        return ((self.app & (self.index > begun)) | early) & ~unfinished & ~self.alert
