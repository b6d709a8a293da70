# SPDX-License-Identifier: Apache-2.0
"""Bodies are looked at and dropped; how they are cut is tested with whole conversations."""

from __future__ import annotations

import gc

from netdiag.decode.http.body import AnswerBody, RequestBody
from netdiag.decode.http.exchange import ChunkKind, Exchange, Flag, Protocol, StreamKind
from tests.fakes.http_traffic import chat_event


def exchange(**headers):
    made = Exchange(number=1, protocol=Protocol.HTTP11)
    made.headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return made


def test_a_long_request_is_read_at_both_ends():
    one = Exchange(number=1, protocol=Protocol.HTTP11)
    body = RequestBody(one)
    body.take(b'{"input":"' + b"x" * 100_000)
    body.take(b'","model":"m","stream":true}')
    body.end()
    assert (one.model, one.flags) == ("m", Flag.STREAM_ASKED)


def test_a_body_that_is_no_json_is_not_read():
    one = Exchange(number=1, protocol=Protocol.HTTP11, request_headers={"content-type": "text/plain"})
    body = RequestBody(one)
    body.take(b'{"model":"m"}')
    body.end()
    assert one.model is None


def test_nothing_of_a_body_stays():
    one = exchange(content_type="text/event-stream")
    body = AnswerBody(one, chunked=True)
    body.take(1, 0, chat_event("SECRET prompt"))
    chunk = body.flush()
    body.end(whole=True)
    gc.collect()
    assert chunk is not None
    assert chunk.kind is ChunkKind.CONTENT
    held = [each for each in gc.get_referrers(one) if isinstance(each, dict)]
    assert not any(b"SECRET" in bytes(value) for each in held for value in each.values() if isinstance(value, bytes))
    assert "SECRET" not in repr(one) + repr(chunk)


def test_an_answer_in_one_object_tells_its_usage():
    one = exchange(content_type="application/json")
    body = AnswerBody(one, chunked=False)
    body.take(1, 0, b'{"choices":[{"message":{"content":"' + b"y" * 50_000)
    body.take(2, 50_000, b'"}}],"model":"m","usage":{"prompt_tokens":5,"completion_tokens":6}}')
    body.end(whole=True)
    assert (one.usage.input, one.usage.output, one.model) == (5, 6, "m")
    assert body.flush() is None
    assert one.stream_kind is StreamKind.NONE


def test_lines_of_json_are_a_stream():
    one = exchange(content_type="application/x-ndjson")
    body = AnswerBody(one, chunked=True)
    body.take(1, 0, b'{"message":{"content":"a"},"done":false}\n')
    chunk = body.flush()
    assert chunk is not None
    assert chunk.kind is ChunkKind.CONTENT
    assert one.stream_kind is StreamKind.NDJSON


def test_a_gap_is_said():
    one = exchange(content_type="text/event-stream")
    body = AnswerBody(one, chunked=True)
    body.gap(1, 0, 500)
    chunk = body.flush()
    assert chunk is not None
    assert (chunk.length, one.flags) == (500, Flag.GAPS)
