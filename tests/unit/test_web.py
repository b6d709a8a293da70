# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag import web


@contextmanager
def answering(data):
    """Give the URL of a server that answers so once, and the list of what it was asked."""
    asked: list[bytes] = []

    def serve():
        with suppress(OSError):
            taken, _ = listener.accept()
            with taken:
                asked.append(taken.recv(65536))
                taken.sendall(data)

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(5)
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
        thread.join()


def ask(url, **more):
    return web.ask(url, timeout_s=5, most=1000, **more)


def test_an_answer_comes_back_and_what_is_sent_is_as_named():
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") as (url, asked):
        assert ask(f"{url}/a?b=c", headers={"Accept": "text/plain"}) == (200, b"ok")
    assert asked[0].startswith(b"GET /a?b=c HTTP/1.1\r\n")
    assert b"Accept: text/plain\r\n" in asked[0]


def test_user_and_password_go_as_authorization_and_not_into_the_name():
    with answering(b"HTTP/1.1 204 No Content\r\n\r\n") as (url, asked):
        named = url.replace("http://", "http://me:p%40ss@") + "/a?key=secret"
        assert ask(named)[0] == 204
    assert b"Authorization: Basic bWU6cEBzcw==\r\n" in asked[0]
    assert web.origin(named) == url


def test_no_redirect_is_followed():
    with answering(b"ICY") as (other, never):
        with answering(f"HTTP/1.1 302 Found\r\nLocation: {other}/\r\nContent-Length: 0\r\n\r\n".encode()) as (url, _):
            assert ask(url) == (302, b"")
        assert never == []
        with suppress(OSError):
            ask(other)


@pytest.mark.parametrize("data", [b"SSH-2.0-x\r\n", b"", b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\n"])
def test_what_is_no_answer_of_http_is_an_oserror(data):
    with answering(data) as (url, _), pytest.raises(OSError, match=r"no answer|closed"):
        ask(url)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("file:///etc/passwd", "no http"),
        ("x", "no http"),
        ("http://", "no http"),
        ("http://[::1", "IPv6"),
        ("http://a:99999/", "range"),
        ("http://a:0/", "port 0"),
        ("http://a:x/", "[Pp]ort"),
        ("http://a/b c", "%XX"),
    ],
)
def test_what_is_no_url_is_a_valueerror_and_nothing_is_sent(url, why):
    with pytest.raises(ValueError, match=why):
        ask(url)


@pytest.mark.fuzz
@given(st.text())
def test_any_text_is_a_url_or_a_valueerror(text):
    for url in (text, f"http://{text}", f"http://a/{text}"):
        with suppress(ValueError):
            assert web.origin(url).startswith("http")
