# SPDX-License-Identifier: Apache-2.0
"""Pairing of requests and answers at its bounds; what is usual is tested with whole conversations."""

from __future__ import annotations

from netdiag.decode.http.exchange import Chunk, Ended, Exchange
from netdiag.decode.http.http1 import Http1

GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def made():
    told: list[Exchange | Chunk] = []
    tunnelled: list[tuple[object, ...]] = []
    return told, tunnelled, Http1(told, lambda *args: tunnelled.append(args))


def test_requests_without_answers_are_bounded():
    told, _, http = made()
    for number in range(300):
        http.feed(True, number, number * len(GET), GET, new_piece=True)
    assert len(told) == 44
    assert {each.ended for each in told} == {Ended.NOT_FOLLOWED}
    assert http.not_followed is not None


def test_an_answer_without_a_request_is_none():
    told, _, http = made()
    http.feed(False, 1, 0, OK, new_piece=True)
    assert told == []
    assert http.not_followed == "an answer came whose request was not seen"
    joined = Http1([], print, joined=True)
    joined.feed(False, 1, 0, OK, new_piece=True)
    assert joined.not_followed is None
    http.feed(True, 2, 0, GET, new_piece=True)
    http.feed(False, 3, len(OK), OK, new_piece=True)
    assert [(each.number, each.status) for each in told if isinstance(each, Exchange)] == [(1, 200)]


def test_an_upgrade_hands_on_what_follows():
    told, tunnelled, http = made()
    http.feed(True, 1, 0, GET, new_piece=True)
    up = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"
    http.feed(False, 2, 0, up + b"abc", new_piece=True)
    assert told[0].status == 101
    assert tunnelled == [(False, 2, len(up), b"abc", 3)]
