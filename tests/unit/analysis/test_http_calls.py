# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

from netdiag.analysis.case import Options, prepare
from netdiag.analysis.http_calls import asked_of, certainty, examples


def asked(calls, **options):
    case = prepare(calls.tables(), Options())
    return asked_of(case.tables.requests, case.links, **options)


def test_calls_of_clients_and_of_servers_are_apart(calls):
    calls.call(calls.connection(), 0)
    calls.call(calls.connection(role="server"), 10)
    assert [call.row for call in asked(calls)] == [0]
    assert [call.row for call in asked(calls, served=True)] == [1]


def test_what_the_tables_do_not_know_stays_unknown(calls):
    calls.call(calls.connection(), 0, status=math.nan, source="records")
    (call,) = asked(calls)
    assert math.isnan(call.status)
    assert math.isnan(call.input_tokens)
    assert (call.headers, call.stream, call.exact) == ({}, None, False)


def test_a_connection_that_is_not_there_has_no_calls(calls):
    calls.connection()
    calls.call(0, 0)
    calls.rows["requests"][0]["connection"] = -1
    assert asked(calls) == ()


def test_five_examples_and_how_many_more(calls):
    row = calls.connection()
    for index in range(7):
        calls.call(row, index * 100.0)
    lines = examples((call, "slow") for call in asked(calls))
    assert [line.id for line in lines] == ["r1", "r2", "r3", "r4", "r5", None]
    assert lines[0].note == "POST /v1/x: slow"
    assert lines[-1].note == "and 2 more like these"


def test_one_call_that_was_inferred_makes_it_less_sure(calls):
    row = calls.connection()
    calls.call(row, 0)
    calls.call(row, 100, source="records")
    both = asked(calls)
    assert certainty(both, 0.9, 0.6) == 0.6
    assert certainty(both[:1], 0.9, 0.6) == 0.9
