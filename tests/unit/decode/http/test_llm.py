# SPDX-License-Identifier: Apache-2.0
"""What events of the usual APIs say, as their documentation shows them."""

from __future__ import annotations

import json

import pytest

from netdiag.decode.http.events import Event
from netdiag.decode.http.exchange import ChunkKind, Format
from netdiag.decode.http.llm import AnswerFacts, kind_of, read_answer, read_request

OPENAI = [
    ("role", {"model": "gpt-4o", "choices": [{"delta": {"role": "assistant", "content": ""}}], "usage": None}),
    ("reasoning", {"choices": [{"delta": {"reasoning_content": "hm"}}]}),
    ("content", {"choices": [{"delta": {"content": "Hi"}, "finish_reason": None}]}),
    ("content", {"choices": [{"delta": {"tool_calls": [{"function": {"arguments": "{"}}]}}]}),
    ("done", {"choices": [{"delta": {}, "finish_reason": "stop"}]}),
    ("usage", {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}}),
    ("error", {"error": {"message": "overloaded", "code": 503}}),
]
RESPONSES = [
    ("role", {"type": "response.created", "response": {"model": "gpt-5", "error": None, "usage": None}}),
    ("reasoning", {"type": "response.reasoning_summary_text.delta", "delta": "hm"}),
    ("content", {"type": "response.output_text.delta", "delta": "Hi"}),
    ("other", {"type": "response.output_text.done", "text": "Hi"}),
    ("done", {"type": "response.completed", "response": {"usage": {"input_tokens": 9, "output_tokens": 2}}}),
    ("error", {"type": "response.failed", "response": {"error": {"message": "x", "code": "y"}}}),
]
ANTHROPIC = [
    (
        "role",
        {"type": "message_start", "message": {"model": "claude", "role": "assistant", "usage": {"input_tokens": 9}}},
    ),
    ("role", {"type": "content_block_start", "content_block": {"type": "text", "text": ""}}),
    ("heartbeat", {"type": "ping"}),
    ("reasoning", {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "hm"}}),
    ("content", {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hi"}}),
    ("usage", {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
    ("done", {"type": "message_stop"}),
    ("error", {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}),
]
GEMINI = [
    ("reasoning", {"candidates": [{"content": {"parts": [{"text": "hm", "thought": True}], "role": "model"}}]}),
    ("content", {"candidates": [{"content": {"parts": [{"text": "Hi"}]}}], "modelVersion": "gemini-2"}),
    ("content", {"candidates": [{"content": {"parts": [{"text": "."}]}, "finishReason": "STOP"}]}),
]
OLLAMA = [
    ("content", {"model": "llama3", "message": {"role": "assistant", "content": "Hi"}, "done": False}),
    ("content", {"model": "llama3", "response": "Hi", "done": False}),
    ("usage", {"model": "llama3", "message": {"content": ""}, "done": True, "prompt_eval_count": 9, "eval_count": 2}),
]


@pytest.mark.parametrize(("kind", "body"), [*OPENAI, *RESPONSES, *ANTHROPIC, *GEMINI, *OLLAMA])
def test_what_an_event_says(kind, body):
    assert kind_of(Event(b"", json.dumps(body).encode(), False, 0), AnswerFacts()).name.lower() == kind


@pytest.mark.parametrize(
    ("events", "model", "finished"),
    [(RESPONSES, "gpt-5", True), (ANTHROPIC, "claude", True), (OPENAI, "gpt-4o", True), (OLLAMA, "llama3", True)],
)
def test_what_all_events_say(events, model, finished):
    facts = AnswerFacts()
    for _, body in events:
        kind_of(Event(b"", json.dumps(body).encode(), False, 0), facts)
    assert (facts.model, facts.finished, facts.spoke) == (model, finished, True)
    assert (facts.usage.input, facts.usage.output) == (9, 2)


@pytest.mark.parametrize("cut", [70, 90, 110])
def test_a_cut_event_says_what_it_began_to_say(cut):
    data = json.dumps({"id": "x", "object": "chat.completion.chunk", "choices": [{"delta": {"content": "long " * 50}}]})
    assert kind_of(Event(b"", data.encode()[: 70 + cut], False, 0), AnswerFacts()) is ChunkKind.CONTENT


def test_markers_that_are_no_json():
    facts = AnswerFacts()
    assert kind_of(Event(b"", b"", True, 0), facts) is ChunkKind.HEARTBEAT
    assert kind_of(Event(b"", b"tok0", False, 0), facts) is ChunkKind.OTHER
    assert not facts.finished
    assert kind_of(Event(b"", b"[DONE]", False, 0), facts) is ChunkKind.DONE
    assert facts.finished


def test_tokens_from_a_cache_are_part_of_the_input():
    facts = AnswerFacts()
    body = {
        "usage": {
            "input_tokens": 5,
            "cache_read_input_tokens": 100,
            "cache_creation_input_tokens": 20,
            "output_tokens": 3,
        }
    }
    read_answer(json.dumps(body).encode(), b"", facts)
    assert (facts.usage.input, facts.usage.cached, facts.usage.output) == (125, 100, 3)


@pytest.mark.parametrize(
    ("body", "model", "stream", "format_"),
    [
        ({"model": "m", "stream": True}, "m", True, Format.UNKNOWN),
        ({"model": "m", "response_format": {"type": "json_object"}}, "m", None, Format.JSON_OBJECT),
        ({"model": "m", "response_format": {"type": "json_schema", "json_schema": {}}}, "m", None, Format.JSON_SCHEMA),
        ({"text": {"format": {"type": "text"}}, "stream": False}, None, False, Format.TEXT),
        ({"generationConfig": {"responseMimeType": "application/json"}}, None, None, Format.JSON_OBJECT),
        ({"metadata": {"model": "inner", "stream": True}}, None, None, Format.UNKNOWN),
        ({"model": "tell me a secret"}, None, None, Format.UNKNOWN),
        (["model"], None, None, Format.UNKNOWN),
    ],
)
def test_what_a_request_asks_for(body, model, stream, format_):
    facts = read_request(json.dumps(body).encode())
    assert (facts.model, facts.stream, facts.format) == (model, stream, format_)


def test_what_a_prompt_says_is_no_fact():
    prompt = '"model":"evil","stream":true}'
    whole = json.dumps({"messages": [{"content": prompt * 100}], "model": "m", "stream": False}).encode()
    for size in range(20, 400, 7):
        facts = read_request(whole[:200], whole[-size:])
        assert facts.model in (None, "m")
        assert facts.stream in (None, False)
