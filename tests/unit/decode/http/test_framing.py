# SPDX-License-Identifier: Apache-2.0
"""Framing of one direction: bytes that were not seen are followed by their length, and lost framing is found again."""

from __future__ import annotations

from netdiag.decode.http.framing import Framer, Rest


class Owner:
    """Writes down what it is told."""

    def __init__(self, rest=(Rest.LENGTH, 10)):
        self.rest, self.told = rest, []

    def on_start(self, *, offset, **_):
        self.told.append(("start", offset))

    def on_head(self, _request, _head, _at_ns, offset):
        self.told.append(("head", offset))
        return self.rest

    def on_body(self, _request, _at_ns, offset, data, length):
        self.told.append(("body" if data is not None else "unseen", offset, length))

    def on_end(self, _request, _at_ns, offset):
        self.told.append(("end", offset))

    def on_lost(self, _request, _at_ns, offset):
        self.told.append(("lost", offset))

    def on_tunnel(self, _request, _at_ns, offset, _data, length):
        self.told.append(("tunnel", offset, length))


HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


def framer(*rest):
    owner = Owner(*rest)
    made = Framer(owner, request=False)
    made.feed(1, 0, HEAD, new_piece=True)
    return owner, made


def test_a_body_of_known_length_that_was_not_seen():
    owner, made = framer()
    made.skip(2, 19, 10)
    assert owner.told == [("start", 0), ("head", 19), ("unseen", 19, 10), ("end", 29)]
    assert made.idle


def test_a_gap_longer_than_the_body_loses_the_framing_until_a_message_begins():
    owner, made = framer()
    made.skip(2, 19, 25)
    assert made.lost
    made.feed(3, 44, b"garbage", new_piece=True)
    made.feed(4, 51, HEAD, new_piece=False)  # in mid-piece it may be part of a body
    assert made.lost
    made.feed(5, 70, HEAD, new_piece=True)
    assert ("head", 89) in owner.told
    assert not made.lost


def test_chunks_are_found_again_at_the_start_of_a_piece():
    owner, made = framer((Rest.CHUNKED, 0))
    made.feed(2, 19, b"5\r\nhello\r\n5\r\nhe", new_piece=True)
    made.skip(3, 33, 50)
    assert made.lost
    made.feed(4, 83, b"nothing that could be a chunk", new_piece=True)
    assert made.lost
    made.feed(5, 112, b"3\r\nabc\r\n0\r\n\r\n", new_piece=True)
    assert owner.told[-2:] == [("body", 115, 3), ("end", 125)]


def test_the_last_chunk_at_the_end_of_a_piece_ends_it():
    owner, made = framer((Rest.CHUNKED, 0))
    made.feed(2, 19, b"5\r\nhe", new_piece=True)
    made.skip(3, 24, 500)
    made.feed(3, 524, b"...lo\r\n0\r\n\r\n", new_piece=False)
    assert owner.told[-1] == ("end", 536)
    assert made.idle


def test_a_tunnel_and_a_body_until_the_end_take_all():
    for rest, what in ((Rest.TUNNEL, "tunnel"), (Rest.CLOSE, "body")):
        owner, made = framer((rest, 0))
        made.feed(2, 19, HEAD, new_piece=True)
        assert owner.told[-1] == (what, 19, 19)
        assert made.until_close == (rest is Rest.CLOSE)


def test_a_head_without_end_is_given_up():
    owner = Owner()
    made = Framer(owner, request=True)
    made.feed(1, 0, b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 20_000, new_piece=True)
    assert made.lost


def test_what_cannot_be_a_head_is_none():
    made = Framer(Owner(), request=False)
    made.feed(1, 0, b"HTTQ", new_piece=True)
    assert made.lost
