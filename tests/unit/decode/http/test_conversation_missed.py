# SPDX-License-Identifier: Apache-2.0
"""Calls that were not seen, and whose bytes no offset counts: no answer is told for another request than its own."""

from __future__ import annotations

import pytest

from netdiag.decode.http.conversation import Conversation
from netdiag.decode.http.exchange import Exchange, Flag
from netdiag.decode.piece import Piece

COUNT = 6
STATUSES = (503, 500, 200, 404, 429, 201)


def request(number):
    return b"POST /r%d HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc" % number


def answer(number):
    return b"HTTP/1.1 %d X\r\nContent-Length: 2\r\n\r\nok" % STATUSES[number]


def told(calls, *, joined=False, exact=False, role="client"):
    """Feed calls (whether it sends, instant, bytes) and return path → status of what was told, and the conversation."""
    conversation = Conversation(joined=joined, exact=exact)
    moved = {True: 0, False: 0}
    found = []
    for sends, at_ns, data in calls:
        piece = Piece(
            at_ns=at_ns,
            direction="send" if sends == (role == "client") else "receive",
            offset=moved[sends],
            length=len(data),
            data=data,
        )
        moved[sends] += len(data)
        found += conversation.feed(piece)
    found += conversation.end(10**9, clean=True)
    statuses = {}
    for each in found:
        if isinstance(each, Exchange):
            assert each.path is not None
            statuses[int(each.path[2:])] = each.status
    return statuses, conversation


def one_by_one(lost_requests, lost_answers, *, parts=1):
    """Yield the calls of a program that asks, waits and asks again; those that are lost are left out."""
    for number in range(COUNT):
        if number not in lost_requests:
            yield True, number * 1000, request(number)
        if number not in lost_answers:
            whole = answer(number)
            for part in range(parts):
                size = -(-len(whole) // parts)
                yield False, number * 1000 + 500 + part, whole[part * size : (part + 1) * size]


RANGES = [range(first, first + count) for first in range(COUNT) for count in range(COUNT - first + 1)]


@pytest.mark.parametrize("role", ["client", "server"])
@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("parts", [1, 3])
def test_whatever_calls_are_missed_no_answer_goes_to_another_request(role, joined, parts):
    right = 0
    for lost_requests in RANGES:
        for lost_answers in RANGES:
            shifted = lost_answers and lost_requests and lost_requests[0] == lost_answers[0] + 1
            if shifted and len(lost_requests) >= len(lost_answers):
                continue  # as if one request had taken that long: only the records tell
            calls = list(one_by_one(lost_requests, lost_answers, parts=parts))
            found, conversation = told(calls, joined=joined, role=role)
            wrong = {path: status for path, status in found.items() if status not in (0, STATUSES[path])}
            assert not wrong, (lost_requests, lost_answers)
            right += sum(map(bool, found.values()))
            if not lost_requests and not lost_answers:
                assert len(found) == COUNT
                assert all(found.values())
                assert not conversation.missed
    assert right > len(RANGES)


@pytest.mark.parametrize("late", range(1, COUNT))
def test_one_that_is_joined_late_is_told_from_then_on(late):
    for lost_requests, lost_answers in ((range(late), range(late)), (range(late), ()), (range(late), range(late - 1))):
        found, _ = told(list(one_by_one(lost_requests, lost_answers)), joined=True)
        assert found == {path: STATUSES[path] for path in range(late, COUNT)}


@pytest.mark.parametrize("late", range(1, COUNT))
def test_where_the_first_calls_of_one_direction_are_missed_it_is_not_whole(late):
    _, conversation = told(list(one_by_one(range(late), ())))
    assert conversation.missed
    found, conversation = told(list(one_by_one((), range(late))))
    assert conversation.missed
    assert not any(found.values()) or late == 0


def test_requests_of_one_call_are_answered_in_order():
    calls = [(True, 1, request(0) + request(1)), (False, 2, answer(0)), (False, 3, answer(1))]
    found, conversation = told(calls)
    assert found == {0: STATUSES[0], 1: STATUSES[1]}
    assert not conversation.missed
    assert set(told(calls, joined=True)[0].values()) == {0}


def test_requests_of_several_calls_are_paired_on_the_wire_alone():
    calls = [(True, 1, request(0)), (True, 2, request(1)), (False, 3, answer(0)), (False, 4, answer(1))]
    calls += [(True, 5, request(2)), (False, 6, answer(2))]
    assert told(calls, exact=True)[0] == {0: STATUSES[0], 1: STATUSES[1], 2: STATUSES[2]}
    found, conversation = told(calls)
    assert found == {0: 0, 1: 0, 2: STATUSES[2]}
    assert conversation.missed


def test_an_answer_whose_end_was_missed_takes_nothing_from_the_next_one():
    calls = [(True, 1, request(0)), (False, 2, answer(0)[:-1]), (True, 3, request(1)), (False, 4, answer(1))]
    found, conversation = told(calls)
    assert found == {0: STATUSES[0], 1: STATUSES[1]}
    assert conversation.missed


def test_a_call_that_returns_late_has_sent_before_the_answer():
    conversation = Conversation(exact=False)
    send = Piece(at_ns=9, direction="send", offset=0, length=len(request(0)), data=request(0))
    read = Piece(at_ns=5, direction="receive", offset=0, length=len(answer(0)), data=answer(0))
    conversation.feed(send)
    (one,) = conversation.feed(read)
    assert isinstance(one, Exchange)
    assert (one.began_ns, one.sent_ns, one.first_byte_ns, one.flags) == (5, 5, 5, Flag(0))
