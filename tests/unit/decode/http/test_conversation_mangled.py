# SPDX-License-Identifier: Apache-2.0
"""Mangled conversations, many of them, in pieces that are cut, lost, doubled: no error, and bounded."""

from __future__ import annotations

import random
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.decode.http import llm, masking, scan
from netdiag.decode.http.conversation import Conversation
from netdiag.decode.http.events import Event, Events
from netdiag.decode.http.exchange import Chunk, Exchange
from netdiag.decode.http.frames import FrameReader
from netdiag.decode.http.hpack_table import HeaderDecoder
from netdiag.decode.piece import Piece
from tests.fakes.http_traffic import pieces
from tests.fakes.mangle import COUNT, mangled
from tests.unit.decode.http.test_conversation import talk_of_everything
from tests.unit.decode.http.test_http2 import streamed

TALKS = (talk_of_everything(), streamed(2).said)
_KINDS = (int, str, type(None), dict)


def directions(talk):
    """Return all that each side says."""
    return tuple(b"".join(data for client, data in talk if client is side) for side in (True, False))


def conversation(draw, good):
    """Return pieces of a mangled conversation."""
    made, offsets, at = [], {"send": 0, "receive": 0}, 1
    texts = {
        "send": next(mangled(good[0], 1, seed=draw.randrange(1 << 30))),
        "receive": next(mangled(good[1], 1, seed=draw.randrange(1 << 30))),
    }
    places = dict.fromkeys(texts, 0)
    while any(places[side] < len(texts[side]) for side in texts):
        side = draw.choice(("send", "receive"))
        size = draw.choice((1, 5, 60, 400, 3000))
        data = texts[side][places[side] : places[side] + size]
        places[side] += size
        at += draw.choice((0, 1, 10**6))
        if not data or draw.random() < 0.03:
            offsets[side] += len(data) if draw.random() < 0.9 else draw.randrange(1 << 40)
            continue
        copied = draw.choice((len(data), len(data), 256, 3))
        tail = data[max(copied, len(data) - 64) :] if draw.random() < 0.5 else b""
        length = len(data) + draw.choice((0, 0, 0, 0, 7, 1 << 30))
        made.append(
            Piece(
                at_ns=at,
                direction=side,
                offset=offsets[side],
                length=length,
                data=data[:copied],
                tail=tail if length == len(data) else b"",
            )
        )
        offsets[side] += length if draw.random() < 0.97 else draw.choice((-3, 5, 10**9))
        offsets[side] = max(offsets[side], 0)
    return made


def check(told):
    """Check what may be told: small, printable, possible."""
    for each in told:
        if isinstance(each, Chunk):
            assert each.length > 0
            assert each.tokens <= each.events
            continue
        assert isinstance(each, Exchange)
        for text in (each.method, each.host, each.path, each.model):
            assert text is None or (len(text) <= 300 and text.isprintable())
        for fields in (each.headers, each.request_headers):
            assert len(fields) <= 24
            assert all(len(value) <= 700 and value.isprintable() for value in fields.values())
        assert each.request_end >= each.request_first
        assert each.status == 0 or 100 <= each.status <= 599


