# SPDX-License-Identifier: Apache-2.0
"""What plaintext adds to a request: the server's own word, attempts, how it ended; whole recordings: test_dialogue."""

from __future__ import annotations

import math

import numpy as np
import pytest

from netdiag.tables import build
from netdiag.tables.plaintext import covered_ns, reported_ms
from tests.fakes.dialogue import Said, Script


def request(**members):
    script = Script()
    said = [Said(at=10, members=members)]
    script.conversation(script.connection(said), said)
    return build(script.recording()).requests.iloc[0]


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        ({"openai-processing-ms": "412"}, 412),
        ({"openai-processing-ms": "12", "server-timing": "total;dur=99"}, 12),
        ({"server-timing": "db;dur=20, app;dur=47.2"}, 47.2),
        ({"server-timing": "db;dur=20, cache;dur=3"}, 20),
        ({"server-timing": "total;dur=80, db;dur=100"}, 80),
        ({"server-timing": "miss"}, None),
        ({"openai-processing-ms": "soon"}, None),
        ({}, None),
    ],
)
def test_the_servers_own_word(fields, value):
    found = reported_ms(fields)
    assert math.isnan(found) if value is None else found == value


def test_headers_say_attempts_and_times():
    row = request(headers={"openai-processing-ms": "40"}, request_headers={"x-stainless-retry-count": "2"})
    assert (row["server_reported_ms"], row["attempt"]) == (40, 3)
    assert row["request_headers"] == {"x-stainless-retry-count": "2"}


@pytest.mark.parametrize(
    ("members", "complete", "error"),
    [
        ({"result": 1}, True, None),
        ({"result": 2}, False, "answer cut off"),
        ({"result": 2, "flags": 2048}, True, None),
        ({"result": 2, "first_byte": 0, "status": 0}, False, "connection ended without an answer"),
        ({"result": 3}, False, "cancelled"),
        ({"result": 4}, False, "reset by the server"),
        ({"result": 5, "first_byte": 0}, False, "refused by the server"),
        ({"result": 6}, None, None),
        ({"result": 7}, None, None),
        ({"result": 6, "flags": 2048}, True, None),
        ({"result": 6, "flags": 2048 | 16384}, None, None),
        ({"result": 3, "flags": 2048 | 16384}, None, None),
        ({"result": 3, "flags": 16384}, False, "cancelled"),
    ],
)
def test_how_it_ended(members, complete, error):
    row = request(**members)
    assert (row["complete"], row["error"]) == (complete, error)


@pytest.mark.parametrize(("flag", "column"), [(8192, "request_bytes"), (16384, "response_bytes")])
def test_the_size_of_what_was_seen_in_part_is_not_known(flag, column):
    assert not math.isnan(request(protocol=3)[column])
    assert math.isnan(request(protocol=3, flags=flag)[column])


def test_what_the_body_asked_for():
    row = request(flags=64, format=2, cached_tokens=1, protocol=3, blocked=3_000_000)
    assert (row["stream_asked"], row["response_format"], row["cached_tokens"]) == (True, "json_object", 0)
    assert row["blocked_ms"] == 3
    assert math.isnan(request()["blocked_ms"])
    assert request()["stream_asked"] is None
    assert request(flags=128)["stream_asked"] is False


def test_time_that_several_bytes_waited_counts_once():
    start, end = np.array([0.0, 2.0, 3.0, 10.0, np.nan]), np.array([5.0, 4.0, 7.0, 9.0, 3.0])
    assert covered_ns(start, end) == 7
    assert covered_ns(np.zeros(0), np.zeros(0)) == 0
