# SPDX-License-Identifier: Apache-2.0
"""Conversations of HTTP/1: what is asked and answered comes out once, however it is cut, and nothing else does."""

from __future__ import annotations

import random

import pytest

from netdiag.decode.http.conversation import Conversation
from netdiag.decode.http.exchange import Chunk, ChunkKind, Ended, Exchange, Flag, Format, Protocol, StreamKind
from netdiag.decode.piece import Piece
from tests.fakes.http_traffic import chat_event, chunked, cut, pieces

C, S = True, False
GET = b"GET /v1/models?key=SECRET HTTP/1.1\r\nHost: api.test:8443\r\nAuthorization: Bearer SECRET\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nSet-Cookie: a=SECRET\r\n\r\nhello"
ASKED = b'"model":"gpt-4o","stream":true,"response_format":{"type":"json_object"}}'
HEAD_SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def post(body=b'{"model":"m","stream":true}', fields=b""):
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    return head + fields + b"Content-Length: %d\r\n\r\n" % len(body) + body


def run(talk, *, role="client", joined=False, clean=True, known=True):
    """Return exchanges and chunks of what is said."""
    conversation = Conversation(role=role if known else None, joined=joined)
    told = [
        each
        for piece in (talk if isinstance(talk[0], Piece) else pieces(talk, role=role))
        for each in conversation.feed(piece)
    ]
    told += conversation.end(10**12, clean=clean)
    return [each for each in told if isinstance(each, Exchange)], [each for each in told if isinstance(each, Chunk)]


def test_a_request_and_its_answer():
    (one,), chunks = run([(C, GET), (S, OK)])
    assert (one.method, one.host, one.path, one.status) == ("GET", "api.test", "/v1/models", 200)
    assert (one.began_ns, one.sent_ns, one.first_byte_ns, one.ended_ns) == (1_000, 1_000, 1_001_000, 1_001_000)
    assert (one.request_bytes, one.response_bytes) == (len(GET), len(OK))
    assert (one.request_first, one.request_end, one.response_first, one.response_end) == (0, len(GET), 0, len(OK))
    assert one.headers == {"content-type": "text/plain"}
    assert (one.ended, one.protocol, one.flags, chunks) == (Ended.COMPLETE, Protocol.HTTP11, Flag(0), [])
    assert "SECRET" not in repr(one)


@pytest.mark.parametrize("role", ["client", "server"])
def test_the_role_is_told_by_the_bytes(role):
    (one,), _ = run([(C, GET), (S, OK)], role=role, known=False)
    assert one.status == 200


def test_requests_on_one_connection_are_numbered_and_lie_behind_each_other():
    exchanges, _ = run([(C, GET), (S, OK)] * 3)
    assert [one.number for one in exchanges] == [1, 2, 3]
    assert [one.request_first for one in exchanges] == [0, len(GET), 2 * len(GET)]


def test_pipelined_requests_get_their_answers_in_order():
    other = OK.replace(b"200 OK", b"404 No")
    first, second = run([(C, GET + GET), (S, OK), (S, other)])[0]
    assert (first.status, second.status) == (200, 404)
    assert (first.flags, second.flags) == (Flag(0), Flag.PIPELINED)


