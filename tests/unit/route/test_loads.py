# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import http.server
import threading
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.errors import InputUnreadable
from netdiag.route.loads import parse, read


def test_both_forms():
    assert parse('{"FRA": 91, "203.0.113.10": 12.5}') == {"FRA": 91.0, "203.0.113.10": 12.5}
    assert parse("# now\nFRA 91%\nAMS 12.5  # calm\n\n") == {"FRA": 91.0, "AMS": 12.5}


@pytest.mark.parametrize(
    "text", ["{", '{"a": "x"}', '{"a": true}', '{"a": -1}', '{"a": 1e9}', "FRA", "FRA x", "FRA 1 2", '{"a": NaN}']
)
def test_what_is_no_load(text):
    with pytest.raises(InputUnreadable):
        parse(text)


@pytest.mark.fuzz
@given(st.text())
def test_any_text_is_read_or_refused(text):
    with suppress(InputUnreadable):
        assert all(0 <= value <= 1000 for value in parse(text).values())


def test_a_file(tmp_path):
    path = tmp_path / "load"
    path.write_text("FRA 50\n")
    assert read(str(path)) == {"FRA": 50.0}
    with pytest.raises(InputUnreadable, match="--load"):
        read(str(tmp_path / "none"))
    path.write_bytes(b"\xff")
    with pytest.raises(InputUnreadable, match="byte 0"):
        read(str(path))


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'{"FRA": 70}'
        self.send_response(200 if self.path == "/load" else 302)
        if self.path != "/load":
            self.send_header("Location", "http://127.0.0.1:9/load")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args):
        return


def test_an_address_is_fetched_and_no_redirect_followed():
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_port}"
        assert read(f"{base}/load") == {"FRA": 70.0}
        with pytest.raises(InputUnreadable, match="302") as told:
            read(f"{base}/elsewhere?token=secret")
        assert "secret" not in told.value.message
        server.shutdown()


@pytest.mark.parametrize("source", ["http://[::1", "http://a:99999/?token=secret", "https://a/b c?token=secret"])
def test_an_address_that_is_none_is_told_without_its_secrets(source):
    with pytest.raises(InputUnreadable, match="--load") as told:
        read(source)
    assert "secret" not in told.value.message
