# SPDX-License-Identifier: Apache-2.0
"""Connections as the analyses see them: one `Link` per row, with its turns, application requests and set-up time.

Nothing here judges. Numbers that the tables do not know stay NaN.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NAN", "Link", "Turn", "changed", "column", "known", "links_of", "number", "text"]

NAN = math.nan
_MS = 1e6
_SMALL_MESSAGE = 60
"""Bytes on the wire below which an encrypted message is no request: HTTP/2 settings and window updates, alerts."""
_FINISHED = 90
"""A change-cipher-spec and the longest Finished of TLS 1.3 (80 bytes) with a margin."""
_KEY_EXCHANGE = 400
"""Client key exchange, change-cipher-spec and Finished of TLS 1.2 without a client certificate."""
_SERVER_FINISHED = 330
"""A new session ticket, change-cipher-spec and Finished of a TLS 1.2 server."""
_CONTEXT_LIMIT_MS = 250.0
"""Longer silence before a handshake is a program that connected ahead of need, not one that builds a TLS context."""


def known(value: float) -> bool:
    """Tell whether a number is known (not NaN)."""
    return not math.isnan(value)


def number(value: Any) -> float:
    """Return a cell as float, NaN where it is missing."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return NAN


def text(value: Any) -> str | None:
    """Return a cell as text, None where it is missing."""
    return value if isinstance(value, str) else None


def flag(value: Any) -> bool | None:
    """Return a cell as bool, None where it is missing."""
    return bool(value) if isinstance(value, (bool, int)) or type(value).__name__ == "bool" else None


def column(frame: pd.DataFrame, name: str) -> list[Any]:
    """Return a column as a list of Python values, all None when the table has no such column.

    All its NaN are one object: of millions of cells many are.
    """
    if name not in frame.columns:
        return [None] * len(frame)
    cells: list[Any] = frame[name].tolist()
    if frame[name].dtype.kind == "f":
        unknown = np.flatnonzero(np.isnan(frame[name].to_numpy())).tolist()
        if len(unknown) == len(cells):
            return [NAN] * len(cells)
        for place in unknown:
            cells[place] = NAN
    return cells


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One exchange on a connection: bytes sent, then bytes received. Instants in ns since the start, NaN = never."""

    began_ns: float
    sent_ns: float
    first_byte_ns: float
    last_byte_ns: float
    sent_bytes: float
    received_bytes: float
    sent_calls: float = NAN
    received_bursts: float = NAN

    @property
    def answered(self) -> bool:
        """At least one byte came back."""
        return known(self.first_byte_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One TCP connection. Columns of `connections` under their names, plus what follows from its turns."""

    row: int
    id: str
    pid: float
    tid: float
    comm: str | None
    role: str | None
    family: str | None
    local_ip: str | None
    local_port: float
    remote_ip: str | None
    remote_port: float
    remote_name: str | None
    opened_ns: float
    established_ns: float
    closing_ns: float
    ended_ns: float
    preexisting: bool | None
    outcome: str | None
    error: str | None
    connect_ms: float
    syn_retransmits: float
    bytes_sent: float
    bytes_received: float
    rtt_ms: float
    min_rtt_ms: float
    retransmits: float
    keepalive_probes: bool | None
    closed_by: str | None
    close: str | None
    idle_before_close_ms: float
    first_sent_ns: float
    last_sent_ns: float
    first_received_ns: float
    last_received_ns: float
    last_read_ns: float
    unread: float
    unread_close: bool | None
    zero_window_ms: float
    peer_window_ms: float
    sends: float
    receives: float
    shared: bool | None
    io_pid: float
    io_tid: float
    io_tids: float
    never_sent: bool | None
    mss: float
    encrypted: bool | None
    requests: float
    unseen: bool | None = None
    """Captures: bytes that the other side sent, and so whole answers, are not in the file."""
    turns: tuple[Turn, ...] = field(default=())
    calls: tuple[Turn, ...] = field(default=())
    """The turns that carry application requests; empty where `requests` alone is known."""
    app: float = NAN
    """Requests that were sent and answered, as far as is known."""
    exact: bool = False
    """`app` was counted, not estimated from turns."""
    setup_ms: float = NAN
    """From the first SYN to the moment the connection could carry a request, TLS and its context included."""
    late_bytes: float = NAN
    """Application data that arrived after the program's own close; NaN where records were not followed."""
    late_ms: float = NAN
    """How long after that close the last of it came; NaN where none did."""
    contexts: float = NAN
    """TLS contexts that its program made for it, and loads of trusted certificates; NaN where nobody looked."""
    context_ms: float = NAN
    """The time that took."""
    farewell: bool = False
    """The other side said goodbye by a closing alert: what it sent before was whole."""
    cut_off: bool = False
    """A reset of the other side met a request without answer, or an answer that was still coming."""

    @property
    def remote(self) -> str:
        """Address and port as `192.0.2.1:443` or `[2001:db8::1]:443`."""
        host = f"[{self.remote_ip}]" if self.remote_ip and ":" in self.remote_ip else self.remote_ip
        return f"{host}:{int(self.remote_port)}" if known(self.remote_port) else f"{host}"

    @property
    def floor_ms(self) -> float:
        """One round trip and 5 ms: closer to a response than this, the order of the closes proves nothing."""
        return 5.0 + (self.rtt_ms if known(self.rtt_ms) else 0.0)

    @property
    def used(self) -> bool:
        """The program used the connection: it is no spare and no loser of a race."""
        return self.app > 0 or bool(self.calls) or (not known(self.app) and self.bytes_received > 0)

    @property
    def gaps_ms(self) -> tuple[float, ...]:
        """Idle times after which the connection was used again with success."""
        pairs = zip(self.calls, self.calls[1:], strict=False)
        return tuple((b.began_ns - a.last_byte_ns) / _MS for a, b in pairs if a.answered and b.answered)

    @property
    def busy_ms(self) -> float:
        """Set-up and, for each call, the time from its first byte to its last received, or to the end without one."""
        ends = [(turn, turn.last_byte_ns if turn.answered else self.closing_ns) for turn in self.calls]
        spent = [max(0.0, (end - turn.began_ns) / _MS) for turn, end in ends if known(end)]
        return sum(spent) + (self.setup_ms if known(self.setup_ms) else 0.0)


