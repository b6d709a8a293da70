# SPDX-License-Identifier: Apache-2.0
"""Plaintext joined into the requests: it replaces what was inferred on the same connections, and brings chunks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netdiag.tables.binding import Bound, bind
from netdiag.tables.chunks import chunks_of, streams_of
from netdiag.tables.connections import Sockets
from netdiag.tables.flights import Flights
from netdiag.tables.pairing import Missed, missed, without_answers
from netdiag.tables.plaintext import KEY, exchanges_of, replaced
from netdiag.tables.schema import empty, objects
from netdiag.tables.spoken import Spoken

__all__ = ["Dialogue", "not_followed"]

_SAME_NS = 50e6
"""An exchange that was inferred within this time of one in plaintext may be the same."""


class Dialogue:
    """What was said in plaintext, and where it belongs."""

    def __init__(
        self,
        said: Spoken,
        found: Sockets,
        connections: pd.DataFrame,
        bursts: pd.DataFrame,
        flights: Flights,
        gaps: NDArray[np.bool_],
    ) -> None:
        """`gaps`: connections of which records are missing."""
        self._rows = len(connections)
        bound = bind(said, found, connections, flights, gaps)
        self._missed: Missed = missed(said, bound, flights, gaps)
        clocks = {number: clock for number, clock in bound.clocks.items() if number not in self._missed.torn}
        self._bound: Bound = replace(bound, clocks=clocks)
        self._said = said = without_answers(said, self._missed.answers)
        self._told = exchanges_of(said, self._bound, connections, bursts)
        self._asked = pd.DataFrame()
        self._doubtful: set[int] = set()

    @property
    def whole(self) -> NDArray[np.bool_]:
        """Tell of which connections all requests are known."""
        known = np.zeros(self._rows, bool)
        for number, row in self._bound.rows.items():
            known[row] = number not in self._missed.late
        return known

    def asked(self, inferred: pd.DataFrame) -> pd.DataFrame:
        """Return all exchanges by connection and time: what plaintext tells, and what was inferred elsewhere."""
        told = self._without_doubles(inferred)
        rest = replaced(inferred, told[told["connection"] < self._rows], self._missed.late, self._bound)
        parts = [part for part in (told, rest) if len(part)]
        if not parts:
            return inferred
        joined = pd.concat(parts) if len(parts) > 1 else parts[0]
        self._asked = joined.sort_values(["connection", "began_ns"], kind="stable").reset_index(drop=True)
        return self._asked

    def _without_doubles(self, inferred: pd.DataFrame) -> pd.DataFrame:
        """Leave out conversations without connection that may be what was inferred on one of the process."""
        strange = self._told[self._told["connection"] >= self._rows]
        if not len(strange) or not len(inferred):
            return self._told
        free = inferred[~inferred["connection"].isin(list(self._bound.rows.values()))]
        for number in strange["conversation"].unique().tolist():
            group = strange[strange["conversation"] == number]
            near = free[free["pid"].isin(group["pid"])]["sent_ns"].to_numpy()
            apart = np.abs(group["sent_ns"].to_numpy()[:, None] - near[None, :])
            if near.size and bool((apart <= _SAME_NS).any(axis=1).any()):
                self._doubtful.add(number)
        return self._told[~self._told["conversation"].isin(list(self._doubtful))].reset_index(drop=True)

    def join(self, requests: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the requests, whose index is their place in `asked`, with their streams, and the table of chunks."""
        order = requests.index.to_numpy()
        requests = requests.reset_index(drop=True)
        if KEY[0] not in self._asked:
            return requests, empty("chunks")
        told = self._asked.iloc[order].reset_index(drop=True)
        told = told[(told["source"] == "plaintext").to_numpy()]
        rows = {
            (int(one), int(two)): int(row) for row, one, two in zip(told.index, told[KEY[0]], told[KEY[1]], strict=True)
        }
        chunks = chunks_of(self._said, self._bound, rows)
        streams = requests["stream"].to_numpy(copy=True)
        for row, facts in streams_of(requests, chunks, told).items():
            streams[row] = facts
        return requests.assign(stream=pd.Series(objects(streams), dtype=object)), chunks

    def unobservable(self) -> list[dict[str, Any]]:
        """Return what could not be told, as coverage says it."""
        exchanges = self._said.exchanges
        numbers = exchanges["conversation"]
        found = []
        for chosen, why in (
            (
                numbers.isin(list(self._bound.contradicted)),
                "the bytes do not fit the connection that they seemed to pass on",
            ),
            (self._missed.answers, "which answer is theirs is not known: more requests passed than were seen"),
            (
                numbers.isin(list(self._doubtful)),
                "which connection they passed on is not known, so their times come from TLS records",
            ),
        ):
            mine = exchanges[chosen]
            for pid, count in mine["tgid"].value_counts(sort=False).to_dict().items():
                what = f"{count:,} request{'' if count == 1 else 's'} in plaintext"
                found.append({"pid": int(str(pid)) or None, "what": what, "why": why})
        return found


def not_followed(facts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what the process that took plaintext apart could not follow, as coverage says it."""
    found = []
    for fact in facts:
        reasons = fact.get("not_followed")
        for why, count in reasons.items() if isinstance(reasons, Mapping) else ():
            if type(count) is int and count > 0:
                what = f"parts of {count:,} conversation{'' if count == 1 else 's'} in plaintext"
                found.append({"pid": None, "what": what, "why": str(why)})
        if fact.get("whole") is False:
            found.append(
                {"pid": None, "what": "the last requests in plaintext", "why": "they were not handed over in time"}
            )
    return found
