# SPDX-License-Identifier: Apache-2.0
"""Where plaintext lies in the records of a connection of which some are missing: laid anew after every gap. Pure.

Loss on the way hides the headers of records that came out of order. What follows is whole again, but at which byte of
the plaintext it begins is not known: the places of messages and of pieces of streams tell, which begin with records.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netdiag.tables.columns import Floats, Ints

__all__ = ["Places", "laid"]

_HEADS = (4, 3, 5, 0, 6)
"""Bytes before a piece of a stream in its record: the length of an HTTP/1 chunk, most often."""
_MOST_HEAD = 8
_MOST_EDGES, _MOST_PLACES, _MOST_SEGMENTS = 4, 8, 200
_LEAST, _ENOUGH = 2, 0.9
_AHEAD_NS = 2e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Offsets in one direction's plaintext, ascending, and when the program had them."""

    offset: Ints
    exact: NDArray[np.bool_]
    """It is where a message begins or ends, so where a record does; else a record begins a few bytes before it."""
    moved: Floats
    """NaN = not known, at ends of messages."""

    def of(self, low: int, high: int) -> Places:
        """Return the places from `low` to `high`."""
        inside = (self.offset >= low) & (self.offset <= high)
        return Places(offset=self.offset[inside], exact=self.exact[inside], moved=self.moved[inside])


def laid(sizes: Ints, time: Floats, starts: Ints, places: Places) -> tuple[Ints, Floats]:
    """Return ends of records as offsets in the plaintext and when each passed, NaN for what is missing.

    `starts` are the records that follow a gap. Records that could not be laid are left out.
    """
    ends: list[Ints] = []
    times: list[Floats] = []
    done = 0
    for part in np.split(np.arange(len(sizes)), starts[(starts > 0)])[:_MOST_SEGMENTS]:
        first = _first(sizes[part], time[part], places, done, begins=part[0] == 0 and not (starts == 0).any())
        if first is None:
            continue
        if first > done:
            ends.append(np.array([first], np.int64))
            times.append(np.array([np.nan]))
        own = first + np.cumsum(sizes[part])
        ends.append(own)
        times.append(time[part])
        done = int(own[-1])
    if not ends:
        return np.zeros(0, np.int64), np.zeros(0)
    return np.concatenate(ends), np.concatenate(times)


def _first(sizes: Ints, time: Floats, places: Places, done: int, *, begins: bool) -> int | None:
    """Return the offset at which these records begin; None where none fits. `begins`: nothing is missing before."""
    edges = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    if begins and _fits(0, edges, time, places):
        return 0
    for at in range(min(_MOST_EDGES, len(sizes))):
        near = np.flatnonzero((places.moved >= time[at] - _AHEAD_NS) & (places.offset >= done))[:_MOST_PLACES]
        for place in near.tolist():
            for head in (0,) if places.exact[place] else _HEADS:
                first = int(places.offset[place]) - head - int(edges[at])
                if first >= done and _fits(first, edges, time, places):
                    return first
    return None


def _fits(first: int, edges: Ints, time: Floats, places: Places) -> bool:
    """Tell whether records that begin at `first` begin where messages and pieces do, and before they were read."""
    edges = edges + first
    mine = places.of(int(edges[0]), int(edges[-1]))
    if len(mine.offset) < _LEAST:
        return False
    at = np.searchsorted(edges, mine.offset, side="right") - 1
    ahead = mine.offset - edges[at]
    hit = np.where(mine.exact, ahead == 0, ahead <= _MOST_HEAD)
    if hit.mean() < _ENOUGH:
        return False
    inside = (at < len(time)) & ~np.isnan(mine.moved)
    return bool((time[at[inside]] - mine.moved[inside] <= _AHEAD_NS).all())
