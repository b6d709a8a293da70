# SPDX-License-Identifier: Apache-2.0
"""TLS handshakes: their course from the headers of records, what was agreed from the messages in the clear. Pure.

Where messages are missing, headers tell what they can: a TLS 1.2 server that sends its ChangeCipherSpec before the
client's resumes. A TLS 1.3 server that sends no certificate resumes: its flight then holds some extensions and its
Finished, and is smaller than any certificate with signature.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from netdiag.decode.tls_names import alert_name, version_name
from netdiag.tables.agreements import agreements
from netdiag.tables.codes import RecordType
from netdiag.tables.columns import Floats, Objects
from netdiag.tables.flights import CLIENT_HELLO, SERVER_HELLO, Bools, Flights
from netdiag.tables.hellos import Said
from netdiag.tables.schema import frame, objects

__all__ = ["handshakes", "numbered"]

_TLS_MAJOR = 0x0300
_HEADER_BYTES = 5
_NEW_SESSION_TICKET = 4
_ALERT_BYTES, _SEALED_ALERT_BYTES = 2, 19
_END_OF_EARLY_DATA_BYTES = 21
"""Fragment of that message: 4 bytes, content type, tag. The key changes after it, so it is a record of its own."""
_MAX_RESUMED_FLIGHT, _MIN_FULL_FLIGHT = 250, 400
"""Encrypted bytes of a TLS 1.3 server's flight: below, no certificate fits; above, nothing else is that large."""
_NUMBERS = ("client_hello_bytes", "certificate_count", "tickets_issued")


def handshakes(
    connections: pd.DataFrame,
    flights: Flights,
    tickets: Bools,
    said: Mapping[int, Said],
    resent: pd.DataFrame | None = None,
    gaps: Bools | None = None,
) -> pd.DataFrame:
    """Return the handshakes that were seen from their ClientHello on, in order of time.

    `tickets` tells which records are session tickets of TLS 1.3; `said` has the messages by row of the connection;
    `resent` are the traced side's retransmissions: waiting for one is the network's time. `gaps` tells of which
    connections records are missing: what is not seen there did not fail.
    """
    f = flights
    completed = _completed(f)
    alert = _alerts(f)
    over = connections["closed_by"].notna().to_numpy() | connections["ended_ns"].notna().to_numpy()
    over &= ~gaps if gaps is not None else True
    outcome = np.where(completed, "completed", np.where(over | (alert != None), "failed", "unfinished"))  # noqa: E711
    hello_at, finished_at = f.time_of(f.hello), f.time_of(f.finished)
    columns: dict[str, Any] = {
        "pid": connections["pid"].to_numpy(),
        "started_ns": hello_at,
        "duration_ms": np.where(completed, (finished_at - hello_at) / 1e6, np.nan),
        "outcome": outcome.astype(object),
        "alert": alert,
        "server_flight_bytes": np.where(completed, _server_flight(f), np.nan),
        **_sides(connections, f, completed, _resent(resent)),
        **_agreed(f, tickets, completed, said),
    }
    # what looks like a hello behind a Finished is of a later one, or noise: where it began was not seen
    chosen = np.flatnonzero(f.seen(f.hello) & (f.hello < f.finished))
    chosen = chosen[np.argsort(hello_at[chosen], kind="stable")]
    table = frame(
        "handshakes",
        len(chosen),
        {name: values[chosen] for name, values in columns.items()}
        | {"connection": chosen, "source": ["wire"] * len(chosen)},
    )
    table["id"] = numbered(len(table))
    return table


def numbered(length: int) -> pd.Series[Any]:
    """Return ids of handshakes in order of time."""
    return pd.Series([f"h{number + 1}" for number in range(length)], dtype=object)


def _agreed(f: Flights, tickets: Bools, completed: Bools, said: Mapping[int, Said]) -> dict[str, Any]:
    """Return what the messages tell, and where they do not what the headers of the records do."""
    told: dict[str, Any] = dict(agreements(said, f.rows))
    hellos = np.bincount(f.row[f.handshake & f.client & (f.first == CLIENT_HELLO)], minlength=f.rows)
    size = f.length[np.minimum(f.hello, len(f.length) - 1)] if len(f.length) else np.zeros(f.rows)
    guessed = {
        "version": _version(f),
        "resumed": _resumed(f, completed),
        "hello_retry": _known((f.new | f.old) & f.seen(f.server_hello), f.new & (hellos > 1)),
        "client_hello_bytes": _known(f.seen(f.hello), size),
        "tickets_issued": _known(completed, _ticket_count(f, tickets)),
    }
    for name, values in guessed.items():
        told[name] = np.where(told[name] == None, values, told[name])  # noqa: E711 - element by element
    # the piece with a ticket may have been lost, and a record may hold several messages: what either shows is there
    told["tickets_issued"][completed] = np.fmax(
        told["tickets_issued"][completed].astype(np.float64), _ticket_count(f, tickets)[completed]
    )
    told["resumed"][~completed] = None
    told["tickets_issued"][~completed] = None
    usable = told["tickets_issued"] != None  # noqa: E711 - element by element
    told["resumable"][usable] = (told["resumable"] == True)[usable] | (told["tickets_issued"][usable] > 0)  # noqa: E712
    told["resumable"][~completed] = None
    _settle_early_data(f, completed, told)
    return told | {name: told[name].astype(np.float64) for name in _NUMBERS}


