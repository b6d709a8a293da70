# SPDX-License-Identifier: Apache-2.0
"""Names of kinds of things stay; ids, tokens, queries and whatever may be one of them do not."""

from __future__ import annotations

import time

import pytest

from netdiag.decode.http import masking


@pytest.mark.parametrize(
    "path",
    [
        "/", "/v1/chat/completions", "/v1beta/models/gemini-1.5-pro:streamGenerateContent", "/api/generate",
        "/v1/models/claude-3-5-sonnet-20241022", "/openai/deployments/my-gpt4/chat/completions", "/static/js/main.js",
        "/v1/audio/transcriptions", "/favicon.ico", "/health", "/v2/internetServiceRegistrations", "/a//b/", "*",
        "/2024-10-21/functions", "/v1/fine_tuning/jobs",
    ],
)  # fmt: skip
def test_words_stay(path):
    assert masking.clean_path(path.encode()) == path


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("/v1/x?key=SECRET", "/v1/x"),
        ("/v1/x#SECRET", "/v1/x"),
        ("/v1/x;jsessionid=SECRET", "/v1/x"),
        ("http://user:SECRET@host:80/a/b?c", "/a/b"),
        ("http://host", "/"),
        ("/users/12345/posts", "/users/{…}/posts"),
        ("/items/42", "/items/{…}"),
        ("/a/550e8400-e29b-41d4-a716-446655440000", "/a/{…}"),
        ("/v1/threads/thread_abc123DEF456/runs", "/v1/threads/{…}/runs"),
        ("/v1/responses/resp_67ccd2bed1ec8190b14f964abc0542670bb6a6b452d3795b", "/v1/responses/{…}"),
        ("/bot123456:ABC-DEF1234ghIkl/sendMessage", "/{…}/sendMessage"),
        ("/sk-proj-abcdef/x", "/{…}/x"),
        ("/reset/kjHsdfKJhsdfKJ", "/reset/{…}"),
        ("/email/joe@example.com", "/email/{…}"),
        ("/%73ecret/x", "/{…}/x"),
        ("/token=abc", "/{…}"),
        ("/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "/{…}"),
        ("/ééé", "/{…}"),
        ("/\x1b[2J", "/{…}"),
    ],
)
def test_ids_and_tokens_do_not(raw, shown):
    assert masking.clean_path(raw.encode("latin-1")) == shown


def test_long_paths_are_short():
    path = masking.clean_path(b"/word" * 500)
    assert path is not None
    assert len(path) <= 262
    assert path.endswith("{…}")
    assert masking.clean_path(b"no path") is None


@pytest.mark.parametrize(
    ("raw", "host"),
    [
        (b"API.example.com:8443", "api.example.com"), (b"127.0.0.1", "127.0.0.1"), (b"[::1]:443", "[::1]"),
        (b"user:SECRET@host", "host"), (b"a b", None), (b"", None), (b"h\x1b[2J", None), (b"x" * 300, None),
    ],
)  # fmt: skip
def test_hosts(raw, host):
    assert masking.clean_host(raw) == host


@pytest.mark.parametrize(
    ("raw", "model"),
    [
        (b"gpt-4o-2024-08-06", "gpt-4o-2024-08-06"), (b"org/Llama-3.1-70B-Instruct", "org/Llama-3.1-70B-Instruct"),
        (b"qwen2.5:7b", "qwen2.5:7b"), (b"my prompt", None), (b"x" * 65, None), (b"", None), (b"sk-proj-secret", None),
        (b"abcdefabcdefabcdefabcdefabcdef", None), ("modèle".encode(), None),
    ],
)  # fmt: skip
def test_models(raw, model):
    assert masking.clean_model(raw) == model


def test_a_model_may_stand_in_the_path():
    assert masking.model_in_path(b"/v1beta/models/gemini-2.0-flash:generateContent?key=S") == "gemini-2.0-flash"
    assert masking.model_in_path(b"/v1/models") is None
    assert masking.model_in_path(b"/x?y=/models/SECRET") is None


@pytest.mark.parametrize(
    ("shape", "raw", "value"),
    [
        ("token", b"text/event-stream; charset=utf-8", "text/event-stream; charset=utf-8"),
        ("token", b"multipart/form-data; boundary=SECRET", "multipart/form-data"),
        ("token", b"timeout=5, max=100", "timeout=5, max=100"),
        ("token", b"6m0s", "6m0s"),
        ("token", b"abcdefghijklmnopqrstuvwxyz0123", None),
        ("token", b"<script>", None),
        ("number", b"412", "412"),
        ("number", b"1.5 ms", "1.5 ms"),
        ("number", b"soon", None),
        ("date", b"Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:28:00 GMT"),
        ("date", b"2", "2"),
        ("date", b"SECRET", None),
        ("id", b"req_0123abc", "req_0123abc"),
        ("id", b"a b", None),
        ("timing", b'db;dur=53.2;desc="SECRET", app;dur=4', "db;dur=53.2, app;dur=4"),
        ("timing", b"SECRET", None),
        ("id", b"x" * 200, None),
    ],
)
def test_values_of_headers(shape, raw, value):
    assert masking.clean_value(shape, raw) == value


def test_methods():
    assert masking.clean_method(b"GET") == "GET"
    assert masking.clean_method(b"get it") is None


@pytest.mark.parametrize("host", [b"a" * 200 + b"!", b"a-" * 100 + b"!", b"a." * 100 + b"!", b"a" * 250, b"-" * 250])
def test_no_host_takes_long(host):
    """A pattern that can split a name in many ways would try them all."""
    began = time.process_time()
    masking.clean_host(host)
    assert time.process_time() - began < 1.0
