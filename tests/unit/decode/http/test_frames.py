# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from netdiag.decode.http.frames import PREFACE, FrameReader, plausible
from tests.fakes.http_traffic import frame


class Receiver:
    def __init__(self):
        self.told = []

    def on_frame(self, _client, _at_ns, offset, type_, _flags, stream, length):
        self.told.append(("frame", offset, type_, stream, length))

    def on_data(self, _client, _at_ns, offset, data, length):
        self.told.append(("data", offset, data, length))

    def on_payload(self, _client, _at_ns, offset, payload):
        self.told.append(("payload", offset, payload))

    def on_lost(self, _client):
        self.told.append(("lost",))


def reader(**kind):
    receiver = Receiver()
    return receiver, FrameReader(receiver, client=True, **{"preface": False, **kind})


def test_frames_behind_the_preface_in_single_bytes():
    receiver, made = reader(preface=True)
    for at, byte in enumerate(PREFACE + frame(4, 0, 0) + frame(1, 4, 1, b"abc")):
        made.feed(1, at, bytes((byte,)), new_piece=True)
    assert receiver.told == [
        ("frame", 24, 4, 0, 0), ("payload", 33, b""), ("frame", 33, 1, 1, 3), ("payload", 45, b"abc"),
    ]  # fmt: skip


def test_the_length_of_a_frame_carries_over_what_was_not_seen():
    receiver, made = reader()
    made.feed(1, 0, frame(0, 0, 1, b"x" * 100)[:20], new_piece=True)
    made.skip(1, 20, 89)
    made.feed(1, 109, frame(1, 4, 3, b"abc"), new_piece=False)
    assert ("data", 20, None, 89) in receiver.told
    assert receiver.told[-1] == ("payload", 121, b"abc")


def test_headers_that_were_not_all_seen_have_no_payload():
    receiver, made = reader()
    made.feed(1, 0, frame(1, 4, 1, b"abcdef")[:12], new_piece=True)
    made.skip(1, 12, 3)
    assert receiver.told[-1] == ("payload", 15, None)
    assert not made.lost


def test_a_lost_head_is_found_again_at_a_piece_that_shows_frames():
    receiver, made = reader()
    made.feed(1, 0, frame(0, 0, 1, b"x" * 10), new_piece=True)
    made.skip(1, 19, 40)
    assert receiver.told[-1] == ("lost",)
    count = len(receiver.told)
    made.feed(1, 59, b"text that is none", new_piece=True)
    made.feed(1, 76, frame(0, 0, 1, b"abc"), new_piece=False)
    assert receiver.told[count:] == [("lost",), ("lost",)]  # frames that begin meanwhile may be among these
    made.feed(1, 88, frame(0, 0, 1, b"abc"), new_piece=True)
    assert receiver.told[-1] == ("payload", 100, None)


def test_what_looks_like_frames():
    assert plausible(frame(1, 4, 1, b"abc") + frame(0, 1, 1, b"x" * 50))
    assert plausible(frame(0, 0, 1, b"x" * 5000)[:100])
    assert not plausible(b"data: {}\n\ndata: {}\n\n")
    assert not plausible(frame(4, 0, 1))
    assert not plausible(frame(1, 4, 0, b"abc"))
    assert not plausible(frame(8, 0, 1, b"abc"))
    assert not plausible(b"")


def test_a_frame_that_cannot_be_loses_the_thread():
    receiver, made = reader()
    made.feed(1, 0, b"\xff\xff\xff" + bytes(20), new_piece=True)
    assert receiver.told == [("lost",)]
