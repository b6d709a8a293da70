# SPDX-License-Identifier: Apache-2.0
"""Answers that calls which were not seen moved to another request: the records tell, and nothing is said of them."""

from __future__ import annotations

import math

import pytest

from netdiag.tables import build
from tests.fakes.dialogue import Said, Script

COUNT, EVERY, WAIT = 6, 90, 50
STATUSES = (503, 500, 200, 404, 429, 201)


def true(*, asked=300):
    return [Said(at=10 + EVERY * number, wait=WAIT, asked=asked) for number in range(COUNT)]


def told(pairs, *, asked=300, **members):
    """Return exchanges as they are told where request and answer were paired like this."""
    return [
        Said(
            at=10 + EVERY * asking,
            wait=EVERY * (answering - asking) + WAIT,
            asked=asked,
            members={"status": STATUSES[answering], **members},
        )
        for asking, answering in pairs
    ]


def built(pairs, **more):
    members, asked = more.pop("members", {}), more.pop("asked", 300)
    script = Script()
    cookie = script.connection(true(asked=asked))
    script.conversation(cookie, told(pairs, asked=asked, **members), **more)
    return build(script.recording())


@pytest.mark.parametrize(
    ("first", "missed"), [(first, missed) for first in range(COUNT) for missed in range(1, COUNT - first)]
)
def test_an_answer_that_came_after_other_requests_is_nobody_s(first, missed):
    later = [(number, number) for number in range(first + missed + 1, COUNT)]
    made = built([*((number, number) for number in range(first)), (first, first + missed), *later])
    rows = made.requests[made.requests["source"] == "plaintext"]
    statuses = dict(zip((rows["began_ns"] / 1e6).round().tolist(), rows["status"].tolist(), strict=True))
    for began, status in statuses.items():
        number = round((began - 10) / EVERY)
        assert math.isnan(status) or status == STATUSES[number], began
    lost = rows[rows["status"].isna()]
    assert len(lost) == 1
    assert math.isnan(lost["first_byte_ns"].iloc[0])
    assert lost["complete"].tolist() == [None]
    assert [entry["what"] for entry in made.unobservable] == ["1 request in plaintext"]


def test_one_after_the_other_they_all_have_theirs():
    made = built([(number, number) for number in range(COUNT)])
    assert made.requests["status"].tolist() == list(STATUSES)
    assert made.unobservable == ()


@pytest.mark.parametrize("late", range(1, COUNT))
def test_calls_that_were_missed_in_both_directions_at_the_start(late):
    """It claims to be whole; what passed before is told by the records, and every number counts from the first."""
    made = built([(number, number) for number in range(late, COUNT)])
    plain = made.requests[made.requests["source"] == "plaintext"]
    assert plain["status"].tolist() == list(STATUSES[late:])
    assert plain["sequence"].tolist() == list(range(late + 1, COUNT + 1))
    assert made.requests["source"].tolist() == ["records"] * late + ["plaintext"] * (COUNT - late)


@pytest.mark.parametrize("hole", range(1, COUNT - 1))
def test_calls_that_were_missed_in_both_directions_in_between(hole):
    made = built([(number, number) for number in range(COUNT) if number != hole])
    rows = made.requests
    assert (rows["began_ns"] / 1e6).round().tolist() == [10 + EVERY * number for number in range(COUNT)]
    assert rows["source"].tolist() == ["records" if number == hole else "plaintext" for number in range(COUNT)]
    told_statuses = rows["status"].tolist()
    assert math.isnan(told_statuses.pop(hole))
    assert told_statuses == [status for number, status in enumerate(STATUSES) if number != hole]
    assert made.connections["requests"].tolist() == [COUNT]


def test_requests_that_were_sent_before_the_answer_by_intention():
    pipelined = built([(0, 1)], members={"flags": 512})
    assert STATUSES[1] in pipelined.requests["status"].tolist()
    continued = built([(0, 1)], members={"flags": 8})
    assert STATUSES[1] in continued.requests["status"].tolist()


def test_where_the_dissector_saw_that_calls_were_missed_times_are_those_of_the_calls():
    made = built([(number, number) for number in range(2, COUNT)], missed=True, how="handshake")
    rows = made.requests
    assert rows["source"].tolist() == ["records"] * 2 + ["plaintext"] * (COUNT - 2)
    assert (rows["began_ns"] / 1e6).round().tolist() == [10 + EVERY * number for number in range(COUNT)]
    assert made.unobservable == ()


def test_a_few_bytes_more_are_no_request():
    made = built([(number, number) for number in range(COUNT)], asked=40)
    assert made.requests["status"].tolist() == list(STATUSES)
