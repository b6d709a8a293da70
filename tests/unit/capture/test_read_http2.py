# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 in TLS without keys: records cannot tell its requests apart, and none is told, however its frames are put."""

from __future__ import annotations

import functools
import ssl

import pytest
from hpack import Encoder

from netdiag.decode.http.frames import PREFACE
from tests.fakes import packets as p
from tests.fakes.http_traffic import frame, headers_frame
from tests.fakes.tls_session import talk
from tests.unit.capture.capturing import table

TLS12, TLS13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
SETTINGS, WINDOW = frame(4, 0, 0, b"\0\x03\0\0\0\x64" * 3), frame(8, 0, 0, b"\0\x0f\0\0")
ACK = frame(4, 1, 0)
ASK = headers_frame(Encoder(), 1, [(":method", "GET"), (":path", "/v1/models"), ("user-agent", "x" * 70)], end=True)
ANSWER = headers_frame(Encoder(), 1, [(":status", "200"), ("x-request-id", "r" * 60)], end=False) + frame(
    0, 1, 1, b"x" * 400
)
HEAD = b"GET /v1/models HTTP/1.1\r\nHost: api.example.test\r\nUser-Agent: " + b"x" * 60 + b"\r\n\r\n"
HTTP1 = b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n" + b"x" * 200
Said = tuple[tuple[bool, bytes], ...]
H2: dict[str, Said] = {
    "one record each": (
        (True, PREFACE), (True, SETTINGS), (True, WINDOW), (True, ASK), (False, SETTINGS), (True, ACK), (False, ANSWER),
    ),
    "all at once": ((True, PREFACE + SETTINGS + WINDOW + ASK), (False, SETTINGS + ACK), (False, ANSWER)),
    "settings first": ((False, SETTINGS + WINDOW), (True, PREFACE + SETTINGS + ACK + ASK), (False, ACK + ANSWER)),
    "preface and settings": ((True, PREFACE + SETTINGS), (True, ASK), (False, SETTINGS + ACK + ANSWER)),
    "acknowledged late": (
        (True, PREFACE + SETTINGS + WINDOW), (True, ASK), (False, SETTINGS + WINDOW + ACK), (True, ACK + WINDOW),
        (False, ANSWER),
    ),
}  # fmt: skip


@functools.cache
def captured(said: Said, version: ssl.TLSVersion, alpn: tuple[str, ...]) -> bytes:
    line = p.Talk().open()
    for client, data in talk(said, version=version, alpn=alpn).flights:
        line.say(client, data, after=0.002)
    return line.close(after=0.1).file()


@pytest.mark.parametrize("version", [TLS12, TLS13], ids=["1.2", "1.3"])
@pytest.mark.parametrize("how", H2)
def test_no_request_of_http2_is_guessed_from_records(how: str, version: ssl.TLSVersion) -> None:
    data = captured(H2[how], version, ("h2", "http/1.1"))
    assert len(table(data, "requests")) == 0
    [connection] = table(data).itertuples()
    assert connection.requests != connection.requests  # not known, and not 0


@pytest.mark.parametrize("alpn", [(), ("http/1.1",), ("h2", "http/1.1")], ids=str)
def test_requests_of_http1_are_counted_whatever_the_client_offers(alpn: tuple[str, ...]) -> None:
    said = ((True, HEAD), (False, HTTP1)) * 3
    data = captured(said, TLS13, alpn)  # of the peer's choice nothing shows
    assert len(table(data, "requests")) == 3
    assert table(data)["requests"].tolist() == [3]


@pytest.mark.parametrize("size", [24 + 9 + 6 * count + more for count in (2, 5, 10) for more in (0, 9, 13, 22)])
def test_short_requests_of_http1_are_not_taken_for_settings(size: int) -> None:
    head = b"GET / HTTP/1.1\r\n" + b"a: " + b"x" * (size - 16 - 3 - 4) + b"\r\n\r\n"
    assert len(head) == size
    data = captured(((True, head), (False, HTTP1)) * 3, TLS13, ("h2", "http/1.1"))
    assert table(data)["requests"].tolist() == [3]
