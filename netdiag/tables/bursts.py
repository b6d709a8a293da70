# SPDX-License-Identifier: Apache-2.0
"""Bursts of calls and retransmissions, joined to their connections. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from netdiag.tables.codes import Direction, IoFlags
from netdiag.tables.columns import Columns, Ints
from netdiag.tables.connections import Sockets
from netdiag.tables.schema import frame, objects

__all__ = ["BURST_GAP_NS", "bursts", "retransmits"]

BURST_GAP_NS = 1_000_000
"""Calls of one direction and thread with shorter pauses are one burst; the kernel program's default."""

_DIRECTIONS = objects([None, "send", "receive"])
_SIDES = objects(["local", "remote"])


def bursts(events: Columns, found: Sockets) -> pd.DataFrame:
    """Return the bursts by connection and time; a burst that was written in parts is one again."""
    direction = events.integers("direction")
    rows = found.rows_of(events.integers("cookie"), events.instant("began"))
    wanted = np.flatnonzero((rows >= 0) & ((direction == Direction.SEND) | (direction == Direction.RECEIVE)))
    began, ended = events.instant("began"), events.instant("ended")
    order = wanted[np.lexsort((ended[wanted], began[wanted], rows[wanted]))]
    events, rows, direction, began, ended = (
        events.take(order), rows[order], direction[order], began[order], ended[order],
    )  # fmt: skip
    tid = events.integers("tid")
    joined = np.zeros(len(order), bool)
    joined[1:] = (
        (events.integers("flags")[:-1] & IoFlags.CONTINUED != 0)
        & (rows[1:] == rows[:-1])
        & (direction[1:] == direction[:-1])
        & (tid[1:] == tid[:-1])
        & (began[1:] - ended[:-1] < BURST_GAP_NS)
    )
    starts = np.flatnonzero(~joined)
    ends = np.append(starts[1:], len(order)) - 1 if len(starts) else starts
    columns: dict[str, Any] = {
        "connection": rows[starts],
        "direction": _DIRECTIONS[direction[starts]],
        "began_ns": began[starts],
        "ended_ns": ended[ends],
        "arrived_ns": np.where(direction[starts] == Direction.RECEIVE, events.instant("arrived")[starts], np.nan),
        "bytes": _sum(events.integers("bytes"), starts),
        "calls": _sum(events.integers("calls"), starts),
        "first_bytes": events.integers("first_bytes")[starts],
        "max_lag_ms": _lag(events, direction, starts),
        "out_of_order": _out_of_order(events, starts),
        "missing": _missing(events, starts, rows),
        "sent_tick": np.where(direction[starts] == Direction.RECEIVE, events.known("sent_tick")[starts], np.nan),
        "pid": events.known("tgid")[starts],
        "tid": events.known("tid")[starts],
    }
    return frame("bursts", len(starts), columns)


def _sum(values: Ints, starts: Ints) -> Ints:
    return np.add.reduceat(values, starts) if len(starts) else values[:0]


def _lag(events: Columns, direction: Ints, starts: Ints) -> Any:
    """Return the longest wait of each burst in ms; NaN for sends, and where no arrival was seen."""
    if not len(starts):
        return np.zeros(0)
    known = (direction == Direction.RECEIVE) & (events.integers("arrived") != 0)
    longest = np.maximum.reduceat(np.where(known, events.integers("max_lag") / 1e3, -1.0), starts)
    return np.where(longest < 0, np.nan, longest)


def _out_of_order(events: Columns, starts: Ints) -> Any:
    """Return the segments that came out of order before each burst; NaN for sends, and where they were not counted."""
    if not len(starts):
        return np.zeros(0)
    counted = events.integers("flags") & IoFlags.ORDER != 0
    total = np.add.reduceat(np.where(counted, events.integers("out_of_order"), 0), starts).astype(np.float64)
    return np.where(counted[starts], total, np.nan)


def _missing(events: Columns, starts: Ints, rows: Ints) -> Any:
    """Return the packets that never came before each burst; NaN for sends, and where their numbers tell nothing.

    That shows after some packets, but they are counted from the first one on.
    """
    if not len(starts):
        return np.zeros(0)
    received = events.integers("direction") == Direction.RECEIVE
    numbered = received & (events.integers("flags") & IoFlags.NUMBERED != 0)
    if not numbered.any():
        return np.full(len(starts), np.nan)
    last = {row: bool(flag) for row, flag in zip(rows[received].tolist(), numbered[received].tolist(), strict=True)}
    sure = np.array([last.get(row, False) for row in rows[starts].tolist()], bool) & received[starts]
    return np.where(sure, np.add.reduceat(events.count("missing"), starts), np.nan)


def retransmits(events: Columns, found: Sockets) -> pd.DataFrame:
    """Return the retransmitted segments by time."""
    at = events.instant("began")
    rows = found.rows_of(events.integers("cookie"), at)
    index = np.flatnonzero((rows >= 0) & (events.integers("direction") == Direction.RETRANSMIT))
    index = index[np.lexsort((rows[index], at[index]))]
    columns = {
        "connection": rows[index],
        "at_ns": at[index],
        "bytes": events.count("bytes")[index],
        "by": _SIDES[(events.integers("flags")[index] & IoFlags.PEER) // IoFlags.PEER],
    }
    return frame("retransmits", len(index), columns)
