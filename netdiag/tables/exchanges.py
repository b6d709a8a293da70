# SPDX-License-Identifier: Apache-2.0
"""Requests of encrypted connections from the sizes, order and times of TLS records, for HTTP/1. Pure.

Not requests: session tickets that a server sends after the handshake, `100 Continue`, small control records. HTTP/2 has
many requests in flight at once: what it carries cannot be told apart by sizes, and nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netdiag.tables.columns import Ints
from netdiag.tables.flights import Flights
from netdiag.tables.turns import changes, numbers_within, sums

__all__ = ["exchanges", "may_speak_http2", "speaks_http2", "with_calls"]

Bools = NDArray[np.bool_]

_CONTROL_BYTES = 73
"""A later request is larger than this: 90 bytes as a TLS 1.3 record."""
_TINY_BYTES = 20
"""The same where the first request was that small itself."""
_SETTINGS_ACK_BYTES = 9
_EARLY_RECORDS = 6
_FRAMES = (9, 13, 17, 26, 16, 20, 24)
"""An empty frame, WINDOW_UPDATE, PING, two updates (of stream and connection); three of them again with the overhead
of TLS 1.2, which of older connections is not known."""
_PREFACE_BYTES = 24
_SETTINGS = frozenset(
    9 + 6 * count + more for count in range(11) for more in (0, _SETTINGS_ACK_BYTES, 13, 13 + _SETTINGS_ACK_BYTES)
)
"""What an end of HTTP/2 says first: its settings, and with them an acknowledgement, a WINDOW_UPDATE or both."""
_CONTINUE_BYTES = 25
_READ_SLACK_NS = 1_000_000


def speaks_http2(flights: Flights) -> Bools:
    """Tell which connections speak HTTP/2: its client answers the server's settings with a frame of 9 bytes.

    Where a connection is older than the trace those passed unseen. There another one of the same program with the same
    server tells, or a side that begins with a frame that is smaller than any request or answer of HTTP/1.
    """
    ours = np.flatnonzero(flights.data & flights.client)
    early = ours[numbers_within(flights.row[ours]) <= _EARLY_RECORDS]
    found = np.zeros(flights.rows, bool)
    found[flights.row[early[flights.plain[early] == _SETTINGS_ACK_BYTES]]] = True
    index = np.flatnonzero(flights.data & flights.older[flights.row])
    begins = index[changes(flights.row[index]) | changes(flights.client[index])]
    # what was under way when the trace began may be the middle of a body
    begins = begins[~changes(flights.row[begins])]
    found[flights.row[begins[np.isin(flights.plain[begins], _FRAMES)]]] = True
    new = flights.talks[found & ~flights.older]
    found |= flights.older & flights.traced & np.asarray(flights.talks.isin(new), bool)
    return found


def may_speak_http2(flights: Flights, shakes: pd.DataFrame) -> Bools:
    """Tell which connections may speak HTTP/2, and are not proved to speak anything else.

    Their hellos chose it; or the client offered it, the choice is sealed (TLS 1.3), and what the server said first has
    the size of settings. A short answer of HTTP/1 may have it, too: then nobody knows. Requests of HTTP/1 often have
    the size of a preface with settings: there another record of the client must follow, before any of the server's.
    """
    found = np.zeros(flights.rows, bool)
    row, chosen = shakes["connection"].to_numpy(np.int64), shakes["alpn"].to_numpy()
    found[row[chosen == "h2"]] = True
    offered = np.zeros(flights.rows, bool)
    asked = [isinstance(names, list | tuple) and "h2" in names for names in shakes["alpn_offered"]]
    offered[row[np.array(asked, bool) & np.array([one is None for one in chosen], bool)]] = True
    index = np.flatnonzero(flights.data & offered[flights.row])
    mine = index[~flights.client[index]]
    begins = mine[changes(flights.row[mine])]
    found[flights.row[begins[np.isin(flights.plain[begins], list(_SETTINGS))]]] = True
    first = changes(flights.row[index])[: len(index) - 1] & flights.client[index[:-1]]
    again = flights.client[index[1:]] & (flights.row[index[1:]] == flights.row[index[:-1]])
    opened = index[:-1][first & again]
    found[flights.row[opened[np.isin(flights.plain[opened] - _PREFACE_BYTES, list(_SETTINGS))]]] = True
    return found


def exchanges(connections: pd.DataFrame, bursts: pd.DataFrame, flights: Flights, chosen: Bools) -> pd.DataFrame:
    """Return the exchanges of the `chosen` connections, given what is data without tickets in `flights.data`."""
    f = flights
    index = np.flatnonzero(f.data & chosen[f.row])
    index = index[_asking(f, index)]
    index = index[~_continues(f, index)]
    row, asks = f.row[index], f.client[index]
    starts = np.flatnonzero(changes(row) | changes(asks))
    ends = np.append(starts[1:], len(index)) - 1 if len(starts) else starts
    plain = sums(f.plain[index], starts)
    ask = np.flatnonzero(asks[starts])
    answered = np.zeros(len(starts), bool)
    answered[:-1] = ~asks[starts][1:] & (row[starts][1:] == row[starts][:-1])
    answered = answered[ask]
    answer = np.where(answered, ask + 1, ask)
    at = f.time[index]
    table = pd.DataFrame(
        {
            "connection": row[starts][ask],
            "began_ns": at[starts[ask]],
            "sent_ns": at[ends[ask]],
            "first_byte_ns": np.where(answered, at[starts[answer]], np.nan),
            "last_byte_ns": np.where(answered, at[ends[answer]], np.nan),
            "sent_bytes": plain[ask],
            "received_bytes": np.where(answered, plain[answer], 0.0),
        }
    )
    return with_calls(connections, bursts, table)


def _asking(flights: Flights, index: Ints) -> Bools:
    """Tell which records to keep: all but small ones of the client between the server's, which ask for nothing."""
    row, client, plain = flights.row[index], flights.client[index], flights.plain[index]
    starts = np.flatnonzero(changes(row) | changes(client))
    if not len(starts):
        return np.zeros(0, bool)
    largest, phase_row = np.maximum.reduceat(plain, starts), row[starts]
    asks = client[starts]
    first = np.zeros(len(starts), bool)
    first[np.flatnonzero(asks)[changes(phase_row[asks])]] = True
    first_size = np.zeros(flights.rows, np.int64)
    first_size[phase_row[first]] = largest[first]
    limit = np.where(first_size[phase_row] > _CONTROL_BYTES, _CONTROL_BYTES, _TINY_BYTES)
    keep = ~asks | first | (largest > limit)
    return np.repeat(keep, np.diff(np.append(starts, len(index))))


