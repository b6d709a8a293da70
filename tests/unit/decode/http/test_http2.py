# SPDX-License-Identifier: Apache-2.0
"""HTTP/2: streams side by side, header tables, flow control, ends of every kind, and connections that are joined."""

from __future__ import annotations

import random

import pytest
from hpack import Encoder

from netdiag.decode.http.conversation import Conversation
from netdiag.decode.http.exchange import Chunk, ChunkKind, Ended, Exchange, Flag, Protocol
from netdiag.decode.http.frames import PREFACE
from tests.fakes.http_traffic import chat_event, cut, frame, headers_frame, pieces
from tests.unit.decode.http.test_conversation import facts, split

C, S = True, False
DATA, RST, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION = 0, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS = 1, 4


class Talk:
    """Writes both directions of a connection."""

    def __init__(self):
        self.said = []
        self.encoders = {C: Encoder(), S: Encoder()}

    def say(self, client, *frames):
        self.said.append((client, b"".join(frames)))
        return self

    def begin(self, client_settings=b"", server_settings=b"\0\x03\0\0\0\x64"):
        self.say(C, PREFACE, frame(SETTINGS, 0, 0, client_settings))
        return self.say(S, frame(SETTINGS, 0, 0, server_settings), frame(SETTINGS, 1, 0))

    def ask(self, stream, *fields, body=b"", path="/v1/x?k=SECRET"):
        head = [
            (":method", "POST" if body else "GET"),
            (":scheme", "https"),
            (":authority", "api.test"),
            (":path", path),
        ]
        head += [("authorization", "Bearer SECRET"), ("user-agent", "x"), *fields]
        frames = [headers_frame(self.encoders[C], stream, head, end=not body)]
        return self.say(C, *frames, *([frame(DATA, END_STREAM, stream, body)] if body else []))

    def answer(self, stream, *data, status="200", fields=(), end=True, last=b""):
        head = [(":status", status), ("content-type", "application/json"), ("set-cookie", "SECRET"), *fields]
        self.say(S, headers_frame(self.encoders[S], stream, head, end=end and not data))
        for number, each in enumerate(data):
            self.say(S, frame(DATA, END_STREAM if end and number == len(data) - 1 else 0, stream, each), last)
        return self


def run(said, *, role="client", joined=False, clean=True, only=slice(None), copied=None, tail=0):
    conversation = Conversation(role=role, joined=joined)
    whole = pieces(said, role=role)[only]
    told = [each for piece in (cut(whole, copied, tail) if copied else whole) for each in conversation.feed(piece)]
    told += conversation.end(10**12, clean=clean)
    exchanges = [each for each in told if isinstance(each, Exchange)]
    assert "SECRET" not in repr(told)
    return exchanges, [each for each in told if isinstance(each, Chunk)], conversation


@pytest.mark.parametrize("role", ["client", "server"])
def test_a_request_and_its_answer(role):
    talk = Talk().begin().ask(1, body=b'{"model":"m"}').answer(1, b'{"usage":{"prompt_tokens":3}}')
    (one,), chunks, conversation = run(talk.said, role=role)
    assert (one.protocol, one.stream, one.method, one.host, one.path) == (
        Protocol.HTTP2,
        1,
        "POST",
        "api.test",
        "/v1/x",
    )
    assert (one.status, one.headers, one.model, one.usage.input) == (200, {"content-type": "application/json"}, "m", 3)
    assert (one.began_ns, one.sent_ns, one.first_byte_ns, one.ended_ns) == (2_001_000, 2_001_000, 3_001_000, 4_001_000)
    sent, received = (sum(len(data) for client, data in talk.said if client is side) for side in (C, S))
    first = len(talk.said[0][1]), len(talk.said[1][1])
    assert (one.request_first, one.request_end, one.response_first, one.response_end) == (
        first[0],
        sent,
        first[1],
        received,
    )
    assert (one.request_bytes, one.response_bytes) == (sent - first[0], received - first[1])
    assert (one.ended, one.flags, one.concurrent, chunks) == (Ended.COMPLETE, Flag(0), 1, [])
    assert (conversation.protocol, conversation.link.max_streams, conversation.not_followed) == ("h2", 100, None)


