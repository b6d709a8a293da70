# SPDX-License-Identifier: Apache-2.0
"""Requests of plain connections: counted, timed, and their parts add up."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from netdiag import testing
from netdiag.tables import build
from netdiag.tables.requests import from_exchanges
from netdiag.tables.schema import frame
from netdiag.testing import RecordingBuilder

TWO = [("send", 1, 200), ("receive", 101, 1000), ("send", 201, 202), ("receive", 251, 500), ("receive", 300, 40)]
PARTS = ["connect_ms", "client_setup_ms", "tls_ms", "queue_ms", "send_ms", "wait_ms", "receive_ms", "reader_lag_ms"]


def tables(calls, **members):
    return build(RecordingBuilder().connection(calls, **members).recording())


def test_a_request_is_a_turn():
    made = tables(TWO)
    assert made.connections["requests"].tolist() == [2]
    first, second = made.requests.to_dict("records")
    assert (first["id"], first["connection"], first["sequence"], first["source"]) == ("r1", 0, 1, "sockets")
    assert (first["request_bytes"], first["response_bytes"], first["protocol"]) == (200, 1000, "inferred")
    assert (first["reused"], second["reused"]) == (False, True)
    assert (first["started_ns"], second["started_ns"]) == (0, 201e6)
    assert (first["connect_ms"], second["connect_ms"]) == (pytest.approx(0.1), 0)
    assert first["client_setup_ms"] == pytest.approx(0.9)
    assert (first["wait_ms"], second["wait_ms"]) == (pytest.approx(99.99), pytest.approx(49.99))
    assert second["idle_before_ms"] == pytest.approx(100)
    assert (first["complete"], second["complete"]) == (None, None)
    assert np.isnan(first["dns_ms"])
    assert second["dns_ms"] == 0


@pytest.mark.parametrize("calls", [TWO, TWO[:3], [("send", 1, 9), ("send", 5, 9), ("receive", 9, 9)]])
def test_the_parts_add_up_to_the_total(calls):
    made = tables(calls).requests
    total = made[PARTS].sum(axis=1) + made["unattributed_ms"]
    whole = made["total_ms"].notna()
    assert total[whole].tolist() == pytest.approx(made["total_ms"][whole].tolist())


def test_a_reader_that_came_late_has_its_own_part():
    builder = RecordingBuilder().connection([("send", 1, 200)])
    builder.call(1, "receive", 601, 1000, arrived=1_000_101_000_000, max_lag=500_000)
    row = build(builder.recording()).requests.iloc[0]
    assert (row["wait_ms"], row["reader_lag_ms"], row["receive_ms"], row["last_lag_ms"]) == (100, 500, 0, 500)


def test_a_server_reading_late_is_no_part_of_its_answer():
    made = tables([("receive", 1, 200), ("send", 101, 1000)], role=2).requests.iloc[0]
    assert (made["wait_ms"], made["reader_lag_ms"], made["connect_ms"]) == (100, 0, 0)


@pytest.mark.parametrize(("closed", "complete"), [(("remote", 9), False), (None, None)])
def test_a_request_without_an_answer(closed, complete):
    calls = [("send", 1, 200), ("receive", 2, 900), ("send", 5, 210)]
    row = build(RecordingBuilder().connection(calls, closed=closed).recording()).requests.iloc[1]
    assert (row["complete"], row["request_bytes"]) == (complete, 210)
    assert np.isnan([row["response_bytes"], row["total_ms"], row["wait_ms"]]).all()


def test_a_hundred_continue_is_no_answer():
    calls = [("send", 1, 300), ("receive", 2, 25), ("send", 3, 90000), ("receive", 50, 400), ("send", 60, 310)]
    made = build(RecordingBuilder().connection(calls).wire(1, "send", 0, 0, first=2).recording()).requests
    assert made["request_bytes"].tolist() == [90300, 310]
    assert (made["began_ns"][0], made["sent_ns"][0], made["response_bytes"][0]) == (1e6, 3e6, 400)


def test_a_hundred_continue_without_the_rest_stays_a_turn():
    assert tables([("send", 1, 300), ("receive", 2, 25)]).requests["response_bytes"].tolist() == [25]


def test_a_connection_made_ahead_is_not_billed_to_its_first_request():
    row = tables([("send", 5000, 200), ("receive", 5100, 900)]).requests.iloc[0]
    assert (row["started_ns"], row["connect_ms"], row["client_setup_ms"]) == (5e9, 0, 0)
    assert row["total_ms"] == pytest.approx(100)
    assert np.isnan(row["queue_ms"])


def test_nothing_is_guessed_for_encrypted_and_older_connections():
    tls = tables([("send", 1, 517), ("receive", 2, 2000), ("send", 3, 80), ("receive", 9, 300)])
    assert len(tls.requests) == 0
    assert np.isnan(tls.connections["requests"]).all()
    assert tls.connections["turns"].tolist() == [2]
    assert np.isnan(tables(TWO, flags=1).connections["requests"]).all()


def test_http2_has_no_turns_to_count():
    builder = RecordingBuilder().connection(TWO).wire(1, "send", 0, 0, first=3)
    made = build(builder.recording())
    assert (len(made.requests), made.connections["encrypted"].tolist()) == (0, [False])


def test_ids_are_in_order_of_time_across_connections():
    builder = RecordingBuilder().connection([("send", 50, 200), ("receive", 60, 9)])
    builder.connection([("send", 20, 200), ("receive", 30, 9), ("send", 70, 200), ("receive", 80, 9)])
    made = build(builder.recording()).requests
    assert made["id"].tolist() == ["r1", "r2", "r3"]
    assert made["began_ns"].tolist() == [20e6, 50e6, 70e6]
    assert made["sequence"].tolist() == [1, 1, 2]


NAN = float("nan")


@pytest.mark.parametrize(
    ("encrypted", "shake", "set_up", "tls"),
    [
        (True, (2e6, 5.0), 1, 5),
        (True, (2e6, NAN), 1, NAN),  # its end was not seen
        (True, None, NAN, NAN),
        (None, None, NAN, NAN),
        (False, None, 9, 0),
        (True, (2e6, 20.0), 1, 8),  # the request went out early, before the handshake was over
    ],
)
def test_of_a_handshake_that_was_not_seen_to_its_end_nobody_knows_how_long_it_took(encrypted, shake, set_up, tls):
    ends = testing.tables(
        connections=[testing.connection(opened_ns=0.0, established_ns=1e6, encrypted=encrypted)]
    ).connections
    times = {"began_ns": [10e6], "sent_ns": [11e6], "first_byte_ns": [60e6], "last_byte_ns": [70e6]}
    rest = {name: [0.0] for name in ("sent_bytes", "received_bytes", "lag_ms", "last_lag_ms", "pid", "tid")}
    asked = pd.DataFrame({"connection": [0], "source": ["records"], **times, **rest})
    shakes = {"connection": [0], "started_ns": [shake[0]], "duration_ms": [shake[1]]} if shake else {}
    row = from_exchanges(ends, asked, frame("handshakes", 1 if shake else 0, shakes)).iloc[0]
    assert [row["client_setup_ms"], row["tls_ms"]] == pytest.approx([set_up, tls], nan_ok=True)
    assert row[[*PARTS, "unattributed_ms"]].sum() == pytest.approx(row["total_ms"])
