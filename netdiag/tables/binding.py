# SPDX-License-Identifier: Apache-2.0
"""Conversations bound to connections, and where their bytes lie in the TLS records: when each of them passed. Pure.

What a TLS object sends and receives lies in the records of its connection, byte for byte: the sizes of the records add
up to offsets of the plaintext. That checks every binding, and where the kernel programs knew none it finds the one
connection that fits, if there is just one. A wrong binding is worse than none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netdiag.tables.columns import Floats, Ints
from netdiag.tables.connections import Sockets
from netdiag.tables.flights import Flights
from netdiag.tables.resync import Places, laid
from netdiag.tables.spoken import Conversation, Spoken

__all__ = ["Bound", "Clock", "bind"]

_OVERHEADS_12 = (24, 16)
"""Of TLS 1.2: AES-GCM's nonce and tag, ChaCha20's tag."""
_MOST_SHIFTS = 8
"""Records before the first byte of a conversation: tickets that came late, say."""
_NEAR = 4
_MOST_OFFSETS = 4096
_ENOUGH = 0.9
"""Of the ends of messages, how many must be ends of records."""
_NEAR_NS, _NEAR_ALONE_NS = 2e9, 50e6
"""How far apart a program's call and its record may be: a busy loop hands on late what its TLS library made."""
_SAME_NS = 1e5
_AHEAD_NS = 2e6
"""A program cannot have read what arrives later; clocks of two probes differ by less than that."""
_MOST_CANDIDATES = 512
_HTTP2 = 3
_COMPLETE = 1


