# SPDX-License-Identifier: Apache-2.0
"""The bytes of the lab's API."""

from __future__ import annotations

import json

from netdiag.lab.answers import head, json_body, stream_events, usage_event


def test_a_head_names_the_length_and_ends_with_an_empty_line():
    text = head(200, length=7, close=False, http10=False, retry_after=None).decode()
    assert text.startswith("HTTP/1.1 200 OK\r\n")
    assert "Content-Length: 7\r\n" in text
    assert text.endswith("\r\n\r\n")
    assert "Connection" not in text


def test_the_last_answer_says_close_but_not_in_http_1_0():
    assert b"Connection: close" in head(200, length=1, close=True, http10=False, retry_after=None)
    old = head(200, length=1, close=True, http10=True, retry_after=None)
    assert old.startswith(b"HTTP/1.0 ")
    assert b"Connection" not in old


def test_retry_after_comes_with_429_alone():
    assert b"Retry-After: 1.5" in head(429, length=1, close=False, http10=False, retry_after=1.5)
    assert b"Retry-After" not in head(200, length=1, close=False, http10=False, retry_after=1.5)


def test_bodies_are_completions_and_errors_of_the_wished_size():
    small, large = json_body(200, 0), json_body(200, 1000)
    assert json.loads(small)["choices"][0]["message"]["content"] == "ok"
    assert len(large) - len(small) == 1000
    assert "error" in json.loads(json_body(429, 0))


def test_each_event_is_one_token():
    events = list(stream_events(3, 10))
    texts = [json.loads(event.removeprefix(b"data: "))["choices"][0]["delta"]["content"] for event in events]
    assert [text.split()[0] for text in texts] == ["w0", "w1", "w2"]
    assert all(event.endswith(b"\n\n") for event in events)


def test_usage_tells_what_was_cached():
    usage = json.loads(usage_event(4000, 3600, 7).removeprefix(b"data: "))["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (4000, 7)
    assert usage["prompt_tokens_details"] == {"cached_tokens": 3600}


def test_the_server_may_say_how_long_it_took():
    assert b"openai-processing-ms: 41\r\n" in head(
        200, length=1, close=False, http10=False, retry_after=None, processing_ms=41.2
    )
