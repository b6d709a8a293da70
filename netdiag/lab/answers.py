# SPDX-License-Identifier: Apache-2.0
"""The bytes that the lab's API answers with, shaped like those of a chat-completion API."""

from __future__ import annotations

import json
from collections.abc import Iterator

__all__ = ["HEARTBEAT", "head", "json_body", "stream_events", "usage_event"]

REASONS = {200: "OK", 400: "Bad Request", 429: "Too Many Requests", 500: "Internal Server Error"}


def head(
    status: int,
    *,
    length: int | None,
    close: bool,
    http10: bool,
    retry_after: float | None,
    location: str = "",
    processing_ms: float | None = None,
) -> bytes:
    """Return the head of an answer; `length` None announces a chunked event stream."""
    lines = [f"{'HTTP/1.0' if http10 else 'HTTP/1.1'} {status} {REASONS.get(status, 'Other')}"]
    if length is None:
        lines += ["Content-Type: text/event-stream", "Cache-Control: no-cache", "Transfer-Encoding: chunked"]
    else:
        lines += ["Content-Type: application/json", f"Content-Length: {length}"]
    if close and not http10:
        lines.append("Connection: close")
    if retry_after is not None and status in (429, 503):
        lines.append(f"Retry-After: {retry_after:g}")
    if processing_ms is not None:
        lines.append(f"openai-processing-ms: {processing_ms:.0f}")
    if location and 301 <= status <= 308:
        lines.append(f"Location: {location}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def json_body(status: int, extra_bytes: int) -> bytes:
    """Return a whole completion, or an error object for a status from 400 on, with `extra_bytes` more of text."""
    text = "ok" + "." * extra_bytes
    if status >= 400:
        return json.dumps({"error": {"type": "lab", "message": text}}).encode()
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
    answer = {"id": "lab-1", "object": "chat.completion", "created": 0, "model": "lab"}
    return json.dumps({**answer, "choices": [choice], "usage": usage}).encode()


HEARTBEAT = b": ping\n\n"


def usage_event(prompt: int, cached: int, output: int) -> bytes:
    """Return the event with which a stream tells its tokens."""
    told = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
    usage = {**told, "prompt_tokens_details": {"cached_tokens": cached}}
    event = {"id": "lab-1", "object": "chat.completion.chunk", "created": 0, "model": "lab", "choices": []}
    return b"data: " + json.dumps({**event, "usage": usage}).encode() + b"\n\n"


def stream_events(tokens: int, token_bytes: int) -> Iterator[bytes]:
    """Yield `tokens` server-sent events, each with a word and `token_bytes` more of text."""
    for number in range(tokens):
        choice = {"index": 0, "finish_reason": None, "delta": {"content": f"w{number} " + "." * token_bytes}}
        event = {"id": "lab-1", "object": "chat.completion.chunk", "created": 0, "model": "lab", "choices": [choice]}
        yield b"data: " + json.dumps(event).encode() + b"\n\n"
