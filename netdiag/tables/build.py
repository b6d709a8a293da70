# SPDX-License-Identifier: Apache-2.0
"""Builds all tables of a recording. Pure: the same recording gives the same tables, on any machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from netdiag.recording.reader import Recording
from netdiag.tables import inside, quic
from netdiag.tables.attempts import attempts
from netdiag.tables.bursts import bursts, retransmits
from netdiag.tables.closing import mark_close_notify, settle
from netdiag.tables.codes import WireClass
from netdiag.tables.columns import Columns
from netdiag.tables.connections import Sockets, connections, listeners, sockets
from netdiag.tables.dialogue import Dialogue, not_followed
from netdiag.tables.encryption import encrypted, shows_tls
from netdiag.tables.exchanges import exchanges, speaks_http2
from netdiag.tables.flights import Flights
from netdiag.tables.handshakes import handshakes
from netdiag.tables.hellos import Said, hellos
from netdiag.tables.library import bind, built_for, contexts, join, made_too_soon, tls_calls
from netdiag.tables.lookups import look_ups
from netdiag.tables.model import Loss, Tables
from netdiag.tables.names import name_servers, wait_for_names
from netdiag.tables.processes import processes
from netdiag.tables.records import Wire, records, wire
from netdiag.tables.requests import from_exchanges, plain_exchanges
from netdiag.tables.resolutions import resolutions
from netdiag.tables.scheduling import scheduling
from netdiag.tables.schema import empty
from netdiag.tables.spoken import spoken
from netdiag.tables.stops import stops
from netdiag.tables.streams import streams
from netdiag.tables.tickets import tickets
from netdiag.tables.turns import turns

__all__ = ["build"]

_DNS_PORT = 53
"""What is asked there are names: no requests."""


def build(recording: Recording) -> Tables:
    """Join what was recorded; InputUnreadable when its layouts are not those of netdiag."""
    tables: dict[str, pd.DataFrame] = {}
    unobservable: list[dict[str, Any]] = []
    losses = _losses(recording)
    tcp, io, headers = (_columns(recording, stream) for stream in ("tcp", "tcp_io", "tls_record"))
    if tcp is not None:
        found = sockets(tcp)
        lossy = any(loss.lost for loss in losses)
        tables["listeners"] = listeners(tcp)
        tables["connections"] = connections(found, hz=_hz(recording), lossy=lossy)
        if recording.header["tier"] == "capture":
            _forget_options(tables["connections"])
        seen = Wire(len(found.cookies))
        if io is not None:
            tables["bursts"], tables["retransmits"] = bursts(io, found), retransmits(io, found)
        if headers is not None:
            tables["records"], seen = records(headers, found), wire(headers, found)
        calls = _columns(recording, "tls_call")
        if calls is not None:
            tables["tls_calls"], tables["contexts"] = tls_calls(calls, found), contexts(calls)
        said = hellos(recording.facts_of("hello"), found, tables["connections"], recording.start_ns)
        unobservable = _join(recording, tables, found, seen, said, whole=io is not None)
    _look_ups(recording, tables)
    if "requests" in tables:
        tables["requests"] = attempts(tables["requests"], tables["connections"])
    inside.tell(tables, recording.facts_of("inside"))
    quic.add(tables, recording.facts_of("quic"), recording.start_ns)
    tables["scheduling"] = scheduling(recording.facts_of("scheduling"), recording.start_ns)
    process = _columns(recording, "process")
    tables["processes"] = processes(process, recording.facts_of("process"), recording.start_ns)
    tables["stops"] = stops(process, recording.facts_of("clock"), recording.start_ns, of=recording.header.get("clock"))
    return Tables(
        **tables,
        span_ms=_span_ms(recording),
        losses=losses,
        unobservable=(*unobservable, *not_followed(recording.facts_of("plaintext")), *_missed(recording, tables)),
        truncated=recording.end is None or recording.truncated_at is not None,
    )


def _missed(recording: Recording, tables: dict[str, pd.DataFrame]) -> list[dict[str, Any]]:
    """Return which processes were over before their TLS library could be looked into, where that was tried."""
    shakes, calls = tables.get("handshakes"), tables.get("tls_calls")
    if shakes is None or calls is None or "tls_call" not in recording.layouts:
        return []
    return made_too_soon(recording.facts_of("tls_library"), shakes, calls)


def _join(
    recording: Recording,
    tables: dict[str, pd.DataFrame],
    sockets_: Sockets,
    seen: Wire,
    said: dict[int, Said],
    *,
    whole: bool,
) -> list[dict[str, Any]]:
    """Add what only connections and bursts together can tell; without bursts all of it stays unknown.

    Return what of the plaintext could not be used.
    """
    ends = tables["connections"]
    calls = tables.setdefault("bursts", empty("bursts"))
    flights = Flights(ends, tables.setdefault("records", empty("records")))
    tls = shows_tls(ends, calls, turns(ends, calls), seen)
    alerts = flights.closing_times(ends["closing_ns"].to_numpy())
    calls["close_notify"] = mark_close_notify(ends, calls, tls) & _confirmed(calls, flights, alerts)
    ends = settle(ends, calls, tls, alerts)
    found = turns(ends, calls)
    if whole:
        ends["encrypted"] = encrypted(ends, calls, found, seen)
        ends["turns"] = _count(found[found["answered"].to_numpy()], len(ends))
    # HTTP/2 has many requests in flight: its turns are none.
    plain = (ends["encrypted"] == False).to_numpy() & (seen.speaks != WireClass.HTTP2)  # noqa: E712 - None is neither
    plain &= ((ends["remote_port"] != _DNS_PORT) & (ends["local_port"] != _DNS_PORT)).to_numpy()
    secret, inferred = _encrypted(tables, ends, calls, flights, seen, said)
    asked = pd.concat([plain_exchanges(found, plain), inferred]).sort_values(["connection", "began_ns"], kind="stable")
    asked = asked.reset_index(drop=True)
    spoke = spoken(_columns(recording, "http_request"), _columns(recording, "http_chunk"), recording.facts)
    dialogue = None if spoke is None else Dialogue(spoke, sockets_, ends, calls, flights, seen.gaps)
    requests = from_exchanges(ends, asked if dialogue is None else dialogue.asked(asked), tables["handshakes"])
    counted = plain | secret | _silent(ends, found)
    if dialogue is None:
        requests = requests.reset_index(drop=True)
    requests["stream"] = streams(requests, flights)
    if dialogue is not None:
        requests, tables["chunks"] = dialogue.join(requests)
        counted |= dialogue.whole
    own = requests[(requests["connection"] >= 0).to_numpy()]
    ends["requests"] = np.where(counted, _count(own, len(ends)), np.nan)
    _name(ends, tables["handshakes"], seen)
    ends["proxied"] = seen.proxied
    tables |= {"connections": ends, "bursts": calls, "turns": found, "requests": requests}
    return [] if dialogue is None else dialogue.unobservable()


def _look_ups(recording: Recording, tables: dict[str, pd.DataFrame]) -> None:
    """Add the look-ups of names, and what they tell of connections and requests."""
    lookups, messages = _columns(recording, "name_lookup"), _columns(recording, "dns_message")
    found = tables["resolutions"] = resolutions(lookups, messages, _span_ms(recording) * 1e6)
    if "connections" in tables and "requests" in tables:
        sought = look_ups(found)
        ends = tables["connections"] = name_servers(tables["connections"], sought)
        tables["requests"] = wait_for_names(tables["requests"], ends, sought)


def _forget_options(ends: pd.DataFrame) -> None:
    """Packets show keep-alive probes where some passed; that a socket would send none, they do not."""
    probes = ends["keepalive_probes"].to_numpy(copy=True)
    probes[probes == False] = None  # noqa: E712 - element by element
    ends["keepalive_probes"] = pd.Series(probes, dtype=object)


def _silent(ends: pd.DataFrame, found: pd.DataFrame) -> Any:
    """Tell which connections asked for nothing: seen from start to end, and not a byte left the client's side."""
    asked = np.where(ends["role"] == "server", ends["bytes_received"], ends["bytes_sent"])
    over = ends["close"].notna() | (ends["outcome"] != "established")
    return (asked == 0) & (_count(found, len(ends)) == 0) & over.to_numpy() & ~ends["preexisting"].to_numpy()


