# SPDX-License-Identifier: Apache-2.0
"""Records of plaintext become requests in the recording, whatever their order and whatever they hold."""

from __future__ import annotations

import os
import random
import socket
import threading
import time

import pytest

from netdiag.decode.piece import Piece
from netdiag.recording.appender import Appender
from netdiag.recording.pieces import control
from netdiag.recording.reader import read
from netdiag.recording.writer import RecordingWriter
from netdiag.testing import header, records_of
from netdiag.tracing.dissect import Dissector, layouts, serve
from tests.fakes.http_traffic import chat_event, pieces
from tests.fakes.plain import LARGE, SMALL, frames, layouts_frame, losses_frame, record

C, S = True, False
GET = b"GET /v1/x?key=SECRET HTTP/1.1\r\nHost: api.test\r\nAuthorization: SECRET\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nSECRET"
TALK = [(C, GET), (S, OK)] * 3


def served(*sent, close=True, pause_s=0.0):
    """Return the recording after these bytes came over the socket."""
    fd = os.memfd_create("recording")
    os.set_inheritable(fd, False)
    writer = RecordingWriter(fd, header(), shared=True)
    ours, theirs = socket.socketpair()
    result = []
    reader = threading.Thread(target=lambda: result.append(serve(ours, fd)))
    reader.start()
    with theirs:
        for part in sent:
            theirs.sendall(part)
            time.sleep(pause_s)
    reader.join(20)
    ours.close()
    if close:
        writer.end("done", 10**13)
    data = os.pread(fd, 1 << 24, 0)
    os.close(fd)
    assert b"SECRET" not in data
    return read(data), result[0]


def requests(recording):
    return records_of(recording, "http_request")


def test_the_layouts_are_those_of_the_manifest():
    assert {name: layout.stream for name, layout in layouts().items()} == {"http_request": 7, "http_chunk": 8}


def test_requests_are_appended_with_what_binds_them():
    recording, whole = served(layouts_frame(), frames(map(record, pieces(TALK))), losses_frame())
    assert whole
    assert requests(recording)["status"].tolist() == [200] * 3
    (fact,) = recording.facts_of("conversation")
    assert (fact["cookie"], fact["how"], fact["library"], fact["whole"]) == (5, "inside", "openssl", True)
    assert {"GET", "api.test", "/v1/x"} <= {text for each in recording.facts_of("strings") for text in each["values"]}
    assert recording.facts_of("plaintext") == [
        {"kind": "plaintext", "conversations": 1, "spoken": {"http/1": 1}, "whole": True, "not_followed": {}}
    ]
    assert recording.facts_of("loss") == [{"kind": "loss", "probe": "http", "seen": 6, "lost": 0}]


def test_records_of_two_rings_are_put_in_order():
    """Large ones come later than small ones that were made after them."""
    said = pieces([(C, GET), (S, OK[:-3]), (S, OK[-3:]), (C, GET), (S, OK)], step_ns=1_000)
    small, large = said[::2], said[1::2]
    sent = frames(map(record, small)) + frames((record(each, LARGE) for each in large), LARGE)
    assert requests(served(layouts_frame(), sent, losses_frame())[0])["status"].tolist() == [200, 200]


def test_records_wait_until_those_of_the_other_ring_have_come_however_long_the_recorder_takes():
    """On a busy machine much time may pass between two rings; the recorder says up to when all have been sent."""
    said = pieces([(C, GET), (S, OK[:-3]), (S, OK[-3:]), (C, GET), (S, OK)], step_ns=100_000_000)
    small, large = said[::2], said[1::2]
    early, late = (control({"say": "until", "time": at}) for at in (500, 10**12))
    parts = [layouts_frame() + early + frames(map(record, small)), frames((record(e, LARGE) for e in large), LARGE)]
    recording, _ = served(*parts, late, losses_frame(), pause_s=0.15)
    assert requests(recording)["status"].tolist() == [200, 200]
    assert requests(recording)["response_bytes"].tolist() == [len(OK)] * 2


@pytest.mark.parametrize("handle", [0, 1])
def test_an_end_in_the_packet_of_the_last_bytes_comes_after_them(handle):
    """The end is a small record, the bytes are a large one of the same instant: HTTP/1.0, say."""
    asked, answered = pieces([(C, GET), (S, OK)])
    end = {"length": 0, "copied": 0, "flags": 3, "offset": answered.offset + answered.length, "handle": handle}
    sent = frames([record(asked, handle=handle), record(answered, **end)])
    sent += frames([record(answered, LARGE, handle=handle)], LARGE)
    assert requests(served(layouts_frame(), sent, losses_frame())[0])["status"].tolist() == [200]


def test_a_cookie_that_comes_late_is_right_for_earlier_records():
    said = pieces(TALK)
    parts = [record(each, cookie=0, binding=0) for each in said[:3]] + [
        record(each, cookie=9, binding=3) for each in said[3:]
    ]
    recording, _ = served(layouts_frame(), frames(parts), losses_frame())
    facts = recording.facts_of("conversation")
    assert [(fact["cookie"], fact["how"]) for fact in facts] == [(0, None), (9, "size")]


