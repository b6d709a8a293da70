# SPDX-License-Identifier: Apache-2.0
"""Handshakes from record headers: duration, version, resumption, outcome."""

from __future__ import annotations

import numpy as np
import pytest

from netdiag.tables import build
from netdiag.testing import RecordingBuilder

FULL13 = [
    (1, "send", 22, 512, 1), (3, "receive", 22, 122, 2), (3, "receive", 20, 1, 1), (3, "receive", 23, 1212, 0),
    (7, "send", 20, 1, 1), (7, "send", 23, 69, 0), (8, "receive", 23, 250, 0), (8, "receive", 23, 250, 0),
]  # fmt: skip
PSK13 = [(1, "send", 22, 581, 1), (3, "receive", 22, 128, 2), (3, "receive", 23, 92, 0), (4, "send", 23, 69, 0)]
FULL12 = [
    (1, "send", 22, 512, 1), (3, "receive", 22, 90, 2), (3, "receive", 22, 900, 11), (4, "send", 22, 37, 16),
    (4, "send", 20, 1, 1), (4, "send", 22, 40, 9), (6, "receive", 22, 202, 4), (6, "receive", 20, 1, 1),
    (6, "receive", 22, 40, 7),
]  # fmt: skip
ABBREVIATED12 = [
    (1, "send", 22, 512, 1), (3, "receive", 22, 90, 2), (3, "receive", 20, 1, 1), (3, "receive", 22, 40, 7),
    (4, "send", 20, 1, 1), (4, "send", 22, 40, 9),
]  # fmt: skip
RETRY13 = [(0.2, "send", 22, 300, 1), (0.5, "receive", 22, 88, 2), *FULL13]


def handshake(records, version=3, second=0, resent=(), **members):
    builder = RecordingBuilder().connection([], srtt=2000, min_rtt=1000, **members)
    for at in resent:
        when = 1_000_000_000_000 + round(at * 1e6)
        builder.record("tcp_io", cookie=1, time=when, began=when, ended=when, bytes=512, calls=1, direction=3)
    for at, side, kind, length, first in records:
        members = {"version": version, "second": second if kind == 21 else 0}
        builder.record(
            "tls_record", cookie=1, time=1_000_000_000_000 + round(at * 1e6), type=kind, length=length, first=first,
            direction=1 if side == "send" else 2, **members,
        )  # fmt: skip
    rows = build(builder.recording()).handshakes.to_dict("records")
    return rows[0] if len(rows) == 1 else rows


@pytest.mark.parametrize(
    ("records", "version", "resumed", "ms", "tickets"),
    [
        (FULL13, "TLSv1.3", False, 6, 2),
        (PSK13, "TLSv1.3", True, 3, 0),
        (FULL12, "TLSv1.2", False, 3, 1),
        (ABBREVIATED12, "TLSv1.2", True, 3, 0),
    ],
)
def test_a_handshake_that_was_completed(records, version, resumed, ms, tickets):
    row = handshake(records)
    assert (row["id"], row["connection"], row["outcome"], row["source"]) == ("h1", 0, "completed", "wire")
    assert (row["version"], row["resumed"], row["tickets_issued"]) == (version, resumed, tickets)
    assert row["duration_ms"] == pytest.approx(ms)
    assert row["client_hello_bytes"] == records[0][3]
    assert row["hello_retry"] is False


def test_who_took_the_time():
    row = handshake(FULL13)
    assert (row["network_ms"], row["server_ms"], row["client_ms"]) == (1, 1, 4)
    assert row["server_flight_bytes"] == 122 + 1 + 1212 + 3 * 5


def later(records, ms):
    """Return the records with all but the first so much later."""
    return [records[0], *((at + ms, *rest) for at, *rest in records[1:])]


def test_waiting_for_a_lost_hello_is_not_the_server_s_time():
    row = handshake(later(FULL13, 200), resent=[201])
    assert (row["network_ms"], row["server_ms"], row["client_ms"]) == (201, 1, 4)
    assert handshake(later(FULL13, 200))["server_ms"] == 201
    assert handshake(later(FULL13, 200), resent=[0.5, 300])["server_ms"] == 201, "it was another one that was lost"
    twice = handshake(later(FULL13, 600), resent=[201, 601])
    assert (twice["network_ms"], twice["server_ms"]) == (601, 1)


def test_a_lost_flight_of_a_server_is_not_the_client_s_time():
    other = {"send": "receive", "receive": "send"}
    mirrored = [(at, other[side], kind, length, first) for at, side, kind, length, first in FULL13]
    late = [*mirrored[:4], *((at + 300, *rest) for at, *rest in mirrored[4:])]
    assert handshake(late, role=2)["client_ms"] == pytest.approx(303)
    assert handshake(late, role=2, resent=[203])["client_ms"] == pytest.approx(103)


def test_a_hello_behind_the_finished_begins_nothing():
    assert handshake([*FULL13[1:7], (9, "send", 22, 512, 1)]) == []


def test_a_retry():
    row = handshake(RETRY13)
    assert (row["hello_retry"], row["started_ns"], row["resumed"]) == (True, 0.2e6, False)


def test_a_flight_between_the_bounds_decides_nothing():
    records = [(at, side, kind, 300 if length == 1212 else length, first) for at, side, kind, length, first in FULL13]
    assert handshake(records)["resumed"] is None


def test_an_older_version_is_named():
    assert handshake(FULL12, version=1)["version"] == "TLSv1"


def test_a_refusal_names_its_alert():
    row = handshake([FULL13[0], (2, "receive", 21, 2, 2)], second=40)
    assert (row["outcome"], row["alert"], row["version"], row["resumed"]) == ("failed", "handshake_failure", None, None)
    assert np.isnan([row["duration_ms"], row["server_flight_bytes"], row["tickets_issued"]]).all()
    assert handshake([FULL13[0], (2, "receive", 21, 2, 2)], second=200)["alert"] == "200"


def test_a_connection_that_closed_before_the_end_failed():
    assert handshake(FULL13[:4], kind=3, closed_by=1, close=1, closing=1_000_009_000_000)["outcome"] == "failed"


def test_a_handshake_under_way_is_unfinished():
    row = handshake(FULL13[:4])
    assert (row["outcome"], row["version"], row["resumed"]) == ("unfinished", "TLSv1.3", None)


def test_without_a_hello_there_is_no_handshake():
    assert handshake(FULL13[3:]) == []