@pytest.mark.fuzz
def test_no_mangled_conversation_hurts():
    draw = random.Random(3)
    goods = [tuple((text,) for text in directions(talk)) for talk in TALKS]
    finished = broken = 0
    for _ in range(max(COUNT // 20, 50)):
        talk = Conversation(role=draw.choice(("client", "server", None)), joined=draw.random() < 0.2)
        told = []
        for piece in conversation(draw, draw.choice(goods)):
            told += talk.feed(piece)
        told += talk.end(1 << 40, clean=draw.choice((True, False, None)))
        check(told)
        exchanges = [each for each in told if isinstance(each, Exchange)]
        assert len(exchanges) <= 40
        finished += sum(each.ended == 1 for each in exchanges)
        broken += sum(each.ended != 1 for each in exchanges)
    assert min(finished, broken) > 0


@pytest.mark.fuzz
def test_no_mangled_bytes_hurt_the_parsers():
    """Each parser alone, with what comes right before it: events, JSON, header blocks, frames, heads, header values."""
    draw = random.Random(4)
    answers = directions(TALKS[0])[1], directions(TALKS[1])[1]
    decoder, receiver = HeaderDecoder(), _Nobody()
    kinds = set()
    for data in mangled((*answers, *directions(TALKS[0])), COUNT):
        events = Events(by_line=draw.random() < 0.3)
        half = draw.randrange(len(data) + 1)
        found = [*events.feed(data[:half], new_piece=True), *events.feed(data[half:]), *events.gap(), *events.end()]
        facts = llm.AnswerFacts()
        kinds |= {llm.kind_of(event, facts) for event in found[:50]}
        assert all(0 <= event.end <= len(data) for event in found)
        decoder.decode(data[: draw.choice((20, 60, 200))])
        reader = FrameReader(receiver, client=True, preface=False)
        reader.feed(1, 0, data, new_piece=True)
        reader.skip(1, len(data), draw.choice((1, 1000)))
        reader.feed(1, len(data) + 1, data, new_piece=True)
        llm.read_request(data[:500], data[-500:])
        masking.clean_path(data[:200])
        masking.clean_value("timing", data[:200])
    assert len(kinds) >= 4


class _Nobody:
    """Hears of frames."""

    def on_frame(self, *_):
        pass

    on_data = on_payload = on_frame

    def on_lost(self, client):
        pass


@pytest.mark.fuzz
@given(st.binary(max_size=400), st.binary(max_size=400))
def test_any_bytes_are_scanned(head, tail):
    for path, raw, is_text in scan.leaves(head):
        assert len(path) <= 1000
        assert isinstance(is_text, bool)
        assert raw in head
    assert scan.top_of_tail(tail) == b"" or scan.top_of_tail(tail)[:1] == b"{"
    llm.kind_of(Event(head[:8], tail, False, 0), llm.AnswerFacts())


@pytest.mark.fuzz
@given(st.binary(max_size=120))
def test_any_bytes_are_masked(raw):
    for value in (
        masking.clean_path(b"/" + raw),
        masking.clean_host(raw),
        masking.clean_model(raw),
        masking.clean_method(raw),
    ):
        assert value is None or (value.isprintable() and len(value) <= 300)
    for shape in ("token", "number", "date", "id", "timing"):
        value = masking.clean_value(shape, raw)
        assert value is None or (value.isprintable() and len(value) <= 1100)


@pytest.mark.parametrize(
    "data",
    [
        b'data: {"a":' * 30_000,
        b"[" * 500_000,
        b'{"a":"' + b"\\" * 500_000,
        b"data: " + b"x" * 2_000_000 + b"\n\n",
        b"\r" * 300_000,
        b"\n\r" * 115_000,
        b": \n" * 100_000,
        b"\xff" * 1_000_000,
        b"\0" * 1_000_000,
        b"0\r\n" * 100_000,
        b"GET / HTTP/1.1\r\n" * 30_000,
        b"GET / HTTP/1.1\r\n\r\n" * 15_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 30_000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000,
    ],
    ids=lambda data: repr(data[:12]),
)
def test_hostile_bytes_cost_little_time_and_memory(data):
    """Much of what is worst for a parser, in pieces: seconds at most, and no more memory than a few heads."""
    said = pieces(
        [(True, b"GET / HTTP/1.1\r\n\r\n"), (False, b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")]
    )
    conversations = [Conversation(role="client"), Conversation(role="client"), Conversation(role="server")]
    for piece in said:
        conversations[0].feed(piece)
    tracemalloc.start()
    began, told = time.thread_time(), 0
    for talk in conversations:
        start = len(said[1].data) if talk is conversations[0] else 0
        for at in range(0, len(data), 16384):
            part = data[at : at + 16384]
            piece = Piece(at_ns=at + 10, direction="receive", offset=start + at, length=len(part), data=part)
            told += len(talk.feed(piece))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert time.thread_time() - began < 30
    assert peak < 16 << 20