def test_streams_side_by_side():
    talk = Talk().begin()
    for stream in (1, 3, 5):
        talk.ask(stream, path=f"/s{stream}")
    talk.answer(5, b"{}", status="500").answer(1, b"{}").answer(3, b"{}", status="404")
    exchanges, _, conversation = run(talk.said)
    assert {(one.stream, one.path, one.status, one.number) for one in exchanges} == {
        (1, "/s1", 200, 1), (3, "/s3", 404, 2), (5, "/s5", 500, 3),
    }  # fmt: skip
    assert sorted(one.concurrent for one in exchanges) == [1, 2, 3]
    assert conversation.link.most_streams == 3


def streamed(interleaved=1):
    talk = Talk().begin()
    numbers = [2 * index + 1 for index in range(interleaved)]
    for number in numbers:
        talk.ask(number, body=b'{"model":"m","stream":true}')
    for number in numbers:
        talk.say(
            S, headers_frame(talk.encoders[S], number, [(":status", "200"), ("content-type", "text/event-stream")])
        )
    for count in range(10):
        for number in numbers:
            talk.say(S, frame(DATA, 0, number, chat_event(f"t{count}")))
    for number in numbers:
        talk.say(S, frame(DATA, END_STREAM, number, b"data: [DONE]\n\n"))
    return talk


def test_streams_of_tokens_do_not_mix():
    exchanges, chunks, _ = run(streamed(3).said)
    assert [one.flags & Flag.FINISHED for one in exchanges] == [Flag.FINISHED] * 3
    for number in (1, 2, 3):
        mine = [chunk for chunk in chunks if chunk.exchange == number]
        assert [chunk.kind for chunk in mine] == [ChunkKind.CONTENT] * 10 + [ChunkKind.DONE]
        assert len({chunk.at_ns for chunk in mine}) == 11


@pytest.mark.parametrize("seed", range(15))
def test_how_bytes_are_cut_changes_nothing(seed):
    said = [*streamed(2).said]
    whole, chunks, _ = run(said)
    again, more, _ = run(split(said, random.Random(seed)))
    assert facts(again) == facts(whole)
    assert sum(chunk.tokens for chunk in more) == sum(chunk.tokens for chunk in chunks) == 20


def test_padding_priority_and_continuation_are_framing():
    talk = Talk().begin()
    block = talk.encoders[C].encode([(":method", "GET"), (":path", "/a"), (":authority", "h")])
    first = frame(1, 0x8 | 0x20 | END_STREAM, 1, b"\x04" + b"\0\0\0\0\x10" + block[:3] + b"\0" * 4)
    talk.say(C, first, frame(CONTINUATION, 0, 1, block[3:5]), frame(CONTINUATION, END_HEADERS, 1, block[5:]))
    talk.answer(1, end=False)
    talk.say(S, frame(DATA, 0x8 | END_STREAM, 1, b"\x03" + b'{"usage":{"input_tokens":5}}' + b"\0" * 3))
    (one,), _, _ = run(talk.said)
    assert (one.method, one.path, one.host, one.ended, one.usage.input) == ("GET", "/a", "h", Ended.COMPLETE, 5)


def test_trailers_end_a_stream_and_interim_answers_do_not_begin_one():
    talk = Talk().begin().ask(1)
    talk.say(S, headers_frame(talk.encoders[S], 1, [(":status", "103"), ("link", "x")]))
    talk.answer(1, b"{}", end=False)
    talk.say(S, headers_frame(talk.encoders[S], 1, [("grpc-status", "0")], end=True))
    (one,), _, _ = run(talk.said)
    assert (one.status, one.ended, one.flags) == (200, Ended.COMPLETE, Flag.CONTINUED)
    assert one.first_byte_ns == 4_001_000
    assert one.response_bytes == sum(len(data) for client, data in talk.said[4:] if not client)


@pytest.mark.parametrize(
    ("who", "code", "ended"), [(C, 8, Ended.CLIENT_RESET), (S, 2, Ended.SERVER_RESET), (S, 7, Ended.REFUSED)]
)
def test_streams_that_are_taken_back(who, code, ended):
    talk = Talk().begin().ask(1).ask(3)
    talk.say(who, frame(RST, 0, 1, code.to_bytes(4, "big"))).answer(3, b"{}")
    first, second = run(talk.said)[0]
    assert (first.ended, second.ended) == (ended, Ended.COMPLETE)