def _settle_early_data(f: Flights, completed: Bools, told: dict[str, Any]) -> None:
    """Say what became of early data: a server that accepted it is told where it ends, before the Finished."""
    ended = f.app & f.client & (f.length == _END_OF_EARLY_DATA_BYTES)
    ended &= (f.index > f.server_hello[f.row]) & (f.index < f.finished[f.row])
    decided = (told["early_data"] == "offered") & (told["resumed"] == True) & completed  # noqa: E712
    told["early_data"][decided] = np.where(f.any_of(ended), "accepted", "refused")[decided]


def _completed(f: Flights) -> Bools:
    """Tell where the client's Finished was sent and, in TLS 1.2, the server's too.

    In TLS 1.3 a server that asked for a certificate may still refuse it: with an alert, and nothing else.
    """
    change = f.type == RecordType.CHANGE_CIPHER_SPEC
    changed = f.first_of(change & ~f.client)
    sealed = f.handshake & ~f.client & (f.index > changed[f.row])
    after = f.app & ~f.client & (f.index > f.finished[f.row])
    flight = f.first_of(f.app & ~f.client & (f.index > f.server_hello[f.row]))
    more = f.app & f.client & (f.index > flight[f.row]) & (f.index < f.finished[f.row])
    asked = f.any_of(more & (f.length != _END_OF_EARLY_DATA_BYTES))
    refused = f.new & asked & f.any_of(after) & ~f.any_of(after & (f.length != _SEALED_ALERT_BYTES))
    return f.seen(f.finished) & (~f.old | f.any_of(sealed)) & ~refused


def _known(where: Bools, values: Any) -> Objects:
    """Return the values where they are known, None elsewhere."""
    result = np.full(len(where), None, object)
    result[where] = values[where]
    return result


def _alerts(f: Flights) -> Objects:
    """Return the first alert in the clear of each connection: of a side that has not changed to its keys yet."""
    change = f.type == RecordType.CHANGE_CIPHER_SPEC
    changed = np.where(f.client, f.first_of(change & f.client)[f.row], f.first_of(change & ~f.client)[f.row])
    early = (f.index < f.finished[f.row]) | (f.old[f.row] & (f.index < changed))
    first = f.first_of((f.type == RecordType.ALERT) & (f.length == _ALERT_BYTES) & early)
    seen = f.seen(first)
    codes = np.where(seen, f.second[np.where(seen, first, 0)], -1) if len(f.row) else np.full(f.rows, -1)
    return objects([None if code < 0 else alert_name(code) for code in codes.tolist()])


def _version(f: Flights) -> Objects:
    old = np.zeros(f.rows, np.int64)
    index = np.flatnonzero(f.handshake & ~f.client)
    old[f.row[index]] = f.version[index]
    names = objects([version_name(_TLS_MAJOR + version) if version else None for version in old.tolist()])
    names[~f.old] = None
    names[f.new] = "TLSv1.3"
    return names


def _server_flight(f: Flights) -> Floats:
    """Return the bytes of the server's records from its final hello to the client's Finished, headers included."""
    start = np.minimum(_last_server_hello(f), f.finished)
    part = np.flatnonzero(~f.client & (f.index >= start[f.row]) & (f.index < f.finished[f.row]))
    return np.bincount(f.row[part], weights=f.length[part] + _HEADER_BYTES, minlength=f.rows).astype(np.float64)


def _last_server_hello(f: Flights) -> Any:
    """Return the index of the last ServerHello before the client's Finished: the one behind a retry."""
    at = np.flatnonzero(f.handshake & ~f.client & (f.first == SERVER_HELLO) & (f.index < f.finished[f.row]))
    last = f.server_hello.copy()
    last[f.row[at]] = at
    return last


