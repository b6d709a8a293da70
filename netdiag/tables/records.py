# SPDX-License-Identifier: Apache-2.0
"""TLS record headers joined to their connections, and what the first bytes of a connection speak. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netdiag.tables.codes import Direction, RecordFlags, RecordType, WireClass
from netdiag.tables.columns import Columns, Ints
from netdiag.tables.connections import Sockets
from netdiag.tables.schema import frame, objects

__all__ = ["Wire", "records", "wire"]

_DIRECTIONS = objects([None, "send", "receive"])


class Wire:
    """What the packets of each connection showed, one element a connection."""

    def __init__(self, rows: int) -> None:
        """Start with nothing seen on any of `rows` connections."""
        self.speaks: Ints = np.zeros(rows, np.int64)
        """A `WireClass`; 0 where nothing was seen."""
        self.proxied: NDArray[np.bool_] = np.zeros(rows, bool)
        """Whether it began with a request to a proxy to connect: the other end is not who is talked to."""
        self.gaps: NDArray[np.bool_] = np.zeros(rows, bool)
        """Whether records are missing: what was counted is a lower bound."""
        self.watched = False
        """Whether packets were looked at."""

    @classmethod
    def joined(cls, parts: Sequence[Wire]) -> Wire:
        """Return what was seen on the connections of all parts."""
        seen = cls(0)
        seen.speaks = np.concatenate([part.speaks for part in parts])
        seen.proxied = np.concatenate([part.proxied for part in parts])
        seen.gaps = np.concatenate([part.gaps for part in parts])
        seen.watched = any(part.watched for part in parts)
        return seen


def wire(events: Columns, found: Sockets) -> Wire:
    """Return what each connection speaks; where that changed (a proxy's CONNECT, then TLS), the last."""
    seen = Wire(len(found.cookies))
    seen.watched = True
    at, kind = events.instant("time"), events.integers("type")
    rows = found.rows_of(events.integers("cookie"), at)
    said = np.flatnonzero((rows >= 0) & (kind == RecordType.CLASS))
    said = said[np.argsort(at[said], kind="stable")]
    speaks = events.integers("first")[said]
    seen.speaks[rows[said]] = speaks
    seen.proxied[rows[said[speaks == WireClass.CONNECT]]] = True
    seen.speaks[rows[(rows >= 0) & (kind >= RecordType.CHANGE_CIPHER_SPEC)]] = WireClass.TLS
    seen.gaps[rows[(rows >= 0) & (kind == RecordType.GAP)]] = True
    return seen


def records(events: Columns, found: Sockets) -> pd.DataFrame:
    """Return the record headers by connection and time."""
    at, kind, direction = events.instant("time"), events.integers("type"), events.integers("direction")
    rows = found.rows_of(events.integers("cookie"), at)
    known = (direction == Direction.SEND) | (direction == Direction.RECEIVE)
    index = np.flatnonzero((rows >= 0) & known & (kind >= RecordType.CHANGE_CIPHER_SPEC))
    index = index[np.lexsort((index, at[index], rows[index]))]
    columns = {
        "connection": rows[index],
        "at_ns": at[index],
        "direction": _DIRECTIONS[direction[index]],
        "type": kind[index],
        "length": events.integers("length")[index],
        "first": events.integers("first")[index],
        "second": events.integers("second")[index],
        "version": events.integers("version")[index],
        "resynced": (events.integers("flags")[index] & RecordFlags.RESYNCED) != 0,
    }
    return frame("records", len(index), columns)