def _continues(flights: Flights, index: Ints) -> Bools:
    """Tell which records are a `100 Continue`: that size alone, and the client goes on."""
    row, client = flights.row[index], flights.client[index]
    starts = np.flatnonzero(changes(row) | changes(client))
    if not len(starts):
        return np.zeros(0, bool)
    total = sums(flights.plain[index], starts)
    goes_on = np.append(row[starts][1:] == row[starts][:-1], False)
    there = ~client[starts] & (total == _CONTINUE_BYTES) & goes_on
    return np.repeat(there, np.diff(np.append(starts, len(index))))


def with_calls(connections: pd.DataFrame, bursts: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Add who asked, when the program had read the answer, and how late it was."""
    index = np.flatnonzero(~bursts["close_notify"].to_numpy())
    owner = _owners(table, {name: bursts[name].to_numpy()[index] for name in ("connection", "began_ns")})
    known = owner >= 0
    index, owner = index[known], owner[known]
    # column by column: a copy of all of them would be the largest thing in memory
    calls = {name: bursts[name].to_numpy() for name in ("arrived_ns", "began_ns", "ended_ns", "max_lag_ms")}
    client = (connections["role"] != "server").to_numpy()[bursts["connection"].to_numpy()[index]]
    receive = (bursts["direction"] == "receive").to_numpy()[index]
    arrived = np.fmin(calls["arrived_ns"][index], calls["began_ns"][index])
    reads = receive & client & (arrived <= table["last_byte_ns"].to_numpy()[owner] + _READ_SLACK_NS)
    asks = receive != client
    length = len(table)
    lag, last_lag, read = np.zeros(length), np.full(length, np.nan), np.full(length, np.nan)
    late = calls["max_lag_ms"][index]
    if np.isnan(late).all():  # packets do not tell when a program read
        last_lag[:] = np.nan
    else:
        late = np.nan_to_num(late)
        np.add.at(lag, owner[reads], late[reads])
        last_lag[owner[reads]] = late[reads]
    np.fmax.at(read, owner[reads], calls["ended_ns"][index[reads]])
    table["last_byte_ns"] = np.where(table["last_byte_ns"].isna(), np.nan, np.fmax(table["last_byte_ns"], read))
    table["lag_ms"] = np.where(np.isnan(last_lag), np.nan, lag)
    table["last_lag_ms"] = last_lag
    for name in ("pid", "tid"):
        who = connections[name].to_numpy()[table["connection"].to_numpy()]
        who[owner[asks][::-1]] = bursts[name].to_numpy()[index[asks]][::-1]
        table[name] = who
    return table


def _owners(table: pd.DataFrame, calls: Mapping[str, Any]) -> Ints:
    """Return for each burst the number of the last exchange that had begun; -1 where none had."""
    row = np.concatenate((table["connection"], calls["connection"]))
    at = np.concatenate((table["began_ns"], calls["began_ns"]))
    is_call = np.arange(len(row)) >= len(table)
    order = np.lexsort((is_call, at, row))
    last = np.maximum.accumulate(np.where(is_call[order], -1, order)) if len(order) else order
    owner = np.full(len(row), -1, np.int64)
    owner[order] = last
    owner = owner[len(table) :]
    same = table["connection"].to_numpy()[owner] == calls["connection"] if len(table) else owner >= 0
    return np.where((owner >= 0) & same, owner, -1)