def _name(ends: pd.DataFrame, handshakes: pd.DataFrame, seen: Wire) -> None:
    """Name the servers as each connection's own ClientHello does; through a proxy that is not who is at the end."""
    row = handshakes["connection"].to_numpy()
    direct = (ends["role"] == "client").to_numpy()[row] & ~seen.proxied[row]
    names = ends["remote_name"].to_numpy(copy=True)
    names[row[direct]] = handshakes["sni"].to_numpy()[direct]
    ends["remote_name"] = pd.Series(names, dtype=object)


def _confirmed(calls: pd.DataFrame, flights: Flights, alerts: tuple[Any, Any]) -> Any:
    """Tell for each burst whether the records of its connection, where there are any, hold an alert of its side."""
    row = calls["connection"].to_numpy()
    there = np.where(calls["direction"] == "send", ~np.isnan(alerts[0])[row], ~np.isnan(alerts[1])[row])
    return there | ~flights.any_of(flights.app)[row]


def _encrypted(
    tables: dict[str, pd.DataFrame],
    ends: pd.DataFrame,
    calls: pd.DataFrame,
    flights: Flights,
    seen: Wire,
    said: dict[int, Said],
) -> tuple[Any, pd.DataFrame]:
    """Add the handshakes; return which connections' requests are all known from records, and all that are."""
    ticket = tickets(ends, flights)
    shakes = handshakes(ends, flights, ticket, said, tables.get("retransmits"))
    made = bind(tables.get("tls_calls", empty("tls_calls")), shakes, watched=seen.watched)
    handshake = tables["handshakes"] = join(shakes, made)
    tables["tls_calls"] = made
    tables["contexts"] = built_for(tables.get("contexts", empty("contexts")), made)
    name = np.full(len(ends), None, object)
    name[handshake["connection"].to_numpy()] = handshake["id"].to_numpy()
    ends["handshake"] = pd.Series(name, dtype=object)
    flights.data &= ~ticket
    tls = flights.any_of(flights.app) & ~speaks_http2(flights)
    nothing = flights.any_of(flights.handshake) & ~flights.any_of(flights.app)  # a handshake, and then no data
    whole = (tls | nothing) & ~seen.gaps & ~ends["preexisting"].to_numpy()
    return whole, exchanges(ends, calls, flights, tls).assign(source="records")


