# SPDX-License-Identifier: Apache-2.0
"""TLS handshakes from the headers of their records: how long, which version, resumed or not. Pure.

A TLS 1.2 server that sends its ChangeCipherSpec before the client's resumes. A TLS 1.3 server that sends no certificate
resumes: its flight then holds some extensions and its Finished, and is smaller than any certificate with signature.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from netdiag.tables.codes import RecordType
from netdiag.tables.columns import Floats, Objects
from netdiag.tables.flights import CLIENT_HELLO, Bools, Flights
from netdiag.tables.schema import frame, objects

__all__ = ["handshakes"]

_VERSIONS = {1: "TLSv1.0", 2: "TLSv1.1", 3: "TLSv1.2"}
_HEADER_BYTES = 5
_NEW_SESSION_TICKET = 4
_ALERT_BYTES = 2
_MAX_RESUMED_FLIGHT, _MIN_FULL_FLIGHT = 250, 400
"""Encrypted bytes of a TLS 1.3 server's flight: below, no certificate fits; above, nothing else is that large."""
_ALERTS = {
    0: "close_notify", 10: "unexpected_message", 20: "bad_record_mac", 22: "record_overflow", 40: "handshake_failure",
    42: "bad_certificate", 43: "unsupported_certificate", 44: "certificate_revoked", 45: "certificate_expired",
    46: "certificate_unknown", 47: "illegal_parameter", 48: "unknown_ca", 49: "access_denied", 50: "decode_error",
    51: "decrypt_error", 70: "protocol_version", 71: "insufficient_security", 80: "internal_error",
    86: "inappropriate_fallback", 90: "user_canceled", 109: "missing_extension", 110: "unsupported_extension",
    112: "unrecognized_name", 113: "bad_certificate_status_response", 115: "unknown_psk_identity",
    116: "certificate_required", 120: "no_application_protocol",
}  # fmt: skip


def handshakes(connections: pd.DataFrame, flights: Flights, tickets: Bools) -> pd.DataFrame:
    """Return the handshakes that were seen from their ClientHello on, in order of time."""
    f = flights
    completed = f.seen(f.finished)
    alert = _alerts(f)
    over = connections["closed_by"].notna().to_numpy() | connections["ended_ns"].notna().to_numpy()
    outcome = np.where(completed, "completed", np.where(over | (alert != None), "failed", "unfinished"))  # noqa: E711
    hello_at, finished_at = f.time_of(f.hello), f.time_of(f.finished)
    hellos = np.bincount(f.row[f.handshake & f.client & (f.first == CLIENT_HELLO)], minlength=f.rows)
    flight = _server_flight(f)
    chosen = np.flatnonzero(f.seen(f.hello))
    chosen = chosen[np.argsort(hello_at[chosen], kind="stable")]
    columns: dict[str, Any] = {
        "pid": connections["pid"].to_numpy(),
        "started_ns": hello_at,
        "duration_ms": (finished_at - hello_at) / 1e6,
        "outcome": outcome.astype(object),
        "alert": alert,
        "version": _version(f),
        "resumed": _resumed(f, completed),
        "hello_retry": _known((f.new | f.old) & f.seen(f.server_hello), f.new & (hellos > 1)),
        "client_hello_bytes": f.length[np.minimum(f.hello, max(len(f.length) - 1, 0))] if len(f.length) else hello_at,
        "server_flight_bytes": np.where(completed, flight, np.nan),
        "tickets_issued": _ticket_count(f, tickets, completed),
        **_sides(connections, f),
    }
    table = frame(
        "handshakes",
        len(chosen),
        {name: values[chosen] for name, values in columns.items()}
        | {"connection": chosen, "source": ["wire"] * len(chosen)},
    )
    table["id"] = pd.Series([f"h{number + 1}" for number in range(len(table))], dtype=object)
    return table


def _known(where: Bools, values: Bools) -> Objects:
    """Return True and False where it is known, None elsewhere."""
    result = np.full(len(where), None, object)
    result[where] = values[where]
    return result


def _alerts(f: Flights) -> Objects:
    """Return the first alert in the clear of each connection, which only comes before the handshake is done."""
    clear = (f.type == RecordType.ALERT) & (f.length == _ALERT_BYTES) & (f.index < f.finished[f.row])
    first = f.first_of(clear)
    seen = f.seen(first)
    codes = np.where(seen, f.second[np.where(seen, first, 0)], -1) if len(f.row) else np.full(f.rows, -1)
    return objects([None if code < 0 else _ALERTS.get(code, str(code)) for code in codes.tolist()])


def _version(f: Flights) -> Objects:
    old = np.zeros(f.rows, np.int64)
    index = np.flatnonzero(f.handshake & ~f.client)
    old[f.row[index]] = f.version[index]
    names = objects([_VERSIONS.get(version) for version in old.tolist()])
    names[~f.old] = None
    names[f.new] = "TLSv1.3"
    return names


def _server_flight(f: Flights) -> Floats:
    """Return the bytes of the server's records up to the client's Finished, headers included."""
    part = np.flatnonzero(~f.client & (f.index < f.finished[f.row]))
    return np.bincount(f.row[part], weights=f.length[part] + _HEADER_BYTES, minlength=f.rows).astype(np.float64)


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


def _ticket_count(f: Flights, tickets: Bools, completed: Bools) -> Floats:
    """Return how many session tickets came: in TLS 1.2 one message in the clear before the server's Finished."""
    new = np.bincount(f.row[tickets], minlength=f.rows)
    old = np.bincount(f.row[f.handshake & ~f.client & (f.first == _NEW_SESSION_TICKET)], minlength=f.rows)
    return np.where(completed, np.where(f.old, old, new), np.nan)


def _sides(connections: pd.DataFrame, f: Flights) -> dict[str, Any]:
    """Return how long each side worked and the network took, for one round trip between the hellos."""
    hello, answer, finished = f.time_of(f.hello), f.time_of(f.server_hello), f.time_of(f.finished)
    last = np.full(f.rows, np.nan)
    part = np.flatnonzero(~f.client & (f.index < f.finished[f.row]))
    last[f.row[part]] = f.time[part]
    rtt = np.where(connections["role"] == "client", connections["min_rtt_ms"], 0.0)
    return {
        "network_ms": rtt,
        "server_ms": np.maximum((answer - hello) / 1e6 - rtt, 0.0),
        "client_ms": np.maximum((finished - last) / 1e6, 0.0),
    }
