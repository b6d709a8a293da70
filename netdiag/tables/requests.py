# SPDX-License-Identifier: Apache-2.0
"""Requests from exchanges: what was asked, what came back, and where the time between went. Pure.

An exchange is a question with its answer on one connection, whatever it was inferred from: the turns of a plain
connection here, TLS record headers or plaintext elsewhere. This module gives exchanges their phases.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netdiag.tables.columns import Floats, Ints
from netdiag.tables.schema import COLUMNS, frame
from netdiag.tables.turns import changes, numbers_within, sums

__all__ = ["EXCHANGE_COLUMNS", "from_exchanges", "plain_exchanges"]

EXCHANGE_COLUMNS = (
    "connection", "began_ns", "sent_ns", "first_byte_ns", "last_byte_ns", "sent_bytes", "received_bytes",
    "lag_ms", "last_lag_ms", "pid", "tid", "source",
)  # fmt: skip
"""What every source of exchanges gives; sorted by connection and time."""

_CONTINUE_BYTES = 25
"""`HTTP/1.1 100 Continue` and its empty line: no answer, the body follows."""
_NOT_FOLLOWED = 6
_MAX_SETUP_NS = 1_000_000_000
"""A connection that carries its first request later than this was made ahead of it, not for it."""
_TOLD = (
    "protocol", "stream_id", "method", "host", "path", "status", "headers", "request_headers", "error", "complete",
    "model", "server_reported_ms", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "blocked_ms",
    "concurrent", "response_format", "stream_asked", "attempt",
)  # fmt: skip
"""Columns that only plaintext tells."""
_OF_CONNECTION = ("dns_ms", "connect_ms", "client_setup_ms", "tls_ms", "queue_ms", "reader_lag_ms")
"""Parts of which nothing is known where the connection is not."""
_PARTS = ("connect_ms", "client_setup_ms", "tls_ms", "queue_ms", "send_ms", "wait_ms", "receive_ms", "reader_lag_ms")


def plain_exchanges(turns: pd.DataFrame, plain: NDArray[np.bool_]) -> pd.DataFrame:
    """Return the turns of the connections that are `plain`, a `100 Continue` joined with the turn that follows."""
    chosen = turns[plain[turns["connection"].to_numpy()]]
    row = chosen["connection"].to_numpy()
    more = np.zeros(len(chosen), bool)
    more[:-1] = (chosen["received_bytes"].to_numpy()[:-1] == _CONTINUE_BYTES) & (row[1:] == row[:-1])
    starts = np.flatnonzero(~np.append(False, more[:-1])[: len(row)])
    result: pd.DataFrame = chosen[~more].assign(source="sockets").loc[:, list(EXCHANGE_COLUMNS)].reset_index(drop=True)
    result["began_ns"] = chosen["began_ns"].to_numpy()[starts]
    result["sent_bytes"] = sums(chosen["sent_bytes"].to_numpy(), starts)
    return result


def from_exchanges(connections: pd.DataFrame, exchanges: pd.DataFrame, handshakes: pd.DataFrame) -> pd.DataFrame:
    """Return the table of requests, in order of time, from exchanges sorted by connection and time.

    Exchanges may bring more columns of the table, as plaintext tells them. Rows behind the end of `connections` stand
    for connections that are not known: -1 in the table. The index of what is returned is the position of each request
    among the exchanges.
    """
    row = exchanges["connection"].to_numpy()
    strange = row >= len(connections)
    connections = _with_strangers(connections, int(row.max()) + 1 if len(row) else 0)
    order = np.lexsort((row, exchanges["began_ns"]))
    length = len(row)
    columns = {
        "connection": np.where(strange, -1, row),
        "sequence": numbers_within(row),
        "protocol": ["inferred"] * length,
        "source": exchanges["source"].tolist(),
        "pid": exchanges["pid"],
        "tid": exchanges["tid"],
        "request_bytes": exchanges["sent_bytes"],
        "response_bytes": np.where(exchanges["received_bytes"] > 0, exchanges["received_bytes"], np.nan),
        **{name: exchanges[name] for name in ("began_ns", "sent_ns", "first_byte_ns", "last_lag_ms")},
        "ended_ns": exchanges["last_byte_ns"],
    }
    columns |= _relations(connections, exchanges) | _times(connections, exchanges, handshakes)
    columns |= {name: _told(exchanges[name], columns.get(name)) for name in _TOLD if name in exchanges}
    for name in _OF_CONNECTION:
        unknown = strange & (columns["reused"] != True)  # noqa: E712 - or None
        columns[name] = np.where(unknown, np.nan, np.asarray(columns[name], np.float64))
    ordered = frame("requests", length, columns).iloc[order]
    ordered["id"] = pd.Series([f"r{number + 1}" for number in range(length)], dtype=object, index=ordered.index)
    return ordered


def _with_strangers(connections: pd.DataFrame, rows: int) -> pd.DataFrame:
    """Add rows for connections of which nothing is known."""
    more = rows - len(connections)
    if more <= 0:
        return connections
    blank = frame("connections", more, {"preexisting": [True] * more})
    return pd.concat([connections, blank], ignore_index=True) if len(connections) else blank


def _told(values: pd.Series[Any], default: Any) -> Any:
    """Return what plaintext tells in place of what was inferred, where it tells something."""
    if COLUMNS["requests"][str(values.name)] != "object":
        return values.to_numpy()
    found = values.to_numpy(object, copy=True)  # pandas may hold texts as a kind of its own, with NaN for none
    empty = values.isna().to_numpy()
    if default is not None:
        found[empty] = np.asarray(default, object)[empty]
    else:
        found[empty] = None
    return found


def _relations(connections: pd.DataFrame, exchanges: pd.DataFrame) -> dict[str, Any]:
    """Return what a request is to the others of its connection, and whether it was answered."""
    row = exchanges["connection"].to_numpy()
    first = changes(row)
    older = connections["preexisting"].to_numpy()[row]
    ended = connections["ended_ns"].notna().to_numpy()[row] | connections["closed_by"].notna().to_numpy()[row]
    reused = (~first).astype(object)
    reused[first & older] = None
    before = np.append(np.nan, exchanges["last_byte_ns"].to_numpy()[:-1])[: len(row)]
    idle = np.maximum(exchanges["began_ns"].to_numpy() - before, 0.0) / 1e6
    complete = np.full(len(row), None, object)
    unanswered = exchanges["first_byte_ns"].isna().to_numpy() & ended
    if "result" in exchanges:  # one of which no answer was seen may have got one
        unanswered &= (exchanges["result"] != _NOT_FOLLOWED).to_numpy()
    if "gaps" in exchanges:  # nor is it known where records are missing
        unanswered &= (exchanges["gaps"] != True).to_numpy()  # noqa: E712 - of plaintext it is not told
    if "unseen" in connections:  # nor where a capture lacks what the server sent
        unanswered &= ~connections["unseen"].to_numpy(bool)[row]
    complete[unanswered] = False
    return {"reused": reused, "idle_before_ms": np.where(first, np.nan, idle), "complete": complete}


def _times(connections: pd.DataFrame, exchanges: pd.DataFrame, handshakes: pd.DataFrame) -> dict[str, Any]:
    """Return the parts of the time, which add up to the total with what no part explains."""
    row = exchanges["connection"].to_numpy()
    began, sent, first_byte, ended = (
        exchanges[name].to_numpy() for name in ("began_ns", "sent_ns", "first_byte_ns", "last_byte_ns")
    )
    established = connections["established_ns"].to_numpy()[row]
    hello, finished = _handshake_times(handshakes, len(connections), row)
    ready = np.where(np.isnan(finished), established, finished)
    client = (connections["role"] == "client").to_numpy()[row]
    first = changes(row)
    opens = first & client & (began - ready <= _MAX_SETUP_NS)
    opened = np.where(opens, connections["opened_ns"].to_numpy()[row], began)
    # where the opening was not seen, its first sign is what was seen of the set-up, which the parts are counted from
    started = np.where(np.isnan(opened), np.fmin(np.fmin(established, hello), began), opened)
    # An answer may begin, and even end, before the request has ended: no time is counted twice.
    sent = np.fmin(sent, np.fmax(ended, began))
    answering = np.fmax(first_byte, sent)
    # At a server's socket the program reads the request late, which is no part of the answer's time.
    lag = np.where(client, np.minimum(exchanges["lag_ms"].to_numpy(), np.maximum(ended - answering, 0.0) / 1e6), 0.0)
    unknown_first = first & ~opens
    plain = (connections["encrypted"] == False).to_numpy()[row]  # noqa: E712 - None is neither
    # what was sent early went out in the middle of the handshake; of one whose end was not seen nothing is known
    shaken = np.where(plain & np.isnan(hello), 0.0, np.maximum(np.minimum(finished, began) - hello, 0.0) / 1e6)
    set_up = np.where(plain & np.isnan(hello), began, np.minimum(hello, began)) - established
    columns: dict[str, Floats] = {
        "started_ns": started,
        "dns_ms": np.where(first, np.nan, 0.0),
        "connect_ms": np.where(opens, (established - opened) / 1e6, 0.0),
        "client_setup_ms": np.where(opens, set_up / 1e6, 0.0),
        "tls_ms": np.where(opens, shaken, 0.0),
        "queue_ms": np.where(unknown_first, np.nan, 0.0),
        "send_ms": (sent - began) / 1e6,
        "wait_ms": np.maximum(first_byte - sent, 0.0) / 1e6,
        "receive_ms": np.maximum(ended - np.where(np.isnan(first_byte), np.nan, answering), 0.0) / 1e6
        - np.nan_to_num(lag),
        "reader_lag_ms": lag,
        "total_ms": (ended - started) / 1e6,
    }
    known = np.nansum([columns[name] for name in _PARTS], axis=0)
    return {**columns, "unattributed_ms": np.maximum(columns["total_ms"] - known, 0.0)}


def _handshake_times(handshakes: pd.DataFrame, rows: int, row: Ints) -> tuple[Floats, Floats]:
    """Return when the handshake of each exchange's connection began and was done; NaN where there was none."""
    hello, finished = np.full(rows, np.nan), np.full(rows, np.nan)
    at = handshakes["connection"].to_numpy()
    hello[at] = handshakes["started_ns"]
    finished[at] = handshakes["started_ns"] + handshakes["duration_ms"] * 1e6
    return hello[row], finished[row]
