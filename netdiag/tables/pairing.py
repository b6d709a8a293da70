# SPDX-License-Identifier: Apache-2.0
"""Whether the records of a connection bear out which answer belongs to which request of HTTP/1. Pure.

The calls of a program are seen one by one, and one that was missed leaves no hole in their offsets. The wire shows it:
a client that waits for its answer sends the request and nothing else until the answer comes. Where more was sent in
that time there was another request, and the answer may be that one's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netdiag.tables.binding import Bound
from netdiag.tables.columns import Floats, Ints
from netdiag.tables.flights import Flights
from netdiag.tables.spoken import Spoken

__all__ = ["Missed", "missed", "without_answers"]

Bools = NDArray[np.bool_]

_HTTP2 = 3
_NOT_FOLLOWED = 6
_PIPELINED, _CONTINUED = 512, 8
_EARLIER_NS = 50e6
"""A call that sends returns so much later than its first record passes, at most."""
_SLACK_BYTES = 64
_INSTANTS = ("first_byte", "ended")
_TOKENS = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
_PLACES = ("response_first", "response_end", "response_body", "response_bytes", "status", "stream_kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """What the records say of calls that were not seen."""

    answers: Bools
    """Exchanges whose answer may be another request's."""
    late: frozenset[int]
    """Conversations of which something was not seen."""
    torn: frozenset[int]
    """Of them those whose offsets leave it out, and say nothing of records."""


def missed(said: Spoken, bound: Bound, flights: Flights, gaps: Bools) -> Missed:
    """Return what was not seen. `gaps`: connections that lack records."""
    raw = said.exchanges
    wrong = np.zeros(len(raw), bool)
    late = {number for number, fact in said.conversations.items() if not fact.whole or fact.missed}
    torn: set[int] = set()
    sent = np.flatnonzero(flights.data & flights.client)
    row_of = flights.row[sent]
    numbers = raw["conversation"].to_numpy()
    for number, row in bound.rows.items():
        fact = said.conversations.get(number)
        low, high = np.searchsorted(row_of, [row, row + 1])
        if gaps[row] or low == high or (fact is not None and fact.by_packet):
            continue
        mine = np.flatnonzero(numbers == number)
        group = raw.iloc[mine].sort_values("number", kind="stable")
        if bool((group["protocol"] == _HTTP2).any()) or bool((group["flags"] & (_PIPELINED | _CONTINUED)).any()):
            continue
        records = sent[low:high]
        sums = _Sums(flights.time[records], flights.plain[records])
        mine = group.index.to_numpy()
        wrong[mine] = _crowded(group, sums)
        ahead = sums.until(group["first_byte"].to_numpy()) - group["request_end"].to_numpy()
        ahead = ahead[group["first_byte"].notna().to_numpy()]
        if fact is None or fact.whole:
            ahead = np.concatenate((np.zeros(1, np.int64), ahead))
        if wrong[mine].any() or bool((np.diff(ahead) > _SLACK_BYTES).any()):
            torn.add(number)
    return Missed(answers=wrong, late=frozenset(late | torn), torn=frozenset(torn))


class _Sums:
    """How many bytes a client had sent by when."""

    def __init__(self, time: Floats, sizes: Ints) -> None:
        self._time = time
        self._total = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))

    def until(self, instants: Floats) -> Ints:
        """Return bytes before each instant; those of an unknown one mean nothing."""
        return self._total[np.searchsorted(self._time, np.nan_to_num(instants, nan=0.0), side="left")]


def _crowded(group: pd.DataFrame, sums: _Sums) -> Bools:
    """Tell of which exchanges of a conversation the client sent more than the request until the answer came."""
    began, came = group["began"].to_numpy(), group["first_byte"].to_numpy()
    before = np.concatenate(([-np.inf], np.fmax.accumulate(came)[:-1]))
    server = group["server"].to_numpy() > 0
    start = np.fmax(before, np.where(server, -np.inf, began - _EARLIER_NS))
    known = ~np.isnan(came) & ~np.isnan(began)
    known &= ~server | (before > -np.inf)  # what a server's side got before it was looked at is not known
    moved = sums.until(came) - sums.until(np.maximum(start, -1e18))
    crowded: Bools = known & (moved > group["request_bytes"].to_numpy() + _SLACK_BYTES)
    return crowded


def without_answers(said: Spoken, chosen: Bools) -> Spoken:
    """Return what was said with the answers of the `chosen` exchanges unknown."""
    if not chosen.any():
        return said
    raw, chunks = said.exchanges.copy(), said.chunks
    for name in _INSTANTS + _TOKENS:
        raw.loc[chosen, name] = np.nan
    for name in _PLACES:
        raw.loc[chosen, name] = 0
    raw.loc[chosen, "result"] = _NOT_FOLLOWED
    raw["headers"] = [{} if none else fields for none, fields in zip(chosen.tolist(), raw["headers"], strict=True)]
    keys = set(zip(raw["conversation"][chosen], raw["number"][chosen], strict=True))
    kept = [pair not in keys for pair in zip(chunks["conversation"], chunks["exchange"], strict=True)]
    return Spoken(
        exchanges=raw, chunks=chunks[np.array(kept, bool)].reset_index(drop=True), conversations=said.conversations
    )