def _resumed(f: Flights, completed: Bools) -> Objects:
    change = f.type == RecordType.CHANGE_CIPHER_SPEC
    server_first = f.first_of(change & ~f.client) < f.first_of(change & f.client)
    sealed = np.flatnonzero(f.app & ~f.client & (f.index < f.finished[f.row]))
    size = np.bincount(f.row[sealed], weights=f.length[sealed], minlength=f.rows)
    result = np.full(f.rows, None, object)
    result[f.old & completed] = server_first[f.old & completed]
    result[f.new & completed & (size < _MAX_RESUMED_FLIGHT)] = True
    result[f.new & completed & (size >= _MIN_FULL_FLIGHT)] = False
    return result


def _ticket_count(f: Flights, tickets: Bools) -> Floats:
    """Return how many session tickets came: in TLS 1.2 one message in the clear before the server's Finished."""
    new = np.bincount(f.row[tickets], minlength=f.rows)
    changed = f.first_of((f.type == RecordType.CHANGE_CIPHER_SPEC) & ~f.client)
    clear = f.handshake & ~f.client & (f.index < changed[f.row])  # behind it the first byte is noise
    old = np.bincount(f.row[clear & (f.first == _NEW_SESSION_TICKET)], minlength=f.rows)
    return np.where(f.old, old, new).astype(np.float64)


def _resent(table: pd.DataFrame | None) -> dict[int, Floats]:
    """Return the instants of retransmissions by connection."""
    if table is None or not len(table):
        return {}
    rows, at = table["connection"].to_numpy(), table["at_ns"].to_numpy()
    return {int(row): np.sort(at[rows == row]) for row in np.unique(rows)}


def _sides(connections: pd.DataFrame, f: Flights, completed: Bools, resent: Mapping[int, Floats]) -> dict[str, Any]:
    """Return how long each side worked, and the rest as the network's.

    Each answer of the server, and a request to retry is one, takes a round trip that is not its work. Where the
    server's end was traced it is the client's answers that hold the round trips.
    """
    rtt = connections["min_rtt_ms"].to_numpy()
    asked, answered = _turnarounds(f, f.client, resent), _turnarounds(f, ~f.client, resent)
    client = (connections["role"] == "client").to_numpy()
    server_ms = answered[0] - np.where(client, answered[1] * rtt, 0.0)
    client_ms = asked[0] - np.where(client, 0.0, asked[1] * rtt)
    server_ms, client_ms = np.maximum(server_ms, 0.0), np.maximum(client_ms, 0.0)
    whole = (f.time_of(f.finished) - f.time_of(f.hello)) / 1e6
    sides = {"network_ms": np.maximum(whole - server_ms - client_ms, 0.0), "server_ms": server_ms}
    sides["client_ms"] = client_ms
    return {name: np.where(completed, values, np.nan) for name, values in sides.items()}


def _turnarounds(f: Flights, mine: Bools, resent: Mapping[int, Floats]) -> tuple[Floats, Floats]:
    """Return the time that one side took to answer, in ms, and how often it did, up to the client's Finished.

    An answer of the client ends with the last record of its flight, one of the server with its first: the rest of a
    long flight is on the way. Before the last retransmission of the question nobody could answer it.
    """
    part = np.flatnonzero((f.index >= f.hello[f.row]) & (f.index <= f.finished[f.row]) & _speaks(f))
    row, own, at = f.row[part], mine[part], f.time[part]
    inside = row[1:] == row[:-1]
    answers, works = np.zeros(len(part), bool), np.zeros(len(part), bool)
    answers[1:] = inside & own[1:] & ~own[:-1]
    works[1:] = inside & own[1:] & (~own[:-1] | (f.client[part] & (part > f.server_hello[row]))[1:])
    asked = _asked(at, row, f.sent[part], resent)
    took = np.append(0.0, (at[1:] - asked[:-1]) / 1e6)[: len(part)]
    total = np.bincount(row[works], weights=took[works], minlength=f.rows)
    return total.astype(np.float64), np.bincount(row[answers], minlength=f.rows).astype(np.float64)


def _asked(at: Floats, row: Any, sent: Bools, resent: Mapping[int, Floats]) -> Floats:
    """Return when what the traced side sent in each record was sent for the last time before something came back."""
    asked = at.copy()
    for connection, times in resent.items():
        low, high = np.searchsorted(row, (connection, connection + 1))
        for place in range(low, high - 1):
            again = times[(times > at[place]) & (times < at[place + 1])]
            if sent[place] and not sent[place + 1] and len(again):
                asked[place] = again[-1]
    return asked


def _speaks(f: Flights) -> Bools:
    """Leave out what is sent without waiting: a ChangeCipherSpec of TLS 1.3, early data."""
    early = f.app & f.client & (f.index < f.server_hello[f.row])
    empty = (f.type == RecordType.CHANGE_CIPHER_SPEC) & f.new[f.row]
    speaks: Bools = ~early & ~empty
    return speaks
