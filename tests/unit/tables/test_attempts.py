# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pandas as pd
import pytest

import netdiag.tables.attempts as module
from netdiag.tables.attempts import attempts
from netdiag.testing import connection, request, tables

NAN = math.nan


def asked(at, status=200.0, *, row=0, took=20.0, **columns):
    base = {
        "source": "plaintext",
        "status": status,
        "method": "POST",
        "host": "api.test",
        "path": "/v1/chat",
        "tid": 1.0,
    }
    return request(row, at, took, **(base | columns))


def told(*requests, ends=({},), **columns):
    made = tables(connections=[connection(**end) for end in ends], requests=list(requests), **columns)
    found = attempts(made.requests, made.connections)
    return [
        (None if math.isnan(number) else int(number), before)
        for number, before in zip(found["attempt"], found["retry_of"], strict=True)
    ]


def test_the_same_call_after_errors():
    calls = [asked(0, 429.0), asked(500, 503.0), asked(1500), asked(3000)]
    assert told(*calls) == [(1, None), (2, "r1"), (3, "r2"), (1, None)]


@pytest.mark.parametrize("status", [400.0, 401.0, 403.0, 404.0, 422.0, 301.0])
def test_answers_that_no_second_attempt_changes(status):
    assert told(asked(0, status), asked(500)) == [(1, None), (1, None)]


@pytest.mark.parametrize(
    "other", [{"path": "/v1/models"}, {"host": "other.test"}, {"method": "GET"}, {"request_bytes": 500.0}]
)
def test_another_call_is_no_attempt(other):
    assert told(asked(0, 503.0), asked(500, **other)) == [(1, None), (1, None)]


def test_a_few_bytes_of_a_counter_make_no_other_call():
    assert told(asked(0, 503.0, request_bytes=400.0), asked(500, request_bytes=401.0))[1] == (2, "r1")


def test_two_processes_do_not_repeat_each_other():
    ends = [{}, {"pid": 200.0}]
    assert told(asked(0, 503.0), asked(500, row=1, pid=200.0), ends=ends) == [(1, None), (1, None)]


def test_what_the_client_says_goes_before():
    def counted(at, count, status=503.0, **columns):
        return asked(
            at, status, request_headers={"x-stainless-retry-count": count}, attempt=float(count) + 1, **columns
        )

    calls = [counted(0, "0"), counted(30, "0"), counted(500, "1"), counted(530, "1"), counted(1000, "0")]
    assert told(*calls) == [(1, None), (1, None), (2, "r1"), (2, "r2"), (1, None)]


def test_threads_repeat_their_own_calls():
    calls = [asked(0, 503.0), asked(5, 503.0, tid=2.0), asked(500, tid=2.0), asked(510)]
    assert told(*calls) == [(1, None), (1, None), (2, "r2"), (2, "r1")]


def test_calls_at_the_same_time_are_not_attempts():
    assert told(asked(0, 503.0, took=100.0), asked(50)) == [(1, None), (1, None)]


def test_a_call_that_the_client_gave_up_is_repeated():
    gave_up = {"closed_by": "local", "closing_ns": 500e6, "ended_ns": 500e6}
    lost = request(0, 0, first_byte_ns=NAN, ended_ns=NAN, source="records", complete=False)
    assert told(lost, request(1, 900, source="records"), ends=[gave_up, {}]) == [(1, None), (2, "r1")]


def test_without_plaintext_nobody_knows_which_attempt_it_was():
    assert told(request(0, 0, source="records"), request(0, 900, source="records")) == [(None, None), (None, None)]


def test_a_stream_that_broke_is_repeated_and_one_that_the_program_left_is_not():
    broke = {"closed_by": "remote", "close": "rst", "closing_ns": 30e6}
    left = {"closed_by": "local", "closing_ns": 30e6}
    unread = broke | {"unread": 50_000.0, "close": "fin"}
    for end, expected in ((broke, (2, "r1")), (left, (1, None)), (unread, (1, None))):
        assert told(asked(0, complete=False), asked(500, row=1), ends=[end, {}])[1] == expected


def test_minutes_later_it_is_another_call_unless_the_server_said_so():
    assert told(asked(0, 503.0), asked(400_000)) == [(1, None), (1, None)]
    assert told(asked(0, 503.0, headers={"retry-after": "400"}), asked(400_100))[1] == (2, "r1")


def test_what_a_server_was_asked_is_nobodys_attempt():
    ends = [{"role": "server"}]
    assert told(asked(0, 503.0), asked(500), ends=ends) == [(None, None), (None, None)]


def test_a_thread_that_did_something_else_meanwhile_has_gone_on():
    assert told(asked(0, 503.0), asked(100, path="/v1/models"), asked(500)) == [(1, None), (1, None), (1, None)]


def test_calls_side_by_side_on_one_thread_do_not_show_that_it_went_on():
    calls = [
        asked(0, 503.0, took=100.0),
        asked(50, took=200.0, path="/v1/models"),
        asked(300, path="/v1/files"),
        asked(500),
    ]
    assert told(*calls)[3] == (2, "r1")


def test_the_short_way_says_what_the_long_way_says(monkeypatch):
    calls = [
        asked(0),
        asked(200, attempt=2.0),
        asked(300, row=1, source="sockets", status=NAN),
        asked(400, row=2),
        asked(500, 404.0, began_ns=NAN),
    ]
    made = tables(connections=[connection(), connection(), connection(role="server")], requests=calls)
    assert module._untroubled(made.requests)
    quick = attempts(made.requests, made.connections)
    monkeypatch.setattr(module, "_untroubled", lambda _: False)
    pd.testing.assert_frame_equal(quick, attempts(made.requests, made.connections))


@pytest.mark.parametrize(
    "trouble", [{"status": 503.0}, {"status": 429.0}, {"error": "reset"}, {"complete": False}, {"first_byte_ns": NAN}]
)
def test_the_short_way_is_for_calls_without_trouble(trouble):
    assert not module._untroubled(tables(connections=[connection()], requests=[asked(0) | trouble]).requests)
