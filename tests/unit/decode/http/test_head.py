# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.decode.http.exchange import Exchange, Flag, Protocol
from netdiag.decode.http.head import (
    Head,
    is_request_start,
    is_response_start,
    note_request,
    note_response,
    parse_head,
)


def parsed(raw: bytes) -> Head:
    head = parse_head(raw)
    assert head is not None
    return head


def test_a_request():
    head = parsed(b"POST /v1/x?k=S HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-Continue\r\nBroken\r\n\r\n")
    assert (head.is_request, head.method, head.length, head.chunked, head.expect) == (True, b"POST", 5, False, True)
    exchange = Exchange(number=1, protocol=Protocol.HTTP11)
    note_request(head, exchange)
    assert (exchange.method, exchange.host, exchange.path, exchange.flags) == ("POST", "h", "/v1/x", Flag.EXPECT)
    assert "k=S" not in repr(head)


def test_an_answer():
    head = parsed(b"HTTP/1.0 404 Not Found\r\nTransfer-Encoding: gzip, chunked\r\nRetry-After: 2\r\n\r\n")
    exchange = Exchange(number=1, protocol=Protocol.HTTP11)
    note_response(head, exchange)
    assert (head.chunked, exchange.status, exchange.headers) == (True, 404, {"retry-after": "2"})
    assert exchange.flags is Flag.SERVER_CLOSE


def test_a_target_in_full_names_its_host():
    exchange = Exchange(number=1, protocol=Protocol.HTTP11)
    note_request(parsed(b"GET http://u:SECRET@API.test:80/a HTTP/1.1\r\n\r\n"), exchange)
    assert (exchange.host, exchange.path) == ("api.test", "/a")


@pytest.mark.parametrize(
    "raw", [b"", b"GET /", b"GET / HTTP/2.0\r\n", b"HTTP/1.1 999 x\r\n", b"get / HTTP/1.1", b"PRI * HTTP/2.0"]
)
def test_what_is_no_head(raw):
    assert parse_head(raw) is None


@pytest.mark.parametrize("length", [b"-1", b"1x", b"", b"9" * 30])
def test_a_length_that_is_none(length):
    assert parsed(b"HTTP/1.1 200 OK\r\nContent-Length: " + length + b"\r\n\r\n").length is None


def test_how_messages_start():
    assert is_request_start(b"GET / HTTP/1.1")
    assert is_request_start(b"CONNECT h:443 HTTP/1.1")
    assert is_request_start(b"OPTIONS * HTTP/1.1")
    assert not is_request_start(b"PRI * HTTP/2.0")
    assert not is_request_start(b"EHLO x")
    assert is_response_start(b"HTTP/1.1 200 OK")
    assert not is_response_start(b"HTTP/2 200")
