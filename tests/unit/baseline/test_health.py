# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from netdiag.baseline import health
from netdiag.errors import UsageError

PAGES = {
    "/status.json": b'{"status": {"indicator": "none", "description": "All good\\u001b[31m"}}',
    "/v1/models": b'{"data": [{"id": "a"}, {"id": "b"}]}',
    "/text": b"fine",
    "/list": b"[1]",
}


@pytest.fixture
def server():
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            page = PAGES.get(self.path.partition("?")[0])
            self.send_response(200 if page else 500)
            self.end_headers()
            self.wfile.write(page or b"{}")

        def log_message(self, *_):
            pass

    found = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{found.server_port}"
    found.shutdown()
    thread.join()
    found.server_close()


@pytest.mark.parametrize(
    ("path", "says"),
    [("/status.json", "All good\\x1b[31m"), ("/v1/models", "2 models"), ("/text", None), ("/list", None)],
)
def test_its_own_word(server, path, says):
    told = health.ask(server + path)
    assert (told.status, told.says) == (200, says)
    assert told.ms > 0


def test_a_service_that_fails_or_is_not_there(server):
    assert health.ask(f"{server}/none").status == 500
    assert health.ask("http://127.0.0.1:9/x").status is None


def test_secrets_of_the_url_are_not_told(server):
    told = health.ask(server.replace("http://", "http://user:pass@") + "/text?key=secret")
    assert (told.url, told.status) == (f"{server}/text", 200)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x", "x", "http://", "http://a:99999/", "http://[::1"])
def test_what_is_no_url(url):
    with pytest.raises(UsageError):
        health.ask(url)
