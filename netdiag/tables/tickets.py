# SPDX-License-Identifier: Apache-2.0
"""Session tickets of TLS 1.3: records of the server that look like data and are no answer. Pure.

A server sends them as soon as it has the client's Finished, often when the first request is already under way. Certain
are those that come before any request or sooner after it than an answer can, and several of one size with more to
come. A single one is known by the size that was certain on other connections to that server, or by coming at once.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netdiag.tables.columns import Floats, Ints
from netdiag.tables.flights import Flights
from netdiag.tables.turns import changes, numbers_within

__all__ = ["sizes", "tickets"]

Bools = NDArray[np.bool_]

_MAX_BYTES, _MAX_COUNT = 700, 4
"""Without the client's certificate, which a ticket may hold."""
_WITHIN_NS = 5_000_000
"""Tickets come together."""
_DELAYED_NS = 60_000_000
"""A server with Nagle's algorithm holds the second one until the first is acknowledged."""
_AT_ONCE_NS = 2_000_000
"""What a server needs, beyond a round trip and a half, to answer a Finished with a ticket."""
_SAME_ANSWER = 0.1
"""Heads of answers to one program differ less than this."""


def sizes(connections: pd.DataFrame, flights: Flights) -> pd.DataFrame:
    """Return address and port of servers, and the length of records of theirs that are tickets for certain."""
    if not len(flights.row):
        return pd.DataFrame({"ip": [], "port": [], "length": []})
    leading = _Leading(connections, flights)
    return leading.sizes(connections, leading.certain()).drop_duplicates(ignore_index=True)


def tickets(connections: pd.DataFrame, flights: Flights, known_sizes: pd.DataFrame | None = None) -> Bools:
    """Tell which records are session tickets; `known_sizes` are `sizes` of more connections than these."""
    if not len(flights.row):
        return np.zeros(0, bool)
    leading = _Leading(connections, flights)
    certain = leading.certain()
    known = leading.known(connections, leading.sizes(connections, certain) if known_sizes is None else known_sizes)
    found = leading.follow(certain[:, 0] | ((known | leading.at_once()) & ~leading.like_an_answer()))
    result = np.zeros(len(flights.row), bool)
    result[leading.index[found]] = True
    return result


class _Leading:
    """The first records of the server after the handshake: one row a connection, one column a place; -1 for none."""

    def __init__(self, connections: pd.DataFrame, flights: Flights) -> None:
        self._f = f = flights
        eligible = f.new & f.seen(f.finished)
        theirs = np.flatnonzero(f.data & ~f.client & eligible[f.row])
        number = numbers_within(f.row[theirs])
        early = number <= _MAX_COUNT + 1
        self.index: Ints = np.full((f.rows, _MAX_COUNT + 1), -1, np.int64)
        self.index[f.row[theirs[early]], number[early] - 1] = theirs[early]
        self._there = self.index >= 0
        self._time = np.where(self._there, f.time[self.index], np.nan)
        self._length = np.where(self._there, f.length[self.index], -1)
        self._small = self._there & (self._length <= (_MAX_BYTES + self._certified())[:, None])
        self._more = np.column_stack((self._there[:, 1:], np.zeros(f.rows, bool)))
        client = (connections["role"] == "client").to_numpy()
        self._rtt: Floats = np.where(client, np.nan_to_num(connections["min_rtt_ms"].to_numpy()), 0.0) * 1e6

    def _certified(self) -> Ints:
        """Return the bytes that the client sent between the server's flight and its Finished: its certificate."""
        f = self._f
        flight = f.first_of(f.app & ~f.client & (f.index > f.server_hello[f.row]))
        more = f.app & f.client & (f.index > flight[f.row]) & (f.index < f.finished[f.row])
        return np.bincount(f.row[more], weights=f.length[more], minlength=f.rows).astype(np.int64)

    def early(self) -> Bools:
        """Tell where the first one comes sooner than the answer to a request can."""
        asked = self._f.time_of(self._f.first_of(self._f.data & self._f.client))
        early: Bools = self._small[:, 0] & ~(self._time[:, 0] >= asked + self._rtt)
        return early

    def several(self) -> Bools:
        """Tell where the first two are alike, and something else follows."""
        several: Bools = self._small[:, 0] & self._alike(1) & self._there[:, 2]
        return several

    def at_once(self) -> Bools:
        """Tell where the first one comes as fast as a ticket does, and more follows."""
        latest = self._f.time_of(self._f.finished) + 1.5 * self._rtt + _AT_ONCE_NS
        at_once: Bools = self._small[:, 0] & self._more[:, 0] & (self._time[:, 0] <= latest)
        return at_once

    def like_an_answer(self) -> Bools:
        """Tell where later answers on the connection begin with a record of about that size."""
        f = self._f
        index = np.flatnonzero(f.data)
        starts = index[changes(f.row[index]) | changes(f.client[index])]
        heads = starts[~f.client[starts]]
        heads = heads[numbers_within(f.row[heads]) > 1]
        first = self._length[f.row[heads], 0]
        alike = np.abs(f.length[heads] - first) <= _SAME_ANSWER * first
        found = np.zeros(f.rows, bool)
        found[f.row[heads[alike]]] = True
        return found

    def certain(self) -> Bools:
        """Return which places are tickets whatever other connections show."""
        return self.follow(self.early() | self.several())

    def sizes(self, connections: pd.DataFrame, certain: Bools) -> pd.DataFrame:
        """Return the servers and lengths of certain ones."""
        rows, places = np.nonzero(certain)
        return _servers(connections).iloc[rows].assign(length=self._length[rows, places])

    def known(self, connections: pd.DataFrame, sizes: pd.DataFrame) -> Bools:
        """Tell where the first one has a size that was certainly a ticket's on another connection to that server."""
        keys = pd.MultiIndex.from_frame(_servers(connections).assign(length=self._length[:, 0]))
        alike = np.asarray(keys.isin(pd.MultiIndex.from_frame(sizes)), bool)
        known: Bools = alike & self._small[:, 0] & self._more[:, 0]
        return known

    def follow(self, first: Bools) -> Bools:
        """Return which places are tickets where the first is one: those alike that come with it, too."""
        found = np.zeros(self.index.shape, bool)
        found[:, 0] = first
        at_once = self.at_once()
        for before, place in pairwise(range(_MAX_COUNT)):
            late = at_once & self._more[:, place] & self._alike(place, _DELAYED_NS)
            found[:, place] = found[:, before] & (self._alike(place) | late)
        return found

    def _alike(self, place: int, within_ns: int = _WITHIN_NS) -> Bools:
        """Tell where a record is like the one before it, and comes with it."""
        soon = self._time[:, place] - self._time[:, place - 1] <= within_ns
        alike: Bools = self._small[:, place] & soon & (self._length[:, place] == self._length[:, place - 1])
        return alike


def _servers(connections: pd.DataFrame) -> pd.DataFrame:
    """Return address and port of the server of each connection."""
    server = (connections["role"] == "server").to_numpy()
    return pd.DataFrame(
        {
            "ip": np.where(server, connections["local_ip"], connections["remote_ip"]),
            "port": np.where(server, connections["local_port"], connections["remote_port"]),
        }
    )
