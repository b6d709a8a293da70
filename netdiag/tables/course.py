# SPDX-License-Identifier: Apache-2.0
"""The course of some connections, as packets or calls and TLS records show it: one part of the tables. Pure.

What follows from one connection alone is settled here; numbers of rows are those within the part.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netdiag.tables.bursts import bursts, retransmits
from netdiag.tables.closing import mark_close_notify, settle
from netdiag.tables.codes import WireClass
from netdiag.tables.encryption import encrypted, shows_tls
from netdiag.tables.exchanges import exchanges, may_speak_http2, speaks_http2
from netdiag.tables.flights import Flights
from netdiag.tables.handshakes import handshakes, numbered
from netdiag.tables.kept import Grown
from netdiag.tables.parts import Part
from netdiag.tables.records import Wire, records, wire
from netdiag.tables.requests import plain_exchanges
from netdiag.tables.schema import empty
from netdiag.tables.streams import streams
from netdiag.tables.tickets import sizes, tickets
from netdiag.tables.turns import turns

__all__ = ["Course", "course", "gather", "moved", "ticket_sizes"]

Bools = NDArray[np.bool_]

_DNS_PORT = 53
"""What is asked there are names: no requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What became of the connections of a part."""

    ends: pd.DataFrame
    """`connections` without what other tables tell of them."""
    bursts: pd.DataFrame
    retransmits: pd.DataFrame
    records: pd.DataFrame
    turns: pd.DataFrame
    handshakes: pd.DataFrame
    asked: pd.DataFrame
    """Exchanges by connection and time, with the facts of streamed answers as `stream`."""
    counted: Bools
    """Connections whose requests are all in it."""
    seen: Wire
    flights: Flights | None
    """None once it has left its process."""


def ticket_sizes(part: Part) -> pd.DataFrame:
    """Return what is certain of the size of tickets (`tickets.sizes`)."""
    table = empty("records") if part.headers is None else records(part.headers, part.sockets)
    return sizes(part.ends, Flights(part.ends, table))


def course(part: Part, known_sizes: pd.DataFrame | None = None) -> Course:
    """Return the course of a part's connections; `known_sizes` are the ticket sizes of all parts."""
    ends = part.ends
    seen = Wire(len(ends))
    calls, resent, table = empty("bursts"), empty("retransmits"), empty("records")
    if part.io is not None:
        calls, resent = bursts(part.io, part.sockets), retransmits(part.io, part.sockets)
    if part.headers is not None:
        table, seen = records(part.headers, part.sockets), wire(part.headers, part.sockets)
    flights = Flights(ends, table)
    tls = shows_tls(ends, calls, turns(ends, calls), seen)
    alerts = flights.closing_times(ends["closing_ns"].to_numpy())
    calls["close_notify"] = mark_close_notify(ends, calls, tls) & _confirmed(calls, flights, alerts)
    ends = settle(ends, calls, tls, alerts)
    found = turns(ends, calls)
    if part.io is not None:  # without it all that needs both stays unknown
        ends["encrypted"] = encrypted(ends, calls, found, seen)
        ends["turns"] = _count(found[found["answered"].to_numpy()], len(ends))
    # HTTP/2 has many requests in flight: its turns are none.
    plain = (ends["encrypted"] == False).to_numpy() & (seen.speaks != WireClass.HTTP2)  # noqa: E712 - None is neither
    plain &= ((ends["remote_port"] != _DNS_PORT) & (ends["local_port"] != _DNS_PORT)).to_numpy()
    ticket = tickets(ends, flights, known_sizes)
    shakes = handshakes(ends, flights, ticket, part.said, resent, seen.gaps)
    flights.data &= ~ticket
    tls = flights.any_of(flights.app) & ~speaks_http2(flights) & ~may_speak_http2(flights, shakes)
    nothing = flights.any_of(flights.handshake) & ~flights.any_of(flights.app)  # a handshake, and then no data
    secret = (tls | nothing) & ~seen.gaps & ~ends["preexisting"].to_numpy()
    inferred = exchanges(ends, calls, flights, tls).assign(source="records")
    inferred["gaps"] = seen.gaps[inferred["connection"].to_numpy(np.int64)]
    asked = pd.concat([plain_exchanges(found, plain), inferred]).sort_values(["connection", "began_ns"], kind="stable")
    asked = asked.reset_index(drop=True)
    asked["stream"] = streams(asked, flights)
    return Course(
        ends=ends,
        bursts=calls,
        retransmits=resent,
        records=table,
        turns=found,
        handshakes=shakes,
        asked=asked,
        counted=plain | secret | _silent(ends, found),
        seen=seen,
        flights=flights,
    )


def moved(part: Course, first: int) -> Course:
    """Return a part's course with rows numbered as among all connections, without what only it could use."""
    own = {
        name: getattr(part, name).assign(connection=getattr(part, name)["connection"] + first)
        for name in ("bursts", "retransmits", "records", "turns", "handshakes", "asked")
    }
    return replace(part, flights=None, **own)


def gather(parts: Iterable[Course]) -> Course:
    """Return the course of the connections of all parts, which come in order; the large tables lie in files."""
    large = {name: Grown(name) for name in ("bursts", "records")}
    rest: list[Course] = []
    for part in parts:
        for name, table in large.items():
            table.add(getattr(part, name))
        rest.append(replace(part, bursts=empty("bursts"), records=empty("records")))
    joined = {
        name: pd.concat([getattr(part, name) for part in rest], ignore_index=True)
        for name in ("ends", "retransmits", "turns", "handshakes", "asked")
    }
    joined["retransmits"] = joined["retransmits"].sort_values(["at_ns", "connection"], kind="stable", ignore_index=True)
    shakes = joined["handshakes"].sort_values(["started_ns", "connection"], kind="stable", ignore_index=True)
    joined["handshakes"] = shakes.assign(id=numbered(len(shakes)))
    return Course(
        bursts=large["bursts"].frame(),
        records=large["records"].frame(),
        counted=np.concatenate([part.counted for part in rest]),
        seen=Wire.joined([part.seen for part in rest]),
        flights=None,
        **joined,
    )


def _silent(ends: pd.DataFrame, found: pd.DataFrame) -> Any:
    """Tell which connections asked for nothing: seen from start to end, and not a byte left the client's side."""
    asked = np.where(ends["role"] == "server", ends["bytes_received"], ends["bytes_sent"])
    over = ends["close"].notna() | (ends["outcome"] != "established")
    return (asked == 0) & (_count(found, len(ends)) == 0) & over.to_numpy() & ~ends["preexisting"].to_numpy()


def _confirmed(calls: pd.DataFrame, flights: Flights, alerts: tuple[Any, Any]) -> Any:
    """Tell for each burst whether the records of its connection, where there are any, hold an alert of its side."""
    row = calls["connection"].to_numpy()
    there = np.where(calls["direction"] == "send", ~np.isnan(alerts[0])[row], ~np.isnan(alerts[1])[row])
    return there | ~flights.any_of(flights.app)[row]


def _count(rows: pd.DataFrame, length: int) -> Any:
    return np.bincount(rows["connection"].to_numpy(), minlength=length).astype(np.float64)
