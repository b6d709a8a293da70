# SPDX-License-Identifier: Apache-2.0
"""One connection, one stream: what the tables say of it, in words and figures. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from netdiag.addresses import endpoint
from netdiag.text import safe
from netdiag.tui.bars import pieces_of
from netdiag.tui.model import Examination
from netdiag.units import UNKNOWN, format_bytes, format_count, format_ms

__all__ = ["ConnectionView", "Gap", "Step", "StreamView", "connection", "row_of", "stream"]

_HELLO, _FINISHED = 1, 20
_HANDSHAKE = 22
_APPLICATION = 23
_ALERT = 21
_NAMES = {
    1: "ClientHello",
    2: "ServerHello",
    4: "ticket",
    11: "certificate",
    12: "key exchange",
    14: "done",
    16: "key exchange",
    20: "Finished",
}
_MOST_STEPS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One flight of the handshake, or another turn in a connection's life."""

    at_ms: float
    """Since the connection's first sign."""
    side: str
    """`client`, `server`, or empty."""
    what: str
    waited_ms: float | None
    """Since the step before."""
    waited_for: str
    """Who could have been quicker: `client`, `server and network`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionView:
    """What a screen shows of a connection."""

    title: str
    facts: tuple[tuple[str, str], ...]
    steps: tuple[Step, ...]
    calls: Any
    """Positions in the examination's calls."""
    retransmits: tuple[float, ...]
    """Instants, seconds since the start of the trace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A pause between two chunks."""

    at_ms: float
    """When it began, since the request was sent."""
    gap_ms: float
    blame: str | None
    """Of a stall: whose it is."""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamView:
    """What a screen shows of a streamed answer."""

    title: str
    facts: tuple[tuple[str, str], ...]
    gaps: tuple[Gap, ...]
    histogram: tuple[tuple[str, int], ...]
    """Upper edge of each class that has any, and how many gaps are in it."""


def row_of(table: pd.DataFrame, id_: str | None) -> int | None:
    """Return the row with an id; None where there is none."""
    if id_ is None or "id" not in table:
        return None
    found = np.flatnonzero((table["id"] == id_).to_numpy())
    return int(found[0]) if len(found) else None


def connection(examination: Examination, row: int) -> ConnectionView | None:
    """Return what is known of the connection in a row of the table; None where there is no such row."""
    tables = examination.tables
    if not 0 <= row < len(tables.connections):
        return None
    end = tables.connections.iloc[row]
    shakes = tables.handshakes[(tables.handshakes["connection"] == row).to_numpy()]
    shake = shakes.iloc[0] if len(shakes) else None
    there = endpoint(end["remote_name"] or end["remote_ip"], _int(end["remote_port"]))
    resent = tables.retransmits
    return ConnectionView(
        title=f"connection {end['id']} to {safe(there or UNKNOWN)}",
        facts=_facts(end, shake),
        steps=_steps(examination, row, end, shake),
        calls=np.flatnonzero(examination.calls.connection == row),
        retransmits=tuple((resent["at_ns"][(resent["connection"] == row).to_numpy()] / 1e9).tolist()),
    )


def stream(examination: Examination, row: int) -> StreamView | None:
    """Return what is known of the answer to a request; None where it was not streamed."""
    asked = examination.tables.requests
    if not 0 <= row < len(asked) or not isinstance(asked["stream"].to_numpy()[row], dict):
        return None
    request, told = asked.iloc[row], asked["stream"].to_numpy()[row]
    sent = float(request["sent_ns"])
    pieces = pieces_of(examination, row)
    at = np.array(pieces.chunks, np.float64)
    stalls = {round(float(str(one["at_ms"])), 3): one for one in examination.stalls.get(row, ()) if "at_ms" in one}
    starts, lengths = (at[:-1] - sent) / 1e6, np.diff(at) / 1e6
    gaps = tuple(_gap(float(start), float(length), stalls) for start, length in zip(starts, lengths, strict=True))
    name = " ".join(one for one in (request["method"], request["path"]) if isinstance(one, str)) or "stream"
    return StreamView(
        title=f"{request['id']} {safe(name)}",
        facts=_stream_facts(request, told),
        gaps=gaps,
        histogram=_histogram(lengths),
    )