def _count(rows: pd.DataFrame, length: int) -> Any:
    return np.bincount(rows["connection"].to_numpy(), minlength=length).astype(np.float64)


def _columns(recording: Recording, stream: str) -> Columns | None:
    records = recording.records(stream)
    return None if records is None else Columns(records, recording.start_ns)


def _hz(recording: Recording) -> float:
    """Return the timer ticks a second that the recorder measured; NaN of a trace too short for that."""
    told = [fact.get("hz") for fact in (recording.header["host"], *recording.facts_of("kernel"))]
    return next((float(hz) for hz in reversed(told) if type(hz) is int and hz > 0), float("nan"))


def _losses(recording: Recording) -> tuple[Loss, ...]:
    """Return the last word on each stream; of a recording without one, what was recorded and no word on losses."""
    told = {
        fact["probe"]: Loss(probe=fact["probe"], seen=fact["seen"], lost=fact["lost"])
        for fact in recording.facts_of("loss")
        if isinstance(fact.get("probe"), str) and all(type(fact.get(name)) is int for name in ("seen", "lost"))
    }
    if not told:
        counts = {name: sum(len(run) for run in recording.runs.get(name, ())) for name in recording.layouts}
        told = {name: Loss(probe=name, seen=count, lost=None) for name, count in counts.items()}
    return tuple(told[name] for name in sorted(told))


def _span_ms(recording: Recording) -> float:
    """Return the length of the trace; of one that was cut off, up to its last record."""
    end = recording.end_ns
    if end is None:
        instants = [int(run["time"].max()) for runs in recording.runs.values() for run in runs if _has_time(run)]
        end = max(instants, default=recording.start_ns)
    return max(end - recording.start_ns, 0) / 1e6


def _has_time(run: Any) -> bool:
    return len(run) > 0 and "time" in run.dtype.names and run.dtype["time"].kind == "u"