@pytest.mark.parametrize(
    ("method", "answer", "size"),
    [
        (b"HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n", 0),
        (b"GET", b"HTTP/1.1 204 No Content\r\n\r\n", 0),
        (b"GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5000\r\n\r\n", 0),
        (b"GET", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 0),
        (b"GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(b"abc", b"defg"), 0),
        (
            b"GET",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x\r\n\r\n3\r\nabc\r\n0\r\nx: 1\r\n\r\n",
            0,
        ),
        (b"GET", b"HTTP/1.1 200 OK\nContent-Length: 3\n\nabc", 0),
        (b"GET", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK, 37),
    ],
)
def test_where_an_answer_ends(method, answer, size):
    first, second = run([(C, GET.replace(b"GET", method)), (S, answer), (C, GET), (S, OK)])[0]
    assert (first.ended, second.ended, second.status) == (Ended.COMPLETE, Ended.COMPLETE, 200)
    assert first.response_end == len(answer) == second.response_first
    assert first.response_bytes == len(answer) - size


def test_an_interim_answer_is_none():
    body = b"x" * 100
    head, _, _ = post(body, b"Expect: 100-continue\r\n").partition(b"x" * 100)
    (one,), _ = run([(C, head), (S, b"HTTP/1.1 100 Continue\r\n\r\n"), (C, body), (S, OK)])
    assert one.flags == Flag.EXPECT | Flag.CONTINUED
    assert (one.sent_ns, one.first_byte_ns) == (2_001_000, 3_001_000)
    assert one.response_bytes == len(OK)


def test_an_answer_without_length_ends_with_the_connection():
    answer = b"HTTP/1.0 200 OK\r\n\r\nsome text"
    talk = [(C, GET.replace(b"1.1", b"1.0")), (S, answer), (S, b" and more")]
    (one,), _ = run(talk)
    assert (one.ended, one.protocol, one.response_bytes) == (Ended.COMPLETE, Protocol.HTTP10, len(answer) + 9)
    assert one.flags == Flag.CLIENT_CLOSE | Flag.SERVER_CLOSE
    assert run(talk, clean=False)[0][0].ended is Ended.CUT
    assert run(talk, clean=None)[0][0].ended is Ended.OPEN


def test_a_cut_answer_and_one_that_never_came():
    assert run([(C, GET), (S, OK[:-1])])[0][0].ended is Ended.CUT
    (one,), _ = run([(C, GET)], clean=False)
    assert (one.ended, one.status, one.first_byte_ns) == (Ended.CUT, 0, 0)


def test_what_ends_connections_is_told():
    asks = GET.replace(b"Host", b"Connection: close\r\nHost")
    closes = OK.replace(b"Content-Length", b"Connection: Close\r\nContent-Length")
    assert run([(C, asks), (S, OK)])[0][0].flags is Flag.CLIENT_CLOSE
    assert run([(C, GET), (S, closes)])[0][0].flags is Flag.SERVER_CLOSE
    old = GET.replace(b"1.1", b"1.0").replace(b"Host", b"Connection: keep-alive\r\nHost")
    assert run([(C, old), (S, OK)])[0][0].flags is Flag(0)


def test_an_exchange_has_the_lower_version_of_both():
    old = OK.replace(b"HTTP/1.1", b"HTTP/1.0")
    (one,), _ = run([(C, GET), (S, old)])
    assert (one.protocol, one.flags) == (Protocol.HTTP10, Flag.SERVER_CLOSE)
    kept = old.replace(b"Content-Length", b"Connection: keep-alive\r\nContent-Length")
    (one,), _ = run([(C, GET), (S, kept)])
    assert (one.protocol, one.flags) == (Protocol.HTTP10, Flag(0))
    (one,), _ = run([(C, GET), (S, OK)])
    assert one.protocol is Protocol.HTTP11


def test_a_tunnel_carries_a_conversation():
    connect = b"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n"
    granted = b"HTTP/1.1 200 Connection established\r\n\r\n"
    outer, inner = run([(C, connect), (S, granted), (C, GET), (S, OK)])[0]
    assert (outer.method, outer.host, outer.path, outer.flags) == ("CONNECT", "api.test", None, Flag.UPGRADED)
    assert (inner.number, inner.method, inner.status) == (2, "GET", 200)
    assert (inner.request_first, inner.response_first) == (len(connect), len(granted))
    assert len(run([(C, connect), (S, granted), (C, b"\x16\x03\x01" * 100), (S, b"\x16\x03\x03" * 100)])[0]) == 1


def test_a_protocol_that_is_no_http_says_nothing():
    assert run([(S, b"220 mail ESMTP\r\n"), (C, b"EHLO x\r\n"), (S, b"250 ok\r\n")]) == ([], [])
    up = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"
    (one,), _ = run([(C, GET), (S, up + b"\x81\x05hello"), (C, b"\x81\x85aaaahello")])
    assert (one.status, one.flags, one.response_bytes) == (101, Flag.UPGRADED, len(up))


def test_a_stream_of_tokens():
    head = chat_event(role="assistant", content="")
    talk = [
        (C, post()), (S, HEAD_SSE + b"%x\r\n%s\r\n" % (len(head), head)), (S, b": ping\n\n"),
    ]  # fmt: skip
    talk[2] = (S, b"8\r\n: ping\n\n\r\n")
    counts = b'"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}'
    usage = b'data: {"choices":[],"usage":{' + counts + b"}}\n\n"
    events = (chat_event(reasoning_content="hm"), chat_event("to"), chat_event("ken") + chat_event("s"), usage)
    talk += [(S, b"%x\r\n%s\r\n" % (len(data), data)) for data in events]
    talk.append((S, chunked(b"data: [DONE]\n\n")))
    (one,), chunks = run(talk)
    kinds = ["ROLE", "HEARTBEAT", "REASONING", "CONTENT", "CONTENT", "USAGE", "DONE"]
    assert [chunk.kind.name for chunk in chunks] == kinds
    assert [chunk.tokens for chunk in chunks] == [0, 0, 1, 1, 2, 0, 0]
    assert [chunk.events for chunk in chunks] == [1, 1, 1, 1, 2, 1, 1]
    assert chunks[0].offset == len(HEAD_SSE) + 4
    assert (one.stream_kind, one.model, one.ended) == (StreamKind.SSE, "m", Ended.COMPLETE)
    assert Flag.FINISHED in one.flags
    assert Flag.STREAM_ASKED in one.flags
    assert (one.usage.input, one.usage.cached, one.usage.output, one.usage.reasoning) == (7, 4, 3, None)


def test_a_stream_that_breaks_off_is_not_finished():
    (one,), chunks = run([(C, post()), (S, HEAD_SSE + chunked(chat_event("a"))[:-5])], clean=False)
    assert (one.ended, Flag.FINISHED in one.flags, len(chunks)) == (Ended.CUT, False, 1)
    (one,), _ = run([(C, post()), (S, HEAD_SSE + chunked(chat_event("a")))])
    assert (one.ended, Flag.FINISHED in one.flags) == (Ended.COMPLETE, False)  # framed well, but nobody said [DONE]


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n"])
def test_events_end_as_the_standard_allows(end):
    event = chat_event("x").rstrip(b"\n") + end
    (_,), chunks = run([(C, post()), (S, HEAD_SSE + chunked(event, event + event))])
    assert [(chunk.kind, chunk.tokens) for chunk in chunks] == [(ChunkKind.CONTENT, 3)]


def talk_of_everything():
    return [
        (C, GET), (S, OK),
        (C, post(b'{"messages":[{"content":"' + b"y" * 5000 + b'"}],' + ASKED)),
        (S, HEAD_SSE + chunked(*(chat_event(f"t{number}") for number in range(20)), b"data: [DONE]\n\n")),
        (C, GET), (S, b"HTTP/1.1 204 No Content\r\n\r\n"),
    ]  # fmt: skip


def facts(exchanges):
    names = ("number", "method", "path", "status", "request_first", "request_end", "response_first", "response_end",
             "response_body", "ended", "model", "format", "stream_kind", "headers")  # fmt: skip
    return [{name: getattr(one, name) for name in names} for one in exchanges]


def split(talk, draw):
    """Return the same bytes in other pieces."""
    made = []
    for client, data in talk:
        at = 0
        while at < len(data):
            step = draw.choice((1, 2, 3, 7, 50, 500, 5000))
            made.append((client, data[at : at + step]))
            at += step
    return made


@pytest.mark.parametrize("seed", range(25))
def test_how_bytes_are_cut_changes_nothing(seed):
    whole, chunks = run(talk_of_everything())
    again, more = run(split(talk_of_everything(), random.Random(seed)))
    assert facts(again) == facts(whole)
    assert sum(chunk.tokens for chunk in more) == sum(chunk.tokens for chunk in chunks) == 20
    assert sum(chunk.length for chunk in more) == sum(chunk.length for chunk in chunks)
    assert next(c.token_offset for c in more if c.token_offset) == next(
        c.token_offset for c in chunks if c.token_offset
    )
    assert (whole[1].model, whole[1].format) == ("gpt-4o", Format.JSON_OBJECT)


@pytest.mark.parametrize(("copied", "tail"), [(512, 0), (512, 96), (1024, 128), (300, 100)])
def test_pieces_that_are_cut_keep_the_framing(copied, tail):
    """Head and body in pieces of their own, as clients and servers write them; of a long body the ends are seen."""
    request = talk_of_everything()[2][1]
    head, body = request[: request.index(b"\r\n\r\n") + 4], request[request.index(b"\r\n\r\n") + 4 :]
    events = [chat_event(f"t{number}") for number in range(20)]
    talk = [(C, GET), (S, OK), (C, head), (C, body), (S, HEAD_SSE)]
    talk += [(S, b"%x\r\n%s\r\n" % (len(event), event)) for event in events]
    talk += [(S, chunked(b"data: [DONE]\n\n")), (C, GET), (S, b"HTTP/1.1 204 No Content\r\n\r\n")]
    exchanges, chunks = run(cut(pieces(talk), copied, tail))
    assert [one.status for one in exchanges] == [200, 200, 204]
    assert all(one.ended is Ended.COMPLETE for one in exchanges)
    assert sum(chunk.tokens for chunk in chunks) == 20
    if tail:
        assert (exchanges[1].model, exchanges[1].format) == ("gpt-4o", Format.JSON_OBJECT)


def test_a_long_read_of_many_chunks_is_followed_on():
    """One read holds more chunks than were copied: the next piece begins with a chunk, or the tail ends it all."""
    many = HEAD_SSE + b"".join(b"%x\r\n%s\r\n" % (len(e), e) for e in (chat_event(f"t{n}") for n in range(30)))
    after = chat_event("u")
    talk = [
        (C, post()),
        (S, many),
        (S, b"%x\r\n%s\r\n" % (len(after), after)),
        (S, chunked(b"data: [DONE]\n\n")),
        (C, GET),
        (S, OK),
    ]
    first, second = run(cut(pieces(talk), 512, 64))[0]
    assert (first.ended, second.status) == (Ended.COMPLETE, 200)
    assert Flag.GAPS in first.flags
    ends = [(C, post()), (S, many + chunked(b"data: [DONE]\n\n")), (C, GET), (S, OK)]
    first, second = run(cut(pieces(ends), 512, 64))[0]
    assert (first.ended, second.status) == (Ended.COMPLETE, 200)


def test_lost_framing_is_said_and_invents_nothing():
    """The end of a head was not seen: how its body is framed is not known until another message begins."""
    talk = [
        (C, GET),
        (S, OK.replace(b"Set-Cookie", b"X: " + b"y" * 900 + b"\r\nSet-Cookie")),
        (S, b"GET / HTTP/1.1\r\n\r\n"),
        (C, GET),
        (S, OK),
    ]
    first, second = run(cut(pieces(talk), 256))[0]
    assert (first.ended, first.status, second.ended) == (Ended.NOT_FOLLOWED, 200, Ended.COMPLETE)
    assert Flag.GAPS in first.flags


def test_pieces_that_are_missing_are_gaps():
    whole = pieces([(C, GET), (S, OK[:-3]), (S, OK[-3:]), (C, GET), (S, OK)])
    assert [one.ended for one in run([*whole[:2], *whole[3:]])[0]] == [Ended.COMPLETE] * 2
    conversation = Conversation(role="client")
    told = [each for piece in (*whole[:1], *whole[3:]) for each in conversation.feed(piece)]  # the answer was not seen
    told += conversation.end(10**12, clean=True)
    exchanges = [each for each in told if isinstance(each, Exchange)]
    assert exchanges == told
    assert [(each.status, each.ended) for each in exchanges] == [(0, Ended.NOT_FOLLOWED)] * 2
    assert conversation.not_followed is not None


def test_a_conversation_that_is_joined_begins_with_the_next_request():
    talk = [(S, b"the rest of some body"), (C, b"rest of a request"), (S, OK), (C, GET), (S, OK)]
    (one,), _ = run(talk, joined=True)
    assert (one.method, one.status) == ("GET", 200)


def test_a_body_that_looks_like_requests_is_none():
    body = GET + OK + GET
    exchanges, _ = run([(C, post(body)), (S, OK), (C, GET), (S, OK)])
    assert [one.method for one in exchanges] == ["POST", "GET"]


def test_pieces_that_come_twice_count_once():
    whole = pieces([(C, GET), (S, OK)])
    assert facts(run([whole[0], whole[0], whole[1], whole[1]])[0]) == facts(run(whole)[0])


def test_a_compressed_stream_is_told_by_its_sizes_alone():
    head = HEAD_SSE.replace(b"Transfer", b"Content-Encoding: gzip\r\nTransfer")
    (one,), chunks = run([(C, post()), (S, head + b"3\r\nabc\r\n"), (S, b"2\r\nde\r\n0\r\n\r\n")])
    assert Flag.CODED in one.flags
    assert [(chunk.kind, chunk.events, chunk.length) for chunk in chunks] == [
        (ChunkKind.OTHER, 0, 3),
        (ChunkKind.OTHER, 0, 2),
    ]