def test_a_goaway_refuses_what_lies_behind_it():
    talk = Talk().begin().ask(1).ask(3).ask(5)
    talk.say(S, frame(GOAWAY, 0, 0, (3).to_bytes(4, "big") + bytes(4))).answer(1, b"{}").answer(3, b"{}")
    exchanges, _, conversation = run(talk.said)
    assert {one.stream: one.ended for one in exchanges} == {1: Ended.COMPLETE, 3: Ended.COMPLETE, 5: Ended.REFUSED}
    assert (conversation.link.goaway_last, conversation.link.goaway_ns) == (3, 5_001_000)


def test_what_may_have_ended_among_frames_that_were_not_seen_is_not_called_cut():
    talk = Talk().begin().ask(1).answer(1, b"{}", end=False)
    talk.say(S, frame(DATA, END_STREAM, 1, b"x" * 40)).say(S, frame(PING, 0, 0, bytes(8))).ask(3)
    talk.answer(3, b"{}", end=False)
    conversation, found = Conversation(role="client"), []
    for piece in pieces(talk.said):
        if piece.data != frame(DATA, END_STREAM, 1, b"x" * 40):
            found += conversation.feed(piece)
    found += conversation.end(99, clean=False)
    ends = {one.stream: one.ended for one in found if isinstance(one, Exchange)}
    assert ends == {1: Ended.NOT_FOLLOWED, 3: Ended.CUT}


def test_no_answer_of_which_frames_were_not_seen_is_called_whole():
    """Every set of neighbouring pieces that gets lost: what is told as whole, and every size told, is the true one."""
    talk = streamed(2).ask(5, body=b"y" * 300).answer(5, b"{}", b"z" * 200)
    whole = {one.stream: one for one in run(talk.said)[0]}
    doubts = 0
    for lost in range(2, len(talk.said)):
        for count in (1, 2, 5):
            said = pieces(talk.said)
            conversation, told = Conversation(role="client"), []
            for piece in said[:lost] + said[lost + count :]:
                told += conversation.feed(piece)
            told += conversation.end(10**12, clean=True)
            for one in (one for one in told if isinstance(one, Exchange)):
                true = whole[one.stream]
                if Flag.RESPONSE_PART in one.flags:
                    doubts += 1
                    assert one.ended is not Ended.COMPLETE
                    assert one.response_bytes <= true.response_bytes
                elif one.ended is Ended.COMPLETE:
                    assert one.response_bytes == true.response_bytes
                assert one.first_byte_ns in (0, true.first_byte_ns)
                if Flag.REQUEST_PART not in one.flags:
                    assert one.request_bytes == true.request_bytes
    assert doubts > 50


def test_what_was_lost_before_an_answer_or_of_another_side_is_no_doubt():
    talk = Talk().begin().ask(1).answer(1, b"{}").say(S, frame(PING, 0, 0, bytes(8)))
    talk.ask(3, body=b"y").answer(3, b"{}")
    said = pieces(talk.said)
    conversation = Conversation(role="client")
    told = [each for piece in said[:4] + said[5:] for each in conversation.feed(piece)] + conversation.end(1)
    ends = {one.stream: (one.ended, one.flags & Flag.RESPONSE_PART) for one in told if isinstance(one, Exchange)}
    assert ends == {1: (Ended.NOT_FOLLOWED, Flag.RESPONSE_PART), 3: (Ended.COMPLETE, Flag(0))}


def test_what_is_under_way_at_the_end_is_cut():
    talk = Talk().begin().ask(1).answer(1, b"{}", end=False)
    assert run(talk.said)[0][0].ended is Ended.CUT
    assert run(talk.said, clean=None)[0][0].ended is Ended.OPEN


def test_time_at_the_end_of_a_window_is_told():
    talk = Talk().begin(client_settings=b"\0\x04\0\0\x03\xe8")  # 1000 bytes
    talk.ask(1).answer(1, b"x" * 1000, end=False)
    talk.say(C, frame(WINDOW, 0, 0, (1000).to_bytes(4, "big")), frame(WINDOW, 0, 1, (1000).to_bytes(4, "big")))
    talk.say(S, frame(DATA, END_STREAM, 1, b"x" * 1000))
    (one,), _, conversation = run(talk.said)
    assert one.blocked_ns == 1_000_000
    assert conversation.link.initial_window == 1000
    assert run(Talk().begin().ask(1).answer(1, b"x" * 1000).said)[0][0].blocked_ns == 0


