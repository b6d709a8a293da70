# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag import testing
from netdiag.tui import detail
from tests.fakes import dashboards

EXAM = dashboards.examination()


def test_the_ladder_shows_flights_and_who_was_waited_for():
    view = detail.connection(EXAM, 0)
    assert view is not None
    steps = view.steps
    assert [(step.side, step.what.split(",")[0]) for step in steps] == [
        ("client", "SYN"),
        ("server", "connected (SYN"),
        ("client", "ClientHello"),
        ("server", "ServerHello"),
        ("client", "encrypted"),
        ("client", "first request: POST /v1/chat"),
        ("server", "first byte of its answer"),
    ]
    hello, answer = steps[3], steps[4]
    assert hello.waited_ms == pytest.approx(3.0)
    assert hello.waited_for == "server and network"
    assert answer.waited_ms == pytest.approx(6.0)
    assert answer.waited_for == "client"
    assert steps[0].waited_ms is None


def test_at_a_servers_end_the_sides_are_turned_round():
    rows = [testing.connection(role="server")]
    built = testing.tables(connections=rows, records=[testing.record(0, "receive", 1, 500, type=22, first=1)])
    view = detail.connection(dashboards.examination(built, []), 0)
    assert view is not None
    assert ("client", "ClientHello, 500 B") in [(step.side, step.what) for step in view.steps]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({}, "open when the trace ended"),
        ({"closed_by": "remote", "close": "fin", "closing_at": 5000, "idle_before_close_ms": 4000.0},
         "5.000 s, by the other end (FIN), after 4.00 s without data"),
        ({"closed_by": None, "close": "rst", "closing_at": 10}, "by whom is unknown (RST)"),
        ({"outcome": "refused", "error": "ECONNREFUSED"}, "refused: ECONNREFUSED"),
        ({"outcome": "pending", "close": None}, "pending"),
    ],
)  # fmt: skip
def test_why_it_ended_is_said(columns, words):
    built = testing.tables(connections=[testing.connection(**columns)])
    view = detail.connection(dashboards.examination(built, []), 0)
    assert view is not None
    assert words in dict(view.facts)["ended"]


def test_what_is_not_known_is_no_number():
    built = testing.tables(connections=[{"protocol": "tcp"}])
    view = detail.connection(dashboards.examination(built, []), 0)
    assert view is not None
    facts = dict(view.facts)
    assert facts["TLS"] == "–"
    assert facts["opened"].startswith("–")
    assert "requests unknown" in facts["carried"]
    assert "–" in facts["round trip"]


def test_pauses_are_counted_once_and_stalls_blamed():
    view = detail.stream(EXAM, 0)
    assert view is not None
    assert [round(gap.gap_ms) for gap in view.gaps] == [20, 20, 700, 20]
    assert [gap.blame for gap in view.gaps] == [None, None, "server", None]
    assert sum(count for _, count in view.histogram) == 4
    assert view.histogram[-1] == ("1.00 s", 1)


def test_only_streams_have_a_stream_view():
    assert detail.stream(EXAM, 1) is None
    assert detail.stream(EXAM, 99) is None
    assert detail.connection(EXAM, 99) is None


def test_rows_are_found_by_their_id():
    assert detail.row_of(EXAM.tables.connections, "c2") == 1
    assert detail.row_of(EXAM.tables.connections, "c99") is None
    assert detail.row_of(EXAM.tables.connections, None) is None
    assert detail.row_of(EXAM.tables.handshakes, "h1") == 0