def _gap(start: float, length: float, stalls: dict[float, Any]) -> Gap:
    near = next((one for at, one in stalls.items() if abs(at - start) <= max(1.0, 0.02 * length)), None)
    if near is None:
        return Gap(at_ms=start, gap_ms=length, blame=None)
    return Gap(at_ms=start, gap_ms=length, blame=str(near.get("blame") or "unknown"), why=str(near.get("why") or ""))


def _facts(end: Any, shake: Any) -> tuple[tuple[str, str], ...]:
    local, remote = (endpoint(end[f"{side}_ip"], _int(end[f"{side}_port"])) for side in ("local", "remote"))
    asked = "requests unknown" if np.isnan(end["requests"]) else f"{end['requests']:.0f} requests"
    trip = f"{format_ms(end['rtt_ms'])}, least {format_ms(end['min_rtt_ms'])}"
    facts = [
        ("ends", f"{safe(local or UNKNOWN)} → {safe(remote or UNKNOWN)}, {end['protocol']} over {end['family']}"),
        ("opened", f"{_seconds(end['opened_ns'])}{', before the trace' if end['preexisting'] else ''}"),
        ("connect", f"{format_ms(end['connect_ms'])}, {format_count(end['syn_retransmits'])} SYN again"),
        ("carried", f"{asked}, {format_bytes(end['bytes_sent'])} out, {format_bytes(end['bytes_received'])} in"),
        ("round trip", f"{trip}, {format_count(end['retransmits'])} segments again"),
        ("TLS", _tls(end, shake)),
        ("ended", _ending(end)),
    ]
    return tuple(facts)


def _tls(end: Any, shake: Any) -> str:
    if shake is None:
        return {True: "yes; its handshake was not seen", False: "none"}.get(end["encrypted"], UNKNOWN)
    resumed = {True: "resumed", False: "full"}.get(shake["resumed"], "resumed or not: unknown")
    parts = [shake["version"], shake["cipher"], f"ALPN {safe(shake['alpn'])}" if shake["alpn"] else None, resumed]
    spent = ", ".join(f"{who} {format_ms(shake[f'{who}_ms'])}" for who in ("network", "server", "client"))
    if shake["outcome"] != "completed":
        parts.append(f"{shake['outcome']}{' by alert ' + str(shake['alert']) if shake['alert'] else ''}")
    return f"{', '.join(filter(None, parts))}; {format_ms(shake['duration_ms'])}: {spent}"


def _ending(end: Any) -> str:
    if end["error"]:
        return f"{end['outcome']}: {end['error']}"
    if end["close"] in (None, "open"):
        return "open when the trace ended" if end["outcome"] == "established" else str(end["outcome"] or UNKNOWN)
    who = {"local": "by this program", "remote": "by the other end"}.get(end["closed_by"], "by whom is unknown")
    idle = end["idle_before_close_ms"]
    after = "" if np.isnan(idle) else f", after {format_ms(idle)} without data"
    return f"{_seconds(end['closing_ns'])}, {who} ({end['close'].upper()}){after}"


