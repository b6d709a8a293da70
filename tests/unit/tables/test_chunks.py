# SPDX-License-Identifier: Apache-2.0
"""Figures of streams in plaintext, by the definitions that are printed."""

from __future__ import annotations

import pytest

from netdiag.tables import build
from tests.fakes.dialogue import Said, Script

OTHER, HEARTBEAT, ROLE, USAGE, DONE, REASONING, CONTENT = range(1, 8)


def stream(chunks, *, how="inside", **members):
    script = Script()
    said = [Said(at=10, chunks=chunks, members=members)]
    script.conversation(script.connection(said), said, how=how)
    made = build(script.recording())
    return made.requests["stream"].iloc[0], made.chunks


def test_roles_heartbeats_and_reasoning_are_no_first_token():
    chunks = [
        (70, 50, ROLE, 0),
        (80, 9, HEARTBEAT, 0),
        (100, 60, REASONING, 1),
        (150, 60, CONTENT, 1),
        (180, 60, CONTENT, 1),
    ]
    facts, table = stream(chunks, flags=2048)
    assert facts["first_chunk_ms"] == pytest.approx(60)
    assert facts["first_reasoning_ms"] == pytest.approx(90)
    assert facts["first_token_ms"] == pytest.approx(140)
    assert facts["ttft_ms"] == pytest.approx(150)
    assert (facts["gap_max_ms"], facts["gap_p50_ms"]) == (pytest.approx(50), pytest.approx(40))
    assert facts["finished"] is True
    assert table["kind"].tolist() == ["role", "heartbeat", "reasoning", "content", "content"]


def test_gaps_of_other_streams_are_those_of_all_but_heartbeats():
    facts, _ = stream([(70, 50, OTHER, 0), (80, 9, HEARTBEAT, 0), (170, 50, OTHER, 0), (180, 5, DONE, 0)])
    assert facts["gap_max_ms"] == pytest.approx(100)
    assert facts["first_token_ms"] is None


def test_tokens_are_what_the_server_counted():
    assert stream([(70, 50, CONTENT, 1)], output_tokens=13)[0]["tokens"] == 12
    assert stream([(70, 50, CONTENT, 1)])[0]["tokens"] is None


@pytest.mark.parametrize(
    ("members", "finished"), [({"result": 7}, None), ({"result": 2}, False), ({"flags": 256}, None)]
)
def test_whether_it_was_finished(members, finished):
    assert stream([(70, 50, CONTENT, 1)], **members)[0]["finished"] is finished


def test_a_stream_without_a_chunk_has_no_figures():
    script = Script()
    said = [Said(at=10, members={"stream_kind": 1})]
    script.conversation(script.connection(said), said)
    facts = build(script.recording()).requests["stream"].iloc[0]
    assert (facts["kind"], facts["chunks"], facts["gap_max_ms"], facts["first_chunk_ms"]) == ("sse", 0, None, None)


def test_of_packets_the_reading_is_not_known():
    """A capture, or a socket without TLS: the instants are arrivals."""
    _, table = stream([(70, 50, CONTENT, 1), (90, 50, CONTENT, 1)], how="clear")
    assert table["read_ns"].isna().all()
    assert table["at_ns"].tolist() == pytest.approx([70.2e6, 90.2e6])


def test_an_event_at_the_end_of_a_long_chunk_arrives_with_its_record():
    """One read held two records: the token is in the second."""
    script = Script()
    talk = [Said(at=10, chunks=[(70, 50, ROLE, 0), (90, 60, CONTENT, 1)])]
    cookie = script.connection(talk)
    one = [Said(at=10, chunks=[(90, 110, CONTENT, 1)])]
    script.conversation(cookie, one)
    facts = build(script.recording()).requests["stream"].iloc[0]
    assert (facts["first_chunk_ms"], facts["first_token_ms"]) == (pytest.approx(60), pytest.approx(80))
