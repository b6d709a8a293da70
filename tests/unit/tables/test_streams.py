# SPDX-License-Identifier: Apache-2.0
"""Chunks of streamed answers and the gaps between them, from the times of TLS records."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from netdiag.tables.flights import Flights
from netdiag.tables.schema import frame
from netdiag.tables.streams import MIN_CHUNKS, streams

SENT_MS = 10.0


def stream_of(arrivals, *, length=120, source="records"):
    """Return the stream of one request whose answer's records arrive at these milliseconds."""
    times = np.asarray(arrivals, float) * 1e6
    count = len(times)
    records = frame(
        "records",
        count,
        {
            "connection": [0] * count,
            "at_ns": times,
            "direction": ["receive"] * count,
            "type": [23] * count,
            "length": [length] * count,
        },
    )
    connections = frame("connections", 1, {"role": ["client"]})
    flights = Flights(connections, records)
    flights.data = np.ones(count, bool)
    asked = pd.DataFrame(
        {
            "connection": [0],
            "source": [source],
            "sent_ns": [SENT_MS * 1e6],
            "first_byte_ns": [times[0]],
            "last_byte_ns": [times[-1]],
        },
    )
    return streams(asked, flights)[0]


def test_gaps_are_those_of_the_arrivals():
    arrivals = [110, *np.arange(300, 700, 20), 1900, *np.arange(1920, 2200, 20)]
    found = stream_of(arrivals)
    assert found["chunks"] == len(arrivals)
    assert found["gap_max_ms"] == pytest.approx(1900 - 680)
    assert found["gap_p50_ms"] == pytest.approx(20)
    assert found["first_chunk_ms"] is None  # the head came alone


def test_records_that_arrive_together_are_one_chunk():
    found = stream_of([100, 100.2, *[at + part for at in range(120, 320, 20) for part in (0, 0.3)]])
    assert found["chunks"] == 11
    assert found["first_chunk_ms"] == pytest.approx(90)


def test_what_records_cannot_tell_is_unknown():
    found = stream_of(np.arange(100, 400, 20))
    assert [found[name] for name in ("kind", "first_token_ms", "ttft_ms", "tokens", "finished")] == [None] * 5
    assert found["stalls"] == []


@pytest.mark.parametrize(
    ("arrivals", "options"),
    [
        ([100, 101.5, 103, 104.5, 106, 107.5], {}),  # over at once
        (np.linspace(100, 400, MIN_CHUNKS - 1), {}),
        (np.arange(100, 400, 20), {"length": 16401}),  # a large body
        (np.arange(100, 400, 20), {"source": "sockets"}),
        ([100], {}),
    ],
)
def test_other_answers_are_no_streams(arrivals, options):
    assert stream_of(arrivals, **options) is None


def test_no_requests():
    nothing = streams(
        frame("requests", 0, {}).assign(last_byte_ns=np.nan),
        Flights(frame("connections", 0, {}), frame("records", 0, {})),
    )
    assert isinstance(nothing, pd.Series)
    assert nothing.empty