def test_a_conversation_over_several_sockets_is_bound_to_none():
    parts = [record(each, flags=1 | (8 if number > 2 else 0)) for number, each in enumerate(pieces(TALK))]
    recording, _ = served(layouts_frame(), frames(parts), losses_frame())
    assert recording.facts_of("conversation")[-1]["mixed"] is True
    assert recording.facts_of("conversation")[-1]["cookie"] == 0


def test_a_socket_is_a_conversation_of_its_own():
    said = pieces([(C, GET), (S, OK)])
    parts = [record(each, handle=0, cookie=cookie, library=0, binding=5) for cookie in (7, 8) for each in said]
    parts += [record(each, handle=0, cookie=0) for each in said]  # nobody knows whose
    recording, _ = served(layouts_frame(), frames(parts), losses_frame())
    assert sorted(requests(recording)["cookie"].tolist()) == [7, 8]


def test_an_object_at_the_same_place_is_another_conversation():
    said = pieces([(C, GET), (S, OK)])
    end = record(Piece(at_ns=3_000_000, direction="send", offset=0, length=0), flags=2, direction=0)
    parts = [*map(record, said), end, *(record(each, generation=1, time=each.at_ns + 10_000_000) for each in said)]
    assert requests(served(layouts_frame(), frames(parts), losses_frame())[0])["conversation"].tolist() == [1, 2]


def test_a_stream_is_told_chunk_by_chunk():
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    talk = [(C, GET), (S, head), *((S, chat_event("SECRET")) for _ in range(4))]
    end = record(Piece(at_ns=10**9, direction="receive", offset=0, length=0), flags=2)
    recording, _ = served(layouts_frame(), frames([*map(record, pieces(talk)), end]), losses_frame())
    chunks = records_of(recording, "http_chunk")
    assert chunks["kind"].tolist() == [7] * 4
    assert requests(recording)["result"].tolist() == [1]


def test_a_recorder_that_dies_leaves_what_was_told():
    recording, whole = served(layouts_frame(), frames(map(record, pieces(TALK))))
    assert not whole
    assert len(requests(recording)) == 3
    assert recording.facts_of("plaintext")[0]["whole"] is False


@pytest.mark.parametrize("rubbish", [b"\xff" * 64, b"\0" * 64, b"\x0b\0\0\0\x05\0\0\0hello", b"\x63\0\0\0\x01\0\0\0x"])
def test_rubbish_on_the_socket_ends_nothing(rubbish):
    recording, whole = served(layouts_frame(), frames(map(record, pieces(TALK))), rubbish, b"x" * 100_000)
    assert not whole
    assert len(requests(recording)) == 3


def test_a_socket_without_a_word_writes_nothing():
    recording, whole = served(b"")
    assert not whole
    assert recording.facts == []


def test_a_fault_of_a_parser_costs_one_conversation(monkeypatch):
    from netdiag.decode.http.conversation import Conversation

    feed = Conversation.feed
    monkeypatch.setattr(Conversation, "feed", lambda self, piece: feed(self, piece) if piece.length != 77 else 1 // 0)
    bad = record(Piece(at_ns=5, direction="send", offset=0, length=77, data=b"SECRET"), handle=2)
    # what comes of it later is neither a new conversation nor another fault
    rest = [record(piece, handle=2) for piece in pieces(TALK)]
    recording, _ = served(layouts_frame(), frames([bad, *rest, bad, *map(record, pieces(TALK))]), losses_frame())
    assert len(requests(recording)) == 3
    assert recording.facts_of("loss")[0]["lost"] == 1
    (told,) = recording.facts_of("plaintext")
    assert told["conversations"] == sum(told["spoken"].values()) == 2
    assert told["not_followed"] == {"netdiag itself failed to read it": 1}


def test_a_fault_at_the_end_costs_one_conversation(monkeypatch):
    monkeypatch.setattr("netdiag.tracing.dissect.request_row", lambda *_, **__: 1 // 0)
    recording, whole = served(layouts_frame(), frames([record(piece) for piece in pieces(TALK[:1])]), losses_frame())
    assert whole
    assert recording.facts_of("loss")[0]["lost"] == 1


def test_conversations_are_bounded():
    from netdiag.recording.pieces import records
    from netdiag.testing import layout

    (said, _) = pieces([(C, GET), (S, OK)])
    with open(os.devnull, "ab") as nowhere:  # noqa: PTH123 - a device, no file
        dissector = Dissector(Appender(nowhere.fileno()))
        for number in range(5000):
            dissector.take(records(layout(SMALL), record(said, handle=number + 1, time=number)))
        dissector.settle()
    assert len(dissector._talks) == 4096


@pytest.mark.fuzz
def test_mangled_records_hurt_nothing():
    draw = random.Random(8)
    good = b"".join(map(record, pieces(TALK)))
    stride = len(record(pieces(TALK)[0]))
    sent = []
    for _ in range(60):
        data = bytearray(good)
        for _ in range(30):
            place = draw.randrange(len(data))
            if place % stride >= 8:
                data[place] = draw.choice((0, 1, 2, 255, draw.randrange(256)))
        sent.append(
            frames([bytes(data[at : at + stride]) for at in range(0, len(data), stride)]).replace(b"SECRET", b"secret")
        )
    recording, whole = served(layouts_frame(), *sent, losses_frame())
    assert whole
    assert recording.facts_of("loss")[-1]["lost"] == 0
