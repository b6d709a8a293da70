# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

STREAM = {"received_bursts": 12.0, "received_bytes": 9000.0}


def streams(stage, times, unread=27.0, turn=STREAM, **options):
    at = 0.0
    for _ in range(times):
        row = stage.connection(at, closed_by="local", close="rst", unread=unread, unread_close=True, **options)
        stage.turns[-1] |= turn
        stage.turns[-1]["last_byte_ns"] = stage.turns[-1]["first_byte_ns"] + 300e6
        at = stage.end_of(row) + 400


def test_the_tail_of_streams_is_left(stage):
    stage.process(1, libraries=["openai"])
    streams(stage, 4)
    finding = stage.only("reuse.stream-closed-early")
    assert finding.confidence == 0.9
    assert finding.advice[0].applies_to == "openai"


def test_some_tails_that_were_seen_speak_for_all(stage):
    streams(stage, 4)
    for connection in stage.connections[2:]:
        connection |= {"unread": 0.0, "unread_close": False, "close": "fin"}
    assert stage.only("reuse.stream-closed-early").count == 4


def test_a_library_known_for_it_is_named_with_doubt(stage):
    stage.process(1, libraries=["openai"])
    streams(stage, 4, unread=0.0)
    for connection in stage.connections:
        connection |= {"unread_close": False, "close": "fin"}
    finding = stage.only("reuse.stream-closed-early")
    assert (finding.cause, finding.confidence) == ("known-client", 0.5)


def test_streams_of_another_library_that_were_read_to_the_end_are_no_such_thing(stage):
    stage.process(1, libraries=["aiohttp"])
    streams(stage, 4, unread=0.0)
    for connection in stage.connections:
        connection |= {"unread_close": False, "close": "fin"}
    stage.only("reuse.client-per-call")


def test_the_tail_that_came_after_the_close_was_left_too(stage):
    streams(stage, 4, unread=0.0)
    for row, connection in enumerate(stage.connections):
        connection |= {"unread_close": False, "close": "fin"}
        at = connection["closing_ns"] + 1e5
        stage.records.append({"connection": row, "at_ns": at, "direction": "receive", "type": 23, "length": 22})
    assert stage.only("reuse.stream-closed-early").confidence == 0.9


def test_two_streams_are_no_habit(stage):
    streams(stage, 2)
    assert stage.codes() == []


def test_the_middle_of_streams_is_cancelled(stage):
    streams(stage, 4, unread=5000.0)
    stage.only("reuse.cancelled")


def test_bodies_that_are_closed_unread(stage):
    stage.process(1, libraries=["requests"])
    at = 0.0
    for _ in range(4):
        row = stage.connection(at, closed_by="local", close="rst", unread=45.0, unread_close=True)
        at = stage.end_of(row) + 50
    finding = stage.only("reuse.body-unread")
    assert finding.advice[0].setting == "stream=True"


def test_a_large_body_of_which_a_part_was_read_is_cancelled(stage):
    at = 0.0
    for _ in range(4):
        row = stage.connection(
            at, closed_by="local", unread=90_000.0, unread_close=True, turn={"received_bytes": 60_000.0}
        )
        at = stage.end_of(row) + 50
    stage.only("reuse.cancelled")


@pytest.mark.parametrize("times", [3, 7])
def test_bodies_that_stay_unread_and_open(stage, times):
    for call in range(times + 1):
        stage.connection(call * 200, unread=300.0)
    finding = stage.only("reuse.body-unread")
    assert (finding.cause, finding.count) == ("left-open", times)


@pytest.mark.parametrize("times", [3, 5])
def test_bodies_that_stay_unread_until_the_program_ends(stage, times):
    stage.process(1, ended_ns=3000e6)
    for call in range(times + 1):
        row = stage.connection(call * 200, closed_by="local", close="rst", unread=300.0, unread_close=True)
        stage.connections[row] |= {"closing_ns": 2990e6, "idle_before_close_ms": 2940.0 - call * 200}
    finding = stage.only("reuse.body-unread")
    assert (finding.cause, finding.count) == ("left-open", times)


def test_a_body_closed_unread_after_a_while(stage):
    at = 0.0
    for _ in range(4):
        row = stage.connection(at, closed_by="local", close="rst", idle=700, unread=300.0, unread_close=True)
        at = stage.end_of(row) + 50
    assert stage.only("reuse.body-unread").cause is None


def test_two_bodies_left_open_are_no_habit(stage):
    for call in range(3):
        stage.connection(call * 200, unread=300.0)
    assert stage.codes() == []


def test_no_library_is_blamed_where_the_server_ends_some(stage):
    stage.process(1, libraries=["openai"])
    streams(stage, 6, unread=0.0)
    for connection in stage.connections:
        connection |= {"unread_close": False, "close": "fin"}
    for connection in stage.connections[:2]:
        connection["closed_by"] = "remote"
    stage.only("reuse.server-close")


def cut(stage, times, *, whole=False, finished=None, **turn):
    """Play calls whose answers, as plaintext shows, were not over when the program closed at once."""
    at = 0.0
    for number in range(times):
        row = stage.connection(at, closed_by="local", idle=0.5)
        stage.turns[-1] |= turn
        if turn:
            stage.turns[-1]["last_byte_ns"] = stage.turns[-1]["first_byte_ns"] + 300e6
        last = stage.turns[-1]
        stage.requests.append(
            {"connection": row, "source": "plaintext", "protocol": "http/1.1", "status": 200.0, "complete": whole}
            | {"id": f"r{number + 1}", "headers": {}, "request_headers": {}, "total_ms": 20.0}
            | {name: last[name] for name in ("began_ns", "sent_ns", "first_byte_ns")}
            | {"ended_ns": last["last_byte_ns"], "stream": {"finished": finished}}
        )
        at = stage.end_of(row) + 400


def test_a_body_that_had_not_come_yet_was_not_read_either(stage):
    cut(stage, 4)
    finding = stage.only("reuse.body-unread")
    assert (finding.count, finding.confidence) == (4, 0.85)


def test_a_stream_that_went_on_was_cancelled(stage):
    cut(stage, 4, **STREAM)
    assert "reuse.cancelled" in stage.codes()


def test_a_stream_whose_last_event_had_come_was_closed_early(stage):
    cut(stage, 4, finished=True, **STREAM)
    assert "reuse.stream-closed-early" in stage.codes()


@pytest.mark.parametrize(("finished", "code"), [(True, "reuse.stream-closed-early"), (False, "reuse.cancelled")])
def test_a_stream_that_came_at_once_was_not_cancelled_where_its_last_event_was_read(stage, finished, code):
    cut(stage, 4, finished=finished)
    for connection, turn in zip(stage.connections, stage.turns[1::2], strict=True):
        connection |= {"unread": 120.0, "unread_close": True, "close": "rst"}
        turn |= {"received_bytes": 9000.0}
    assert code in stage.codes()


def test_answers_that_were_read_are_those_of_a_client_per_call(stage):
    cut(stage, 4, whole=True)
    assert stage.codes() == ["reuse.client-per-call"]


def test_an_answer_that_came_after_the_close_was_not_left(stage):
    at = 0.0
    for _ in range(4):
        row = stage.connection(at, closed_by="local", wait=2600.0)
        stage.connections[-1]["closing_ns"] = stage.turns[-1]["began_ns"] + 2000e6
        late = stage.turns[-1]["first_byte_ns"]
        stage.records.append({"connection": row, "at_ns": late, "direction": "receive", "type": 23, "length": 722})
        at = late / 1e6 + 400
    assert "reuse.body-unread" not in stage.codes()
