# SPDX-License-Identifier: Apache-2.0
"""Requests of plaintext stand in the table once, on their own connection or on none, with parts that add up."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from netdiag.summary import PARTS
from netdiag.tables import COLUMNS, build
from netdiag.tables.dialogue import not_followed
from tests.fakes.dialogue import Said, Script

TWO = (Said(at=10), Said(at=100, wait=80, asked=500))
STREAM = Said(at=10, chunks=[(70, 120, 3, 0), (90, 130, 7, 1), (110, 140, 7, 1), (130, 14, 5, 0)])


def built(said=TWO, *, spoken=None, bound=True, sizes=0, **fact):
    script = Script()
    cookie = script.connection(said, sizes=sizes)
    script.conversation(cookie if bound else 0, spoken or said, **fact)
    return build(script.recording())


def adds_up(requests):
    for row in requests.to_dict("records"):
        parts = [row[member] for _, member in PARTS if not math.isnan(row[member])]
        assert math.fsum(parts) == pytest.approx(row["total_ms"])


def test_plaintext_replaces_what_records_tell_of_the_same_connection():
    made = built()
    first, second = made.requests.to_dict("records")
    assert (first["source"], first["method"], first["host"], first["path"]) == (
        "plaintext",
        "POST",
        "api.test",
        "/v1/x",
    )
    assert (first["status"], first["protocol"], first["complete"], first["error"]) == (200, "http/1.1", True, None)
    assert (first["wait_ms"], second["wait_ms"]) == (pytest.approx(50), pytest.approx(80))
    assert (first["reused"], second["reused"], second["sequence"]) == (False, True, 2)
    assert first["reader_lag_ms"] > 0
    assert made.connections["requests"].tolist() == [2]
    assert made.unobservable == ()
    adds_up(made.requests)


def test_what_plaintext_does_not_tell_is_none_and_no_number():
    """Also beside a request that it tells, and beside one that records alone tell."""
    script = Script()
    told, other = script.connection(TWO), script.connection((Said(at=300),))
    script.conversation(told, (TWO[0], dataclasses.replace(TWO[1], members={"path": 0})))
    assert other
    requests = build(script.recording()).requests
    assert requests["source"].value_counts().to_dict() == {"plaintext": 2, "records": 1}
    assert requests["path"].tolist() == ["/v1/x", None, None]
    for name, kind in COLUMNS["requests"].items():
        assert requests[name].dtype == kind
        assert not [value for value in requests[name] if kind == "object" and isinstance(value, float)], name


def test_times_are_those_of_the_socket_not_of_the_calls():
    """The program read 30 ms late: the wait ends when the answer arrived."""
    late = (Said(at=10, lag=30),)
    row = built(late).requests.iloc[0]
    assert row["wait_ms"] == pytest.approx(50)


def test_figures_of_a_stream():
    made = built((STREAM,))
    stream = made.requests["stream"].iloc[0]
    assert (stream["kind"], stream["chunks"], stream["finished"]) == ("sse", 4, False)
    assert stream["first_chunk_ms"] == pytest.approx(60)
    assert stream["first_token_ms"] == pytest.approx(80)
    assert stream["gap_max_ms"] == pytest.approx(20)
    assert stream["tokens"] is None
    assert made.chunks["kind"].tolist() == ["role", "content", "content", "done"]
    assert made.chunks["number"].tolist() == [1, 2, 3, 4]
    assert np.allclose(made.chunks["at_ns"], [70e6, 90e6, 110e6, 130e6])
    assert np.allclose(made.chunks["read_ns"] - made.chunks["at_ns"], 0.2e6)
    adds_up(made.requests)


def test_a_conversation_without_socket_is_bound_by_its_bytes():
    made = built(bound=False, how=None)
    assert made.requests["source"].tolist() == ["plaintext", "plaintext"]
    assert made.requests["connection"].tolist() == [0, 0]


def test_of_two_connections_that_fit_none_is_chosen():
    script = Script()
    script.connection(TWO)
    script.connection(TWO)
    script.conversation(0, TWO, how=None)
    made = build(script.recording())
    assert made.requests["source"].tolist() == ["records"] * 4
    (entry,) = made.unobservable
    assert (entry["pid"], entry["what"]) == (100, "2 requests in plaintext")


def test_a_binding_that_the_bytes_contradict_is_dropped():
    """The cookie says this connection, the sizes of its records another: no request on a wrong connection."""
    made = built(sizes=40, how="handshake")
    assert made.requests["source"].tolist() == ["records"] * 2
    (entry,) = made.unobservable
    assert "do not fit" in entry["why"]


def test_a_conversation_larger_than_its_connection_is_none_of_it():
    big = (Said(at=10, asked=90_000),)
    made = built(TWO, spoken=big)
    assert set(made.requests["source"]) == {"records"}
    assert "do not fit" in made.unobservable[0]["why"]


def test_a_conversation_over_several_sockets_is_bound_to_none():
    made = built(mixed=True)
    assert "plaintext" not in set(made.requests["source"])


def test_a_conversation_whose_connection_was_never_seen_has_none():
    script = Script()
    script.connection([Said(at=900)])
    script.conversation(77, TWO)
    requests = build(script.recording()).requests
    told = requests[requests["source"] == "plaintext"]
    assert told["connection"].tolist() == [-1, -1]
    assert told["reused"].tolist() == [None, True]
    first = told.iloc[0]
    assert first[["connect_ms", "tls_ms", "dns_ms", "reader_lag_ms"]].isna().all()
    assert first["wait_ms"] == pytest.approx(50.2)  # as the program read it
    assert len(requests) == 3


def test_what_came_before_joining_stays_told_by_records():
    script = Script()
    cookie = script.connection([*TWO, Said(at=300, wait=20)])
    script.conversation(cookie, [Said(at=300, wait=20)], whole=False)
    made = build(script.recording())
    assert made.requests["source"].tolist() == ["records", "records", "plaintext"]
    assert made.requests["wait_ms"].tolist() == [pytest.approx(50), pytest.approx(80), pytest.approx(20)]
    assert made.requests["sequence"].tolist() == [1, 2, 3]


def test_streams_of_http2_lie_side_by_side():
    """Both answers share records: their times come from the records that hold them."""
    script = Script()
    cookie = script.connection([Said(at=10, asked=600, head=160)])
    halves = []
    for stream in (1, 3):
        start = 300 * (stream // 2)
        place = {"request_first": start, "request_end": start + 300, "response_first": 80 * (stream // 2)}
        place |= {"response_end": place["response_first"] + 80, "protocol": 3, "stream": stream, "number": stream}
        halves.append(Said(at=10, members=place))
    script.conversation(cookie, halves)
    requests = build(script.recording()).requests
    assert requests["stream_id"].tolist() == [1, 3]
    assert requests["protocol"].tolist() == ["h2", "h2"]
    assert requests["wait_ms"].tolist() == [pytest.approx(50)] * 2
    assert requests["idle_before_ms"].tolist()[1] == 0
    adds_up(requests)


def test_an_answer_that_begins_before_the_request_ended_counts_no_time_twice():
    early = Said(at=10, wait=5, members={"protocol": 3, "stream": 1, "sent": 1_000_000_000_000 + 40_000_000})
    script = Script()
    script.conversation(77, [early])
    script.connection([])
    requests = build(script.recording()).requests
    adds_up(requests)
    assert requests["wait_ms"].tolist() == [0]


def test_without_plaintext_nothing_changes():
    script = Script()
    script.connection(TWO)
    made = build(script.recording())
    assert made.requests["source"].tolist() == ["records", "records"]
    assert len(made.chunks) == 0


def test_what_could_not_be_followed_is_said():
    facts = [{"not_followed": {"frames of HTTP/2 were not seen": 2, "x": "y"}, "whole": False}, {}]
    first, second = not_followed(facts)
    assert first == {
        "pid": None,
        "what": "parts of 2 conversations in plaintext",
        "why": "frames of HTTP/2 were not seen",
    }
    assert second["what"] == "the last requests in plaintext"


def test_of_http2_that_was_joined_the_times_are_those_of_the_calls():
    """Its records look alike: where its first byte lies among them is not known."""
    script = Script()
    said = [
        Said(at=at, wait=20, lag=3, members={"protocol": 3, "stream": number}) for number, at in ((1, 300), (3, 400))
    ]
    cookie = script.connection([Said(at=at, wait=20) for at in (10, 100, 200, 300, 400)])
    script.conversation(cookie, said, whole=False, how="size")
    made = build(script.recording())
    told = made.requests[made.requests["source"] == "plaintext"]
    assert told["connection"].tolist() == [0, 0]
    assert told["wait_ms"].tolist() == [pytest.approx(23)] * 2
