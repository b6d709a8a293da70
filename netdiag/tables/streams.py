# SPDX-License-Identifier: Apache-2.0
"""Answers that come in chunks, told from the times of their TLS records alone. Pure.

A chunk is what arrives with pauses under a millisecond. What the chunks say is not known: which one holds the first
token, whether the end was the end. So those stay unknown, and a chunk's time is that of its arrival at the socket.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from netdiag.tables.columns import Floats
from netdiag.tables.flights import Flights
from netdiag.tables.schema import objects

__all__ = ["MIN_CHUNKS", "streams"]

_PAUSE_NS = 1e6
"""Records with shorter pauses between them are one chunk."""
MIN_CHUNKS = 5
_MIN_LENGTH_NS = 50e6
"""A shorter answer, or one in fewer chunks, came as it was sent: no stream."""
_BULK_LENGTH = 8192
"""Records that are mostly longer than this carry a large body."""


def streams(asked: pd.DataFrame, flights: Flights) -> Any:
    """Return for each exchange the facts of its stream, or None where its answer is none, or not seen in records.

    The members are those of `requests[].stream` in the JSON; unknown ones are None. `flights.data` are the records
    with data: no handshake, ticket or alert.
    """
    found: list[dict[str, Any] | None] = [None] * len(asked)
    answers = flights.data & ~flights.client
    time, length, row = flights.time[answers], flights.length[answers], flights.row[answers]
    asked_on, sent, first, ended = (
        asked[name].to_numpy() for name in ("connection", "sent_ns", "first_byte_ns", "last_byte_ns")
    )
    wanted = (asked["source"] == "records").to_numpy() & (ended - first >= _MIN_LENGTH_NS)
    for index in np.flatnonzero(wanted):
        begin, end = np.searchsorted(row, [asked_on[index], asked_on[index] + 1])
        low = begin + np.searchsorted(time[begin:end], first[index], "left")
        high = begin + np.searchsorted(time[begin:end], ended[index], "right")
        if high > low:
            found[index] = _stream(time[low:high], length[low:high], float(sent[index]))
    return pd.Series(objects(found), index=asked.index, dtype=object)


def _stream(time: Floats, length: Any, sent: float) -> dict[str, Any] | None:
    starts = np.append(True, np.diff(time) >= _PAUSE_NS)
    chunks = time[starts]
    if len(chunks) < MIN_CHUNKS or np.median(length) > _BULK_LENGTH:
        return None
    gaps = np.diff(chunks) / 1e6
    # The head of the answer alone is no chunk of it; together with more records, the first chunk came with it.
    with_head = len(starts) > 1 and not starts[1]
    return {
        "kind": None,
        "chunks": len(chunks),
        "first_chunk_ms": (float(chunks[0]) - sent) / 1e6 if with_head else None,
        "first_token_ms": None,
        "ttft_ms": None,
        "gap_p50_ms": float(np.percentile(gaps, 50)),
        "gap_p95_ms": float(np.percentile(gaps, 95)),
        "gap_max_ms": float(gaps.max()),
        "tokens": None,
        "finished": None,
        "stalls": [],
    }