def test_a_connection_that_is_joined_says_what_it_cannot_know():
    talk = Talk().begin()
    for stream in (1, 3, 5, 7):
        talk.ask(stream, ("x-request-id", "same"), path="/known").answer(stream, b"{}", fields=[("x-request-id", "r1")])
    exchanges, _, conversation = run(talk.said, joined=True, only=slice(5, None))
    assert [(one.stream, one.ended) for one in exchanges] == [
        (3, Ended.COMPLETE),
        (5, Ended.COMPLETE),
        (7, Ended.COMPLETE),
    ]
    assert all(Flag.HEADERS_UNKNOWN in one.flags for one in exchanges)
    assert exchanges[0].host is None  # :authority stands in the table from the first request on
    assert exchanges[0].method == "GET"
    assert exchanges[0].status == 200
    assert conversation.not_followed is not None
    # what is said for the first time after joining is known
    talk.ask(9, path="/new")
    assert run(talk.said, joined=True, only=slice(5, None))[0][-1].path == "/new"


def test_no_field_is_taken_for_another_after_a_block_that_was_not_seen():
    """The same talk with and without a lost piece: whatever is told of a header is the same, or nothing."""
    rng = random.Random(1)
    talk = Talk().begin()
    for count in range(30):
        stream = 2 * count + 1
        talk.ask(stream, ("x-request-id", f"id{rng.randrange(8)}"), path=f"/p{rng.randrange(8)}")
        talk.answer(stream, b"{}", fields=[("x-request-id", f"r{rng.randrange(8)}")])
    whole = {one.stream: one for one in run(talk.said)[0]}
    for lost in range(2, len(talk.said), 3):
        said = pieces(talk.said)
        conversation = Conversation(role="client")
        told = [each for piece in said[:lost] + said[lost + 1 :] for each in conversation.feed(piece)]
        for one in told:
            if isinstance(one, Exchange):
                true = whole[one.stream]
                assert one.path in (None, true.path)
                assert one.host in (None, true.host)
                assert one.status in (0, true.status)
                assert one.request_headers.items() <= true.request_headers.items()
                assert one.headers.items() <= true.headers.items()


@pytest.mark.parametrize(("copied", "tail"), [(256, 0), (256, 64), (128, 32)])
def test_frames_are_followed_over_bytes_that_were_not_copied(copied, tail):
    talk = Talk().begin()
    for stream in (1, 3, 5):
        talk.ask(stream, path=f"/p{stream}").answer(stream, b"x" * 9000)
    exchanges, _, _ = run(talk.said, copied=copied, tail=tail)
    assert [(one.path, one.status, one.ended) for one in exchanges] == [
        (f"/p{n}", 200, Ended.COMPLETE) for n in (1, 3, 5)
    ]


def test_a_body_is_no_frame():
    """Bytes of a body that look like frames, after a loss: nothing is invented."""
    inner = Talk().begin().ask(7).said[2][1]
    talk = Talk().begin().ask(1).answer(1, b"x" * 100, inner, inner, end=False)
    said = pieces(talk.said)
    conversation = Conversation(role="client")
    told = [each for piece in (*said[:4], *said[5:]) for each in conversation.feed(piece)] + conversation.end(1)
    assert {one.stream for one in told if isinstance(one, Exchange)} <= {1}


@pytest.mark.parametrize("role", ["client", "server"])
def test_who_is_who_on_a_joined_connection_is_told_by_its_header_blocks(role):
    talk = Talk().begin()
    for stream in (1, 3, 5):
        talk.ask(stream).answer(stream, b"{}")
    conversation = Conversation(joined=True)
    told = [each for piece in pieces(talk.said, role=role)[4:] for each in conversation.feed(piece)]
    assert (conversation.role, conversation.protocol) == (role, "h2")
    exchanges = [one for one in told if isinstance(one, Exchange)]
    assert exchanges == told
    assert [(one.stream, one.method, one.status) for one in exchanges] == [(3, "GET", 200), (5, "GET", 200)]
