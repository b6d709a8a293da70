# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pytest

from netdiag.analysis.case import Options, prepare
from netdiag.analysis.links import Link, flag, known, links_of, number, text


def links(stage):
    tables = stage.tables()
    return links_of(tables.connections, tables.turns, tables.requests)


def test_plain_turns_are_calls(stage):
    stage.connection(0, [0, 10, 10], tls=False)
    (link,) = links(stage)
    assert (link.app, link.exact, len(link.calls)) == (3, True, 3)
    assert link.setup_ms == pytest.approx(0.05)


def test_the_handshake_of_tls_13_is_no_call(stage):
    stage.connection(0, [0, 10])
    (link,) = links(stage)
    assert (link.app, link.exact) == (2, False)
    assert link.setup_ms == pytest.approx(0.05 + 20 + 6 + 0.5)


def test_the_second_flight_of_tls_12_is_no_call(stage):
    row = stage.connection(0, ())
    stage._turn(row, 27.0, 28.0, 126, 51)
    stage._turn(row, 28.2, 50.0, 300, 400)
    (link,) = links(stage)
    assert link.app == 1
    assert link.setup_ms == pytest.approx(28.0, abs=0.01)


def test_a_short_first_request_is_a_call_when_the_next_comes_later(stage):
    row = stage.connection(0, ())
    stage._turn(row, 27.0, 50.0, 159, 200)
    stage._turn(row, 150.0, 170.0, 159, 200)
    assert links(stage)[0].app == 2


def test_messages_too_small_for_a_request_do_not_count(stage):
    row = stage.connection(0, [0])
    stage._turn(row, 80.0, 81.0, 31, 22)
    assert links(stage)[0].app == 1


def test_a_spare_connection_is_not_used(stage):
    stage.connection(0, ())
    stage.connection(0, [0])
    assert [link.used for link in links(stage)] == [False, True]


def test_waiting_after_the_handshake_is_no_set_up(stage):
    row = stage.connection(0, ())
    stage._turn(row, 5000.0, 5020.0, 400, 700)
    (link,) = links(stage)
    assert link.setup_ms == pytest.approx(26.05)


def test_requests_seen_in_records_are_the_calls(stage):
    row = stage.connection(0, [0, 10], counted=True)
    for began in (27.0, 57.0):
        stage.requests.append(
            {"connection": row, "source": "records", "began_ns": began * 1e6, "sent_ns": began * 1e6, "sequence": 1,
             "first_byte_ns": (began + 5) * 1e6, "ended_ns": (began + 9) * 1e6, "total_ms": 9.0}
        )  # fmt: skip
    (link,) = links(stage)
    assert link.exact
    assert [call.last_byte_ns for call in link.calls] == [36e6, 66e6]
    assert link.calls[0].sent_calls == 1


def test_requests_guessed_from_sockets_leave_the_turns(stage):
    row = stage.connection(0, [0], tls=False)
    stage.requests.append({"connection": row, "source": "sockets", "began_ns": 1e6, "sequence": 1})
    assert links(stage)[0].calls[0].sent_bytes == 400


def test_a_connection_older_than_the_trace_has_no_set_up(stage):
    stage.connection(0, [0], preexisting=True)
    assert math.isnan(links(stage)[0].setup_ms)


def test_idle_times_that_were_survived(stage):
    stage.connection(0, [0, 30, 70], tls=False)
    assert links(stage)[0].gaps_ms == pytest.approx((30, 70))


def test_busy_time_holds_set_up_and_calls_but_no_idle_time(stage):
    stage.connection(0, [0, 500], tls=False)
    assert links(stage)[0].busy_ms == pytest.approx(40.05)


@pytest.mark.parametrize(("address", "shown"), [("192.0.2.1", "192.0.2.1:443"), ("2001:db8::1", "[2001:db8::1]:443")])
def test_remote(stage, address, shown):
    stage.connection(0, remote_ip=address)
    assert links(stage)[0].remote == shown


def test_remote_without_a_port(stage):
    stage.connection(0, remote_port=math.nan)
    assert links(stage)[0].remote == "192.0.2.1"


def test_the_floor_is_a_round_trip_and_5_ms(stage):
    stage.connection(0, rtt_ms=40.0)
    stage.connection(0, rtt_ms=math.nan)
    assert [link.floor_ms for link in links(stage)] == [45.0, 5.0]


def test_missing_cells():
    assert math.isnan(number(None))
    assert math.isnan(number("x"))
    assert number(3) == 3.0
    assert text(None) is None
    assert text(math.nan) is None
    assert flag(None) is None
    assert flag(math.nan) is None
    assert flag(True) is True
    assert flag(False) is False
    assert known(0.0)
    assert not known(math.nan)


def test_a_missing_id_is_made_from_the_row(stage):
    stage.connection(0, id=None)
    assert isinstance(links(stage)[0], Link)
    assert links(stage)[0].id == "c1"


def test_a_handshake_that_was_seen_sets_the_time_to_set_up(stage):
    stage.connection(0, [0])
    stage.handshakes.append(
        {"id": "h1", "connection": 0, "outcome": "completed", "started_ns": 12e6, "duration_ms": 4.5}
    )
    (link,) = prepare(stage.tables(), Options()).links
    assert link.setup_ms == pytest.approx(0.05 + (12 - 0.05) + 4.5)


def test_a_program_that_connected_ahead_of_need_built_nothing_meanwhile(stage):
    stage.connection(0, [0])
    stage.handshakes.append(
        {"id": "h1", "connection": 0, "outcome": "completed", "started_ns": 9e8, "duration_ms": 4.5}
    )
    (link,) = prepare(stage.tables(), Options()).links
    assert link.setup_ms == pytest.approx(0.05 + 4.5)


def test_a_handshake_that_failed_sets_nothing(stage):
    stage.connection(0, [0])
    stage.handshakes.append(
        {"id": "h1", "connection": 0, "outcome": "failed", "started_ns": 9e8, "duration_ms": math.nan}
    )
    (link,) = prepare(stage.tables(), Options()).links
    assert link.setup_ms == pytest.approx(0.05 + 20 + 6 + 0.5)
