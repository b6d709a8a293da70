# SPDX-License-Identifier: Apache-2.0
"""Builds all tables of a recording. Pure: the same recording gives the same tables, on any machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from netdiag.recording.reader import Recording
from netdiag.tables import inside, quic
from netdiag.tables.attempts import attempts
from netdiag.tables.columns import Columns, Ints
from netdiag.tables.connections import Sockets, connections, listeners, sockets
from netdiag.tables.course import Course, course, gather, moved, ticket_sizes
from netdiag.tables.dialogue import Dialogue, not_followed
from netdiag.tables.encryption import has_peers
from netdiag.tables.flights import Flights
from netdiag.tables.hellos import Said, hellos
from netdiag.tables.library import bind, built_for, contexts, join, made_too_soon, tls_calls
from netdiag.tables.lookups import look_ups
from netdiag.tables.model import Loss, Tables
from netdiag.tables.names import name_servers, wait_for_names
from netdiag.tables.parts import Cut, Each, in_turn
from netdiag.tables.processes import processes
from netdiag.tables.records import Wire
from netdiag.tables.requests import from_exchanges
from netdiag.tables.resolutions import resolutions
from netdiag.tables.scheduling import scheduling
from netdiag.tables.schema import empty, objects
from netdiag.tables.spoken import Spoken, spoken
from netdiag.tables.stops import stops

__all__ = ["build"]


def build(recording: Recording, *, each: Each = in_turn) -> Tables:
    """Join what was recorded; InputUnreadable when its layouts are not those of netdiag.

    A long capture is worked through in parts, which `each` may share among processes; the tables are the same.
    """
    tables: dict[str, pd.DataFrame] = {}
    unobservable: list[dict[str, Any]] = []
    losses = _losses(recording)
    tcp = _columns(recording, "tcp")
    if tcp is not None:
        found = sockets(tcp)
        lossy = any(loss.lost for loss in losses)
        tables["listeners"] = listeners(tcp)
        tables["connections"] = connections(found, hz=_hz(recording), lossy=lossy)
        if recording.header["tier"] == "capture":
            _forget_options(tables["connections"])
            lacking = [cookie for fact in recording.facts_of("unseen") for cookie in fact["cookies"]]
            tables["connections"]["unseen"] = np.isin(found.cookies, lacking)
        calls = _columns(recording, "tls_call")
        if calls is not None:
            tables["tls_calls"], tables["contexts"] = tls_calls(calls, found), contexts(calls)
        said = hellos(recording.facts_of("hello"), found, tables["connections"], recording.start_ns)
        unobservable = _join(recording, tables, found, said, each)
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
    recording: Recording, tables: dict[str, pd.DataFrame], found: Sockets, said: dict[int, Said], each: Each
) -> list[dict[str, Any]]:
    """Add what only connections and bursts together can tell; without bursts all of it stays unknown.

    Return what of the plaintext could not be used.
    """
    spoke = spoken(_columns(recording, "http_request"), _columns(recording, "http_chunk"), recording.facts)
    cut = Cut(recording, found, tables["connections"], said, divisible=_divisible(recording, tables, found, spoke))
    one = _in_parts(cut, each) if len(cut) > 1 else course(cut.part(0))
    tables |= {"bursts": one.bursts, "retransmits": one.retransmits, "records": one.records, "turns": one.turns}
    ends, seen = one.ends, one.seen
    _shake(tables, ends, one.handshakes, watched=seen.watched)
    dialogue, asked = None, one.asked
    if spoke is not None:
        mine = one.bursts if one.flights is not None else _of(one.bursts, found.rows_of(_cookies(spoke)))
        flights = one.flights or Flights(ends, empty("records"))
        dialogue = Dialogue(spoke, found, ends, mine, flights, seen.gaps)
        asked = dialogue.asked(asked)
    requests = from_exchanges(ends, asked, tables["handshakes"])
    requests["stream"] = _streams(asked).reindex(requests.index)
    counted = one.counted
    if dialogue is None:
        requests = requests.reset_index(drop=True)
    else:
        requests, tables["chunks"] = dialogue.join(requests)
        counted = counted | dialogue.whole
    own = requests[(requests["connection"] >= 0).to_numpy()]
    ends["requests"] = np.where(counted, _count(own, len(ends)), np.nan)
    _name(ends, tables["handshakes"], seen)
    ends["proxied"] = seen.proxied
    tables |= {"connections": ends, "requests": requests}
    return [] if dialogue is None else dialogue.unobservable()


def _divisible(recording: Recording, tables: dict[str, pd.DataFrame], found: Sockets, spoke: Spoken | None) -> bool:
    """Tell whether connections can be worked on apart from each other: those of a capture, each at one end only.

    Where the bytes of conversations have to be found in records it takes all records.
    """
    if (
        recording.header["tier"] != "capture"
        or "tls_calls" in tables
        or len(np.unique(found.cookies)) < len(found.cookies)
    ):
        return False
    if spoke is not None:
        placed = spoke.exchanges["conversation"].isin([n for n, one in spoke.conversations.items() if one.by_packet])
        if not placed.all() or (found.rows_of(_cookies(spoke)) < 0).any():
            return False
    return not has_peers(tables["connections"])


def _cookies(spoke: Spoken) -> Ints:
    """Return the connections that conversations belong to."""
    numbers = spoke.exchanges["conversation"].unique().tolist()
    return np.array([spoke.conversations[number].cookie for number in numbers], np.int64)


def _streams(asked: pd.DataFrame) -> pd.Series[Any]:
    """Return what records tell of streamed answers; None for what plaintext tells."""
    facts = asked["stream"].tolist() if "stream" in asked else [None] * len(asked)
    return pd.Series(objects([one if isinstance(one, dict) else None for one in facts]), dtype=object)


def _of(bursts: pd.DataFrame, rows: Ints) -> pd.DataFrame:
    """Return the bursts of some connections."""
    return bursts.iloc[np.flatnonzero(np.isin(bursts["connection"].to_numpy(), rows))].reset_index(drop=True)


def _in_parts(cut: Cut, each: Each) -> Course:
    """Return the course of all connections, made part by part; its large tables lie in files."""

    def look(number: int) -> pd.DataFrame:
        return ticket_sizes(cut.part(number))

    known = pd.concat(list(each(look, len(cut)))).drop_duplicates(ignore_index=True)

    def follow(number: int) -> Course:
        part = cut.part(number)
        return moved(course(part, known), part.first)

    return gather(each(follow, len(cut)))


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


def _name(ends: pd.DataFrame, handshakes: pd.DataFrame, seen: Wire) -> None:
    """Name the servers as each connection's own ClientHello does; through a proxy that is not who is at the end."""
    row = handshakes["connection"].to_numpy()
    direct = (ends["role"] == "client").to_numpy()[row] & ~seen.proxied[row]
    names = ends["remote_name"].to_numpy(copy=True)
    names[row[direct]] = handshakes["sni"].to_numpy()[direct]
    ends["remote_name"] = pd.Series(names, dtype=object)


def _shake(tables: dict[str, pd.DataFrame], ends: pd.DataFrame, shakes: pd.DataFrame, *, watched: bool) -> None:
    """Add the handshakes, joined with what TLS libraries did."""
    made = bind(tables.get("tls_calls", empty("tls_calls")), shakes, watched=watched)
    handshake = tables["handshakes"] = join(shakes, made)
    tables["tls_calls"] = made
    tables["contexts"] = built_for(tables.get("contexts", empty("contexts")), made)
    name = np.full(len(ends), None, object)
    name[handshake["connection"].to_numpy()] = handshake["id"].to_numpy()
    ends["handshake"] = pd.Series(name, dtype=object)


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