@dataclass(frozen=True, slots=True)
class Clock:
    """When the bytes of one direction passed: the ends of its records as offsets, and when each record passed."""

    ends: Ints
    time: Floats

    def at(self, offsets: Any) -> Floats:
        """Return when the records passed that hold the bytes at these offsets; NaN where none does."""
        offsets = np.asarray(offsets, np.int64)
        if not len(self.ends):
            return np.full(len(offsets), np.nan)
        place = np.searchsorted(self.ends, offsets, side="right")
        inside = (place < len(self.ends)) & (offsets >= 0)
        return np.where(inside, self.time[np.minimum(place, len(self.ends) - 1)], np.nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Where conversations belong."""

    rows: Mapping[int, int] = field(default_factory=dict)
    """Conversation → row of its connection; one that is not in it is not bound."""
    clocks: Mapping[int, tuple[Clock, Clock]] = field(default_factory=dict)
    """Conversation → clocks of what the client and the server sent, where the records fit."""
    contradicted: frozenset[int] = frozenset()
    """Conversations whose bytes contradict the connection that they were said to belong to."""


class _Lanes:
    """The records with data of every connection and side, by connection."""

    def __init__(self, flights: Flights) -> None:
        self._f = flights
        # in TLS 1.3 a last record of two bytes may be a closing alert or the end of an answer: offsets tell
        held = flights.data | (flights.alert & flights.app)
        self._index = {client: np.flatnonzero(held & (flights.client == client)) for client in (True, False)}
        self._row = {client: flights.row[index] for client, index in self._index.items()}

    def any(self, row: int) -> bool:
        """Tell whether a connection has records with data."""
        return any(len(self._of(row, client=client)) for client in (True, False))

    def of(self, row: int, *, client: bool) -> list[tuple[Ints, Floats]]:
        """Return sizes and times of a side's records, once for each way in which the sizes may be meant."""
        index = self._of(row, client=client)
        time = self._f.time[index]
        if not self._f.old[row]:
            return [(self._f.plain[index], time)]
        length = self._f.length[index]
        return [(np.maximum(length - more, 0), time) for more in _OVERHEADS_12]

    def after_gaps(self, row: int, *, client: bool) -> Ints:
        """Return which of a side's records follow a gap."""
        return np.flatnonzero(self._f.resynced[self._of(row, client=client)])

    def _of(self, row: int, *, client: bool) -> Ints:
        low, high = np.searchsorted(self._row[client], [row, row + 1])
        return self._index[client][low:high]


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a conversation's exchanges say of one direction."""

    offsets: Ints
    """Where messages begin and end."""
    first_ns: float
    """When the program moved the first of these bytes."""


def bind(said: Spoken, found: Sockets, connections: pd.DataFrame, flights: Flights, gaps: NDArray[np.bool_]) -> Bound:
    """Return which connection each conversation belongs to. `gaps`: connections of which records are missing."""
    lanes = _Lanes(flights)
    rows: dict[int, int] = {}
    clocks: dict[int, tuple[Clock, Clock]] = {}
    contradicted: set[int] = set()
    numbers = said.exchanges["conversation"].to_numpy()
    groups = {number: said.exchanges[numbers == number] for number in np.unique(numbers).tolist()}
    spoke = said.chunks["conversation"].to_numpy()
    told = _told_rows(groups, said.conversations, found)
    for number, row in told.items():
        if row < 0:
            continue
        conversation = said.conversations.get(number)
        by_packet = conversation is not None and conversation.by_packet
        if by_packet or gaps[row] or not lanes.any(row) or _astride(groups[number], conversation):
            rows[number] = row
            if gaps[row] and not by_packet and lanes.any(row) and not _astride(groups[number], conversation):
                laid_ = _laid_anew(groups[number], said.chunks[spoke == number], lanes, row)
                clocks |= {number: laid_} if laid_ else {}
            continue
        fit = _fit(groups[number], conversation, lanes, row)
        if fit is not None:
            rows[number], clocks[number] = row, fit
        elif _too_much(groups[number], lanes, row) or not _certain(conversation):
            contradicted.add(number)
        else:
            rows[number] = row
    free = [number for number, row in told.items() if row < 0 and number not in contradicted]
    for number, row, fit in _alone(free, groups, said.conversations, connections, lanes, set(rows.values())):
        rows[number], clocks[number] = row, fit
    return Bound(rows=rows, clocks=clocks, contradicted=frozenset(contradicted))


def _told_rows(
    groups: Mapping[int, pd.DataFrame], conversations: Mapping[int, Conversation], found: Sockets
) -> dict[int, int]:
    """Return the row that the kernel programs meant; -1 where they knew none."""
    numbers = list(groups)
    cookies, at = [], []
    for number in numbers:
        fact = conversations.get(number)
        group = groups[number]
        cookie = fact.cookie if fact is not None else int(group["cookie"].iloc[-1])
        cookies.append(0 if fact is not None and fact.mixed else cookie)
        at.append(float(group["began"].iloc[0]))
    known = found.rows_of(np.array(cookies, np.int64), np.array(at, np.float64))
    return {n: int(row) if cookie else -1 for n, row, cookie in zip(numbers, known, cookies, strict=True)}


def _astride(group: pd.DataFrame, conversation: Conversation | None) -> bool:
    """Tell whether sizes say nothing of places: calls were missed, or HTTP/2 was joined, whose records look alike."""
    if conversation is None or conversation.missed:
        return conversation is not None
    return not conversation.whole and bool((group["protocol"] == _HTTP2).any())


def _certain(conversation: Conversation | None) -> bool:
    """Tell whether the socket was used by the library itself, so that records which do not fit are not read right."""
    return conversation is not None and conversation.how in ("inside", "descriptor")


def _fit(
    group: pd.DataFrame, conversation: Conversation | None, lanes: _Lanes, row: int, *, strict: bool = False
) -> tuple[Clock, Clock] | None:
    """Return the clocks of both directions where a conversation's bytes lie in the records of a connection.

    `strict`: nothing else speaks for this connection.
    """
    whole = conversation is None or conversation.whole
    loose = bool((group["protocol"] == _HTTP2).any()) and not strict
    server = bool(group["server"].any())
    found: list[Clock] = []
    for client, (first, end, began, done) in ((True, _REQUEST), (False, _RESPONSE)):
        asked = _asked(group, first, end, began)
        offsets = np.concatenate((group[first], group[end] - 1))
        moved = np.concatenate((group[began], group[done]))
        near = _NEAR_ALONE_NS if strict else _NEAR_NS
        # the traced side reads what the client's side wrote, or the other way round
        early, late = (np.inf, _AHEAD_NS) if client == server else (near, near)
        laid: list[Clock] = []
        for lane in lanes.of(row, client=client):
            ways = _lay(asked, [lane], whole=whole, loose=loose)
            # of a conversation seen from its first byte that byte lies in the first record, unless something speaks
            # against it: how late a program reads says nothing, and of an answer cut off no end is known
            settled = (w for w in ways if _apart(w, offsets, moved, early_ns=early, late_ns=late) is not None)
            laid += islice(settled, 1) if whole and not loose else ways
        clock = _in_time(laid, offsets, moved, early_ns=early, late_ns=late)
        if clock is None:
            return None
        found.append(clock)
    return found[0], found[1]


def _laid_anew(group: pd.DataFrame, chunks: pd.DataFrame, lanes: _Lanes, row: int) -> tuple[Clock, Clock] | None:
    """Return the clocks of a connection of which records are missing; None for what is not laid by sizes.

    They are of use at a client's end, where nothing is read before it arrived.
    """
    if bool((group["protocol"] == _HTTP2).any()) or bool(group["server"].any()):
        return None
    found = []
    for client, (first, end, began, _) in ((True, _REQUEST), (False, _RESPONSE)):
        known = group[group[began].notna()]
        whole = known[known["result"] == _COMPLETE][end].to_numpy(np.int64)
        pieces = chunks[:0] if client else chunks
        offset = np.concatenate((known[first].to_numpy(np.int64), whole, pieces["offset"].to_numpy(np.int64)))
        moved = np.concatenate(
            (known[began].to_numpy(), np.full(len(whole), np.nan), pieces["time"].to_numpy(np.float64))
        )
        order = np.argsort(offset, kind="stable")
        exact = np.arange(len(offset)) < len(known) + len(whole)
        places = Places(offset=offset[order], exact=exact[order], moved=moved[order])
        starts = lanes.after_gaps(row, client=client)
        best: tuple[Ints, Floats] = (np.zeros(0, np.int64), np.zeros(0))
        if not len(starts):
            way = _lay(_asked(group, first, end, began), lanes.of(row, client=client), whole=True, loose=False)
            early, late = (_NEAR_NS, _NEAR_NS) if client else (np.inf, _AHEAD_NS)
            clock = _in_time(way, known[first].to_numpy(), known[began].to_numpy(), early_ns=early, late_ns=late)
            found.append(clock or Clock(*best))
            continue
        for sizes, time in lanes.of(row, client=client):
            best = max(best, laid(sizes, time, starts, places), key=lambda each: len(each[0]))
        found.append(Clock(*best))
    return found[0], found[1]


_REQUEST = ("request_first", "request_end", "began", "sent")
_RESPONSE = ("response_first", "response_end", "first_byte", "ended")


def _asked(group: pd.DataFrame, first: str, end: str, instant: str) -> _Asked:
    """Return the offsets of what is whole: a message that was given up ends anywhere in a record."""
    known = group[group[instant].notna()]
    if not len(known):
        return _Asked(np.zeros(0, np.int64), float("nan"))
    ends = known[known["result"] == _COMPLETE][end]
    offsets = np.unique(np.concatenate((known[first].to_numpy(np.int64), ends.to_numpy(np.int64))))
    return _Asked(offsets[:_MOST_OFFSETS], float(known[instant].min()))


def _lay(asked: _Asked, lanes: Iterable[tuple[Ints, Floats]], *, whole: bool, loose: bool) -> list[Clock]:
    """Lay offsets over the ends of records; return the ways that fit, best first. `loose`: messages share records."""
    found: list[tuple[float, int, Clock]] = []
    for sizes, time in lanes:
        ends = np.cumsum(sizes)
        edges = np.concatenate((np.zeros(1, np.int64), ends))
        if not len(asked.offsets):
            return [Clock(ends, time)]
        if whole:
            shifts = edges[:_MOST_SHIFTS]
        else:
            nearest = np.argsort(np.abs(time - asked.first_ns), kind="stable")[: 2 * _NEAR]
            shifts = edges[nearest] - asked.offsets[0]
        for shift in shifts.tolist():
            score = _score(asked.offsets + shift, edges)
            if score > 0 and score >= (0.0 if loose else _ENOUGH):
                found.append((-score if whole else 0.0, len(found), Clock(ends - shift, time)))
    return [clock for _, _, clock in sorted(found, key=lambda each: each[:2])]


def _in_time(laid: Sequence[Clock], offsets: Any, moved: Floats, *, early_ns: float, late_ns: float) -> Clock | None:
    """Return the first way in which the records passed when the program moved the bytes; None where none is.

    A record may pass so much earlier and later than the program's calls. Where equal sizes leave several ways, the one
    is taken whose times are closest.
    """
    best: tuple[float, Clock] | None = None
    for clock in laid:
        apart = _apart(clock, offsets, moved, early_ns=early_ns, late_ns=late_ns)
        if apart is not None and (best is None or apart < best[0] - _SAME_NS):
            best = apart, clock
    return None if best is None else best[1]


def _apart(clock: Clock, offsets: Any, moved: Floats, *, early_ns: float, late_ns: float) -> float | None:
    """Return how far records and the program's calls lie apart, ns on average; None where that cannot be."""
    known = ~np.isnan(moved)
    behind = clock.at(offsets[known]) - moved[known]
    behind = behind[~np.isnan(behind)]
    if len(behind) and (behind.max() > late_ns or behind.min() < -early_ns):
        return None
    return float(np.abs(behind).mean()) if len(behind) else 0.0


def _score(offsets: Ints, edges: Ints) -> float:
    """Return the share of offsets that are edges of records; 0 where one lies behind all records."""
    if offsets[-1] > edges[-1]:
        return 0.0
    return max(float(np.isin(offsets, edges).mean()), 1e-6)


def _too_much(group: pd.DataFrame, lanes: _Lanes, row: int) -> bool:
    """Tell whether a conversation moved more bytes than the records of a connection hold."""
    for name, client in (("request_bytes", True), ("response_bytes", False)):
        most = max((int(sizes.sum()) for sizes, _ in lanes.of(row, client=client)), default=0)
        if int(group[name].sum()) > most + 64:
            return True
    return False


def _alone(
    free: Sequence[int],
    groups: Mapping[int, pd.DataFrame],
    conversations: Mapping[int, Conversation],
    connections: pd.DataFrame,
    lanes: _Lanes,
    taken: set[int],
) -> list[tuple[int, int, tuple[Clock, Clock]]]:
    """Return pairs of a conversation and a connection that can be nothing but each other's."""
    if not free:
        return []
    pid, role = connections["pid"].to_numpy(), connections["role"].to_numpy()
    opened = np.nan_to_num(connections["opened_ns"].to_numpy(), nan=-np.inf)
    ended = np.nan_to_num(connections["ended_ns"].to_numpy(), nan=np.inf)
    fits: dict[int, list[tuple[int, tuple[Clock, Clock]]]] = {}
    claims: dict[int, int] = {}
    for number in free:
        group, conversation = groups[number], conversations.get(number)
        began, last = float(group["began"].iloc[0]), float(np.nanmax(group[["began", "ended"]].to_numpy()))
        side = "server" if bool(group["server"].any()) else "client"
        near = np.flatnonzero((pid == group["tgid"].iloc[0]) & (opened <= began) & (ended + _AHEAD_NS >= last))
        near = np.array([row for row in near.tolist() if row not in taken and role[row] in (side, None)], np.int64)
        fits[number] = []
        unsure = (conversation is not None and conversation.mixed) or _astride(group, conversation)
        if len(near) > _MOST_CANDIDATES or unsure:
            continue
        for row in near.tolist():
            fit = _fit(group, conversation, lanes, row, strict=True) if lanes.any(row) else None
            if fit is not None:
                fits[number].append((row, fit))
                claims[row] = claims.get(row, 0) + 1
    return [
        (number, found[0][0], found[0][1])
        for number, found in fits.items()
        if len(found) == 1 and claims[found[0][0]] == 1
    ]
