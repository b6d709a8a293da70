# SPDX-License-Identifier: Apache-2.0
"""One connection of the lab's server, over a socket pair: no port, no process."""

from __future__ import annotations

import io
import json
import socket
import threading
import time

import pytest

from netdiag.lab.exchange import Exchange
from netdiag.lab.facts import FactLog
from netdiag.lab.settings import ServerSettings

GET = b"GET /v1/models HTTP/1.1\r\nHost: lab\r\n\r\n"
STREAM = b'{"stream": true}'
ASK = b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(STREAM), STREAM)
CHUNKED = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"


class OneServer:
    """Stands for the server that an exchange belongs to."""

    def __init__(self, **table):
        self.settings = ServerSettings.read({"answer": {"wait_s": 0.0, "tokens": 3, "gap_s": 0.0}, **table})
        self.text = io.StringIO()
        self.log = FactLog(self.text)
        self.turns = -1

    def turn(self, path):
        assert path.startswith("/")
        self.turns += 1
        return self.turns

    def reload_signals(self):
        return []

    def facts(self):
        return [json.loads(line) for line in self.text.getvalue().splitlines()]


def listener():
    return socket.create_server(("127.0.0.1", 0))


def talk(server, *messages, close=True):
    """Send messages, one answer awaited after each; return the bytes of every answer."""
    with listener() as listening:
        client = socket.create_connection(listening.getsockname(), timeout=5)
        accepted, _ = listening.accept()
    thread = threading.Thread(target=Exchange(server, 1, accepted).run)
    thread.start()
    answers = []
    try:
        for message in messages:
            client.sendall(message)
            answers.append(client.recv(65536))
        if not close:
            while answers[-1] and client.recv(65536):
                pass
    except ConnectionResetError:
        answers.append(b"reset")
    client.close()
    thread.join(5)
    assert not thread.is_alive()
    return answers


def test_answers_follow_requests_on_one_connection():
    server = OneServer()
    first, second, third = talk(server, GET, GET, CHUNKED)
    assert first.startswith(b"HTTP/1.1 200")
    assert second.startswith(b"HTTP/1.1 200")
    assert third.startswith(b"HTTP/1.1 200")
    facts = server.facts()
    assert [fact["n"] for fact in facts if fact["event"] == "request"] == [1, 2, 3]
    assert facts[-1]["event"] == "close"
    assert facts[-1]["by"] == "client"


def test_the_kth_answer_ends_the_connection():
    server = OneServer(max_requests=2)
    first, second = talk(server, GET, GET, close=False)
    assert b"Connection: close" not in first
    assert b"Connection: close" in second
    assert (server.facts()[-1]["by"], server.facts()[-1]["why"]) == ("server", "last answer")


def test_a_silent_close_has_no_header():
    server = OneServer(close_always=True, announce=False)
    (answer,) = talk(server, GET, close=False)
    assert b"Connection" not in answer
    assert server.facts()[-1]["by"] == "server"


def test_an_idle_connection_is_closed_by_the_server():
    server = OneServer(idle_s=0.05)
    talk(server, GET, close=False)
    close = server.facts()[-1]
    assert (close["by"], close["why"]) == ("server", "idle")


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"stale_after": 1}, "reset stale"),
        ({"answer": {"wait_s": 0.0, "body_bytes": 500, "reset_after_bytes": 100}}, "reset in mid-answer"),
    ],
)
def test_resets_are_resets_and_are_written_down(table, why):
    server = OneServer(**table)
    answers = talk(server, GET, GET, close=False)
    assert answers[-1] == b"reset"
    assert server.facts()[-1]["why"] == why


def test_a_stream_is_chunked_and_ends():
    server = OneServer(close_always=True)
    with listener() as listening:
        client = socket.create_connection(listening.getsockname(), timeout=5)
        accepted, _ = listening.accept()
    client.sendall(ASK)
    Exchange(server, 1, accepted).run()
    text = b""
    while piece := client.recv(65536):
        text += piece
    client.close()
    assert text.count(b"data: {") == 3
    assert text.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    request = server.facts()[0]
    assert (len(request["sent"]), request["whole"]) == (3, True)


def test_statuses_come_in_turn():
    server = OneServer(answer={"wait_s": 0.0, "statuses": [429, 200], "retry_after": 2})
    first, second, third = talk(server, GET, GET, GET)
    assert b"429" in first
    assert b"Retry-After: 2" in first
    assert second.startswith(b"HTTP/1.1 200")
    assert third.startswith(b"HTTP/1.1 200")


def test_a_client_that_breaks_off_is_named():
    server = OneServer()
    with listener() as listening:
        client = socket.create_connection(listening.getsockname(), timeout=5)
        accepted, _ = listening.accept()
    client.sendall(b"POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\nabc")
    client.close()
    Exchange(server, 1, accepted).run()
    assert (server.facts()[-1]["by"], server.facts()[-1]["why"]) == ("client", "in mid-request")


def streamed(**answer):
    """Return the bytes of one stream and what the server wrote down of it."""
    server = OneServer(close_always=True, answer={"gap_s": 0.0, "wait_s": 0.0, **answer})
    with listener() as listening:
        client = socket.create_connection(listening.getsockname(), timeout=5)
        accepted, _ = listening.accept()
    client.sendall(ASK)
    Exchange(server, 1, accepted).run()
    text = b""
    while piece := client.recv(65536):
        text += piece
    client.close()
    return text, server.facts()


def test_heartbeats_fill_a_stall():
    began = time.monotonic()
    text, _ = streamed(tokens=4, stall_at=2, stall_s=0.2, heartbeats=3)
    assert time.monotonic() - began >= 0.2
    before, after = text.split(b": ping\n\n", 1)
    assert text.count(b": ping\n\n") == 3
    assert (before.count(b"data: {"), after.count(b"data: {")) == (2, 2)


def test_events_may_come_in_lumps():
    text, _ = streamed(tokens=7, lump=3)
    sizes = [part.count(b"data: {") for part in text.split(b"\r\n") if b"data: {" in part]
    assert sizes == [3, 3, 1]


def test_a_stream_may_end_too_early_in_good_order():
    text, facts = streamed(tokens=7, cut_after_tokens=4)
    assert text.count(b"data: {") == 4
    assert not text.endswith(b"0\r\n\r\n")
    assert [fact["why"] for fact in facts if fact["event"] == "close"] == ["in mid-answer"]


def test_a_stream_tells_its_usage_where_it_is_asked_to():
    text, _ = streamed(tokens=2, cached=[3600])
    assert b'"cached_tokens": 3600' in text


@pytest.mark.parametrize("expect", [True, False])
def test_the_interim_answer_is_a_setting(expect):
    head = b"POST /x HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    server = OneServer(expect=expect)
    if not expect:
        head += b"{}"
    (answer,) = talk(server, head)
    assert answer.startswith(b"HTTP/1.1 100 Continue" if expect else b"HTTP/1.1 200")