def _steps(examination: Examination, row: int, end: Any, shake: Any) -> tuple[Step, ...]:
    """Return SYN, handshake and first request as flights of one side each."""
    client_sends = "receive" if end["role"] == "server" else "send"
    marks: list[tuple[float, str, str]] = []
    if not np.isnan(end["opened_ns"]):
        marks.append((end["opened_ns"], "client", "SYN"))
    if not np.isnan(end["established_ns"]):
        marks.append((end["established_ns"], "server", "connected (SYN, ACK)"))
    found = examination.tables.records
    found = found[(found["connection"] == row).to_numpy()]
    until = np.inf if shake is None else shake["started_ns"] + shake["duration_ms"] * 1e6
    marks += _flights(found, client_sends, float(until) if not np.isnan(until) else np.inf)
    for at in np.flatnonzero(examination.calls.connection == row)[:1]:
        calls = examination.calls
        request = examination.tables.requests.iloc[int(calls.row[at])] if calls.row[at] >= 0 else None
        if request is not None:
            marks.append(
                (float(request["began_ns"]), "client", f"first request: {safe(calls.label[at] or 'inferred')}")
            )
            marks.append((float(request["first_byte_ns"]), "server", "first byte of its answer"))
    marks = sorted((mark for mark in marks if not np.isnan(mark[0])), key=lambda mark: mark[0])[:_MOST_STEPS]
    steps: list[Step] = []
    for at, side, what in marks:
        waited = (at - marks[0][0]) / 1e6 - steps[-1].at_ms if steps else None
        blame = {"client": "client", "server": "server and network"}[side] if steps else ""
        steps.append(Step(at_ms=(at - marks[0][0]) / 1e6, side=side, what=what, waited_ms=waited, waited_for=blame))
    return tuple(steps)


def _flights(found: pd.DataFrame, client_sends: str, until: float) -> list[tuple[float, str, str]]:
    """Return runs of TLS records of one side, up to the end of the handshake."""
    flights: list[tuple[float, str, list[str], int]] = []
    rows = zip(found["at_ns"], found["direction"], found["type"], found["first"], found["length"], strict=True)
    for at, direction, kind, first, length in rows:
        if at > until + 1:
            break
        side = "client" if direction == client_sends else "server"
        name = {_HANDSHAKE: _NAMES.get(int(first), "handshake"), _APPLICATION: "encrypted", _ALERT: "alert"}.get(
            int(kind)
        )
        if flights and flights[-1][1] == side:
            begun, _, names, size = flights.pop()
        else:
            begun, names, size = float(at), [], 0
        if name is not None and name not in names:
            names = [*names, name]
        flights.append((begun, side, names, size + int(length)))
    return [(at, side, f"{', '.join(names) or 'TLS'}, {format_bytes(size)}") for at, side, names, size in flights]


def _stream_facts(request: Any, told: Any) -> tuple[tuple[str, str], ...]:
    def ms(name: str) -> str:
        return format_ms(told.get(f"{name}_ms"))

    first = f"byte {format_ms(request['wait_ms'])}, chunk {ms('first_chunk')}, token {ms('first_token')}"
    size = f"{format_count(told.get('chunks'))} chunks, {format_count(told.get('tokens'))} tokens"
    late = f"{format_ms(request['reader_lag_ms'])} read late by the program"
    model = f"model {safe(request['model'])}" if isinstance(request["model"], str) else "model unknown"
    return (
        ("answer", f"{_status(request['status'])}, {told.get('kind') or UNKNOWN}, {model}"),
        ("first", f"{first} after the request was sent"),
        ("pauses", f"p50 {ms('gap_p50')}, p95 {ms('gap_p95')}, longest {ms('gap_max')}"),
        ("size", f"{size}, {format_bytes(request['response_bytes'])}"),
        ("time", f"{format_ms(request['total_ms'])} in all, {late}"),
        ("finished", {True: "yes", False: "no: it was cut"}.get(told.get("finished"), UNKNOWN)),
    )


def _status(value: float) -> str:
    return "status unknown" if np.isnan(value) else f"{value:.0f}"


def _histogram(gaps: Any) -> tuple[tuple[str, int], ...]:
    """Return classes of 1, 2, 5 times powers of ten, from the shortest gap's to the longest's."""
    if not len(gaps):
        return ()
    edges = [step * 10.0**power for power in range(-2, 6) for step in (1, 2, 5)]
    where = np.searchsorted(edges, gaps)
    first, last = int(where.min()), min(int(where.max()), len(edges) - 1)
    counts = np.bincount(np.minimum(where, last), minlength=last + 1)
    return tuple((format_ms(edges[at]), int(counts[at])) for at in range(first, last + 1) if counts[at])


def _seconds(at_ns: float) -> str:
    return UNKNOWN if np.isnan(at_ns) else f"{at_ns / 1e9:.3f} s"


def _int(value: float) -> int | None:
    return None if np.isnan(value) else int(value)
