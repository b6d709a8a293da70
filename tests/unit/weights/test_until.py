# SPDX-License-Identifier: Apache-2.0
"""When a server is ready: by its pages, by the sockets it listens at, by its output."""

from __future__ import annotations

import http.server
import os
import re
import socket
import sys
import threading
from collections.abc import Iterator

import pytest

from netdiag.weights.until import answers, family, is_ready, listening, pass_on

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")


class Pages(http.server.BaseHTTPRequestHandler):
    """Answers with the statuses of its server, 404 elsewhere."""

    statuses: dict[str, int] = {}  # noqa: RUF012

    def do_GET(self) -> None:
        self.send_response(self.statuses.get(self.path, 404))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{made.server_address[1]}"
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.mark.parametrize(
    ("statuses", "ready"),
    [
        ({"/health": 200}, True),
        ({"/health": 503}, False),  # llama.cpp while it loads
        ({"/v1/models": 200}, True),
        ({"/v1/models": 503}, False),
        ({}, True),  # a server of something else
    ],
)
def test_a_server_is_ready_when_its_pages_say_so(
    monkeypatch: pytest.MonkeyPatch, server: str, statuses: dict[str, int], ready: bool
) -> None:
    monkeypatch.setattr(Pages, "statuses", statuses)
    assert is_ready(server) is ready


def test_a_page_answers_or_does_not(monkeypatch: pytest.MonkeyPatch, server: str) -> None:
    monkeypatch.setattr(Pages, "statuses", {"/up?x=1": 204})
    assert answers(f"{server}/up?x=1")
    assert not answers(f"{server}/other")
    assert not answers("http://127.0.0.1:1/")


def test_what_is_no_http_listens_and_that_is_all() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def talk() -> None:
            connection, _ = listener.accept()
            connection.recv(100)
            connection.sendall(b"hello there\r\n\r\n")
            connection.close()

        thread = threading.Thread(target=talk)
        thread.start()
        assert is_ready(f"http://127.0.0.1:{listener.getsockname()[1]}")
        thread.join()


def test_sockets_of_a_process_that_listen_are_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        found = listening(os.getpid())
        assert f"http://127.0.0.1:{listener.getsockname()[1]}" in found
        assert f"http://127.0.0.1:{other.getsockname()[1]}" not in found
    assert os.getpid() in set(family([os.getpid()]))


def test_output_passes_whole_and_the_first_match_is_told_once() -> None:
    (first, into), (out, sink), (told, tell) = os.pipe(), os.pipe(), os.pipe()
    os.write(into, b"loading\nserver rea")
    thread = threading.Thread(target=pass_on, args=(re.compile(b"server ready"), tell, {first: sink}))
    thread.start()
    os.write(into, b"dy now\nserver ready again\n\xff")
    os.close(into)
    thread.join(5)
    assert os.read(out, 1000) == b"loading\nserver ready now\nserver ready again\n\xff"
    assert len(os.read(told, 1000).split()) == 1
    for fd in (first, out, sink, told, tell):
        os.close(fd)
