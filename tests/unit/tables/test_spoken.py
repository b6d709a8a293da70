# SPDX-License-Identifier: Apache-2.0
"""What was said, read from records and facts; a damaged or hostile recording tells less, never something else."""

from __future__ import annotations

import pytest

from netdiag.tables.columns import Columns
from netdiag.tables.spoken import spoken
from netdiag.testing import START_NS, RecordingBuilder, records_of


def said(facts=(), **members):
    builder = RecordingBuilder()
    row = {
        "conversation": 1,
        "number": 1,
        "began": START_NS + 5,
        "method": 1,
        "headers": 2,
        "input_tokens": 8,
    } | members
    builder.record("http_request", **row).record("http_request", **(row | {"number": 2, "began": START_NS + 9}))
    for fact in facts:
        builder.fact(fact.pop("kind"), **fact)
    recording = builder.recording()
    return spoken(Columns(records_of(recording, "http_request"), START_NS), None, recording.facts)


def test_texts_stand_in_place_of_numbers():
    texts = {"kind": "strings", "first": 1, "values": ["GET", '{"retry-after":"1"}']}
    table = said([texts]).exchanges
    assert table["method"].tolist() == ["GET", "GET"]
    assert table["headers"].tolist() == [{"retry-after": "1"}] * 2
    assert table["began"].tolist() == [5, 9]
    assert table["input_tokens"].tolist() == [7, 7]
    assert table["output_tokens"].isna().all()


@pytest.mark.parametrize(
    "fact",
    [
        {"kind": "strings", "first": "1", "values": ["GET"]},
        {"kind": "strings", "first": 1, "values": "GET"},
        {"kind": "strings", "first": 1, "values": [1, "not json"]},
        {"kind": "strings", "first": 2, "values": ["[1]"]},
        {"kind": "conversation", "conversation": "1", "cookie": 5},
    ],
)
def test_facts_that_make_no_sense_tell_nothing(fact):
    found = said([fact])
    assert found.exchanges["method"].tolist() == [None, None]
    assert found.exchanges["headers"].tolist() == [{}, {}]
    assert found.conversations == {}


def test_the_last_word_on_a_conversation_counts():
    facts = [
        {"kind": "conversation", "conversation": 1, "cookie": 0, "how": None, "confidence": 0},
        {"kind": "conversation", "conversation": 1, "cookie": 7, "how": "packet", "confidence": 1, "whole": False},
    ]
    fact = said(facts).conversations[1]
    assert (fact.cookie, fact.by_packet, fact.whole, fact.mixed) == (7, True, False, False)


def test_a_cookie_that_is_none_binds_nothing():
    fact = {"kind": "conversation", "conversation": 1, "cookie": -4, "how": 9, "confidence": "x"}
    found = said([fact]).conversations[1]
    assert (found.cookie, found.how, found.confidence) == (0, None, 0.0)


def test_an_exchange_that_is_told_twice_counts_once():
    assert len(said(number=2).exchanges) == 1


def test_without_records_nothing_was_said():
    assert spoken(None, None, []) is None
