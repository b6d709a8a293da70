# SPDX-License-Identifier: Apache-2.0
"""Connections that measure, against servers on loopback."""

from __future__ import annotations

import errno
import socket
import ssl
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.lab import certificate
from netdiag.route.engine import connects
from netdiag.route.engine.connects import parse_head
from netdiag.route.model import Clock, ConnectOutcome
from netdiag.route.prober import POP_HEADERS, ConnectRequest

ANSWER = b"HTTP/1.1 200 OK\r\nCF-Ray: 8f-FRA\r\nSet-Cookie: secret=1\r\nServer-Timing: edge;dur=3\r\n\r\n"


@pytest.fixture
def server(tmp_path):
    key, cert = certificate.make(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    listener = socket.create_server(("127.0.0.1", 0))
    requests: list[bytes] = []

    def serve():
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            try:
                sock.recv(1, socket.MSG_PEEK)  # a client that only measures is gone here, before TLS takes the socket
                with context.wrap_socket(sock, server_side=True) as secure:
                    request = secure.recv(4096)
                    if request:
                        requests.append(request)
                        secure.sendall(ANSWER)
            except OSError:
                sock.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1], requests
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(5)


def run(port, **request):
    return connects.run(ConnectRequest(ip="127.0.0.1", port=port, **request), base_ns=0).attempts


def test_each_attempt_has_a_port_and_a_time_of_its_own(server):
    attempts = run(server[0], attempts=4)
    assert len({attempt.source_port for attempt in attempts}) == 4
    for attempt in attempts:
        assert (attempt.outcome, attempt.clock, attempt.retransmits) == (ConnectOutcome.ESTABLISHED, Clock.TCP_INFO, 0)
        assert attempt.connect_ms is not None
        assert 0 < attempt.connect_ms < 1000
        assert attempt.tls is None


def test_a_certificate_that_is_refused_is_told_and_the_rest_is_measured_without(server):
    attempts = run(server[0], attempts=3, tls_attempts=2, http_attempts=1, server_name="localhost")
    assert attempts[0].error == "CERTIFICATE_VERIFY_FAILED"
    assert [attempt.tls is not None for attempt in attempts] == [False, True, True, False]
    assert attempts[1].tls is not None
    assert (attempts[1].tls.version, attempts[1].tls.trusted) == ("TLSv1.3", False)


def test_an_answer_is_timed_from_before_the_question_leaves(server, monkeypatch):
    sent = ssl.SSLSocket.sendall

    def held(self, data, flags=0):
        sent(self, data, flags)
        time.sleep(0.05)  # as if the processor had gone to another program: the answer comes meanwhile

    monkeypatch.setattr(ssl.SSLSocket, "sendall", held)
    attempts = run(server[0], attempts=1, tls_attempts=1, http_attempts=1, server_name="localhost")
    assert attempts[-1].http is not None
    assert attempts[-1].http.wait_ms >= 50


def test_only_the_named_headers_are_kept(server):
    port, requests = server
    attempts = run(port, attempts=1, tls_attempts=1, http_attempts=1, server_name="localhost")
    answer = attempts[-1].http
    assert answer is not None
    assert (answer.status, answer.headers) == (200, {"cf-ray": "8f-FRA", "server-timing": "edge;dur=3"})
    assert requests[0].startswith(b"HEAD / HTTP/1.1\r\nHost: localhost\r\n")


def test_a_closed_port_is_refused_and_timed():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    (attempt,) = run(port, attempts=1)
    assert (attempt.outcome, attempt.error) == (ConnectOutcome.REFUSED, "ECONNREFUSED")
    assert attempt.connect_ms is not None


def test_a_server_that_is_silent_is_waited_for_no_longer_than_said():
    with socket.create_server(("127.0.0.1", 0), backlog=8) as listener:
        port = listener.getsockname()[1]
        attempts = run(port, attempts=1, tls_attempts=1, server_name="localhost", wait_s=0.1)
    assert (attempts[0].outcome, attempts[0].error) == (ConnectOutcome.ESTABLISHED, "timeout")


def test_an_address_without_a_way_is_a_result(monkeypatch):
    monkeypatch.setattr(socket.socket, "connect_ex", lambda *_: errno.ENETUNREACH)
    (attempt,) = run(9, attempts=1)
    assert (attempt.outcome, attempt.error, attempt.connect_ms) == (ConnectOutcome.UNREACHABLE, "ENETUNREACH", None)


@pytest.mark.parametrize(
    ("head", "parsed"),
    [
        (ANSWER, (200, {"cf-ray": "8f-FRA", "server-timing": "edge;dur=3"})),
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", (403, {})),
        (b"HTTP/1.1 200 OK\r\ncf-ray: a\x1b[31mb\xff\r\ncf-ray: second\r\n\r\n", (200, {"cf-ray": "a?[31mb?"})),
        (b"HTTP/2 200\r\n\r\n", None),
        (b"HTTP/1.1 xyz\r\n\r\n", None),
        (b"SSH-2.0-x\r\n", None),
        (b"", None),
    ],
)
def test_heads_of_answers(head, parsed):
    assert parse_head(head, POP_HEADERS) == parsed


@pytest.mark.fuzz
@given(st.binary(max_size=300))
def test_any_head_is_read_or_refused(data):
    for head in (data, b"HTTP/1.1 200 OK\r\n" + data):
        parsed = parse_head(head, POP_HEADERS)
        assert parsed is None or all(value.isprintable() and len(value) <= 256 for value in parsed[1].values())