def changed(link: Link, **values: object) -> Link:
    """Return the connection with other values, as `dataclasses.replace` does, in a fifth of its time."""
    other = object.__new__(Link)
    for put, value in zip(_PUT, _ALL(link), strict=True):
        put(other, value)
    for name, value in values.items():
        object.__setattr__(other, name, value)
    return other


_NAMES = tuple(one.name for one in fields(Link))
_ALL = attrgetter(*_NAMES)
_PUT = tuple(getattr(Link, name).__set__ for name in _NAMES)


def links_of(connections: pd.DataFrame, turns: pd.DataFrame, requests: pd.DataFrame) -> tuple[Link, ...]:
    """Return every connection with its turns and calls, in the order of the table."""
    by_row: dict[int, list[Turn]] = {}
    names = [f.name for f in fields(Turn)]
    for row, *cells in zip(column(turns, "connection"), *(column(turns, name) for name in names), strict=True):
        by_row.setdefault(int(row), []).append(Turn(**dict(zip(names, map(number, cells), strict=True))))
    seen = _requests(requests, by_row)
    cells_of = {f.name: _cells(connections, f.name) for f in fields(Link) if f.name not in _DERIVED}
    return tuple(
        _link(row, {name: cells[row] for name, cells in cells_of.items()}, tuple(by_row.get(row, ())), seen.get(row))
        for row in range(len(connections))
    )


def with_handshakes(links: Sequence[Link], handshakes: pd.DataFrame) -> tuple[Link, ...]:
    """Return the connections with set-up times as their handshakes show them, to the client's Finished."""
    ready: dict[int, tuple[float, float]] = {}
    names = ("connection", "outcome", "started_ns", "duration_ms")
    for row, outcome, started, took in zip(*(column(handshakes, name) for name in names), strict=True):
        if outcome == "completed" and known(number(took)):
            ready[int(row)] = (number(started), number(took))
    return tuple(
        changed(link, setup_ms=_until_ready(link, *ready[link.row]))
        if link.row in ready and known(link.setup_ms)
        else link
        for link in links
    )


def _until_ready(link: Link, started_ns: float, took_ms: float) -> float:
    """Return connect, context and handshake; a program that connected ahead of need built no context meanwhile."""
    context = (started_ns - link.established_ns) / _MS
    return link.connect_ms + took_ms + (context if 0 <= context <= _CONTEXT_LIMIT_MS else 0.0)


def with_contexts(links: Sequence[Link], tls_calls: pd.DataFrame, contexts: pd.DataFrame) -> tuple[Link, ...]:
    """Return the connections with what was built for each; known where the library made the handshake in sight."""
    seen = {int(row) for row in map(number, column(tls_calls, "connection")) if known(row)}
    built: dict[int, list[float]] = {}
    for row, took in zip(column(contexts, "connection"), column(contexts, "duration_ms"), strict=True):
        if known(number(row)):
            built.setdefault(int(row), []).append(number(took))
    return tuple(
        changed(link, contexts=float(len(built.get(link.row, ()))), context_ms=sum(built.get(link.row, ())))
        if link.row in seen
        else link
        for link in links
    )


_DERIVED = {"row", "turns", "calls", "app", "exact", "setup_ms", "late_bytes", "contexts", "context_ms"} | {
    "late_ms", "farewell", "cut_off",
}  # fmt: skip
_TEXT = {"id", "comm", "role", "family", "local_ip", "remote_ip", "remote_name", "outcome", "error", "closed_by"} | {
    "close"
}
_FLAGS = {"preexisting", "keepalive_probes", "unread_close", "shared", "never_sent", "encrypted", "unseen"}


def _requests(requests: pd.DataFrame, turns: Mapping[int, list[Turn]]) -> dict[int, list[Turn]]:
    """Return the requests that were seen as such (in records or plaintext) by connection, as turns."""
    names = ("connection", "source", "began_ns", "sent_ns", "first_byte_ns", "ended_ns")
    sizes = ("request_bytes", "response_bytes")
    found: dict[int, list[Turn]] = {}
    for row, source, *cells in zip(*(column(requests, name) for name in (*names, *sizes)), strict=True):
        began, sent, first, last, request, response = map(number, cells)
        if source not in ("records", "plaintext") or not known(began):
            continue
        # how the program wrote and read is known of the turn that was running
        mine = turns.get(int(row), ())
        around = bisect_right(mine, began + _MS, key=_began) - 1
        calls, bursts = (mine[around].sent_calls, mine[around].received_bursts) if around >= 0 else (NAN, NAN)
        call = Turn(
            began_ns=began,
            sent_ns=sent,
            first_byte_ns=first,
            last_byte_ns=last if known(last) else first,
            sent_bytes=request,
            received_bytes=response,
            sent_calls=calls,
            received_bursts=bursts,
        )
        found.setdefault(int(row), []).append(call)
    return {row: sorted(calls, key=lambda call: call.began_ns) for row, calls in found.items()}


def _began(turn: Turn) -> float:
    return turn.began_ns


def _cells(connections: pd.DataFrame, name: str) -> list[Any]:
    """Return a column of connections as the members of links have it."""
    cells = column(connections, name)
    if name in _TEXT:
        return [text(cell) for cell in cells]
    return [flag(cell) for cell in cells] if name in _FLAGS else [number(cell) for cell in cells]


def _link(row: int, cells: Mapping[str, Any], turns: tuple[Turn, ...], seen: Sequence[Turn] | None) -> Link:
    values = dict(cells)
    values["id"] = values["id"] or f"c{row + 1}"
    if values["unseen"]:  # it may have begun later
        values["idle_before_close_ms"] = NAN
    bare = Link(row=row, turns=turns, **values)
    start = _first_request(bare)
    inferred = turns if start == 0 else tuple(turn for turn in turns[start:] if _is_request(turn))
    calls = tuple(seen) if seen else () if bare.requests == 0 else inferred
    if bare.unseen:  # what looks unanswered may have been answered
        calls = tuple(call for call in calls if call.answered)
    exact = known(bare.requests)
    app = bare.requests if exact else _estimate(calls, turns)
    return changed(bare, calls=calls, app=app, exact=exact, setup_ms=_setup_ms(bare, start))


def _is_request(turn: Turn) -> bool:
    big_enough = not turn.sent_bytes <= _SMALL_MESSAGE
    return big_enough and not (turn.answered and turn.received_bytes <= _SMALL_MESSAGE)


def _estimate(calls: Iterable[Turn], turns: tuple[Turn, ...]) -> float:
    return float(sum(turn.answered for turn in calls)) if turns else NAN


def _first_request(link: Link) -> int:
    """Return the index of the first turn that carries a request: 0 when plain, else behind the TLS handshake."""
    turns = link.turns
    if link.encrypted is False or (link.encrypted is None and known(link.requests)) or link.preexisting or not turns:
        return 0
    if len(turns) < 3 or not turns[1].answered or not turns[0].answered:
        return 1
    at_once = (turns[2].began_ns - turns[1].last_byte_ns) / _MS <= link.floor_ms
    finished_only = turns[1].sent_bytes <= _FINISHED
    old_version = turns[1].sent_bytes <= _KEY_EXCHANGE and turns[1].received_bytes <= _SERVER_FINISHED
    return 2 if at_once and (finished_only or old_version) else 1


def _setup_ms(link: Link, start: int) -> float:
    """Return connect time plus, on an encrypted connection, the TLS context and handshake."""
    if not known(link.opened_ns) or not known(link.connect_ms) or link.preexisting:
        return NAN
    if start == 0 or not link.turns or not link.turns[0].answered:
        return link.connect_ms
    hello, last = link.turns[0], link.turns[start - 1]
    context = (hello.began_ns - link.established_ns) / _MS
    ready = link.turns[start].began_ns if start == 1 and len(link.turns) > 1 else last.last_byte_ns
    reply = ready if (ready - last.last_byte_ns) / _MS <= _CONTEXT_LIMIT_MS else last.last_byte_ns
    shake = (reply - hello.began_ns) / _MS
    return link.connect_ms + shake + (context if 0 <= context <= _CONTEXT_LIMIT_MS else 0.0)
