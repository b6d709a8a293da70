# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import socket
import ssl
import threading

import pytest

from netdiag.lab import certificate
from netdiag.route.engine.greeting import LARGE, client_hello, run


@pytest.mark.parametrize("size", [0, 600, LARGE, 4000, 16000])
def test_a_hello_has_the_size_that_was_asked_for_and_its_lengths_agree(size):
    record = client_hello("api.lab.test", size)
    assert len(record) == size or (size == 0 and 200 < len(record) < 1200)
    assert record[0] == 22
    assert int.from_bytes(record[3:5], "big") == len(record) - 5
    assert int.from_bytes(record[6:9], "big") == len(record) - 9
    assert record.count(b"api.lab.test") == 1


@pytest.mark.parametrize("size", [0, LARGE])
def test_a_real_server_takes_it(tmp_path, size):
    key, cert = certificate.make(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    incoming.write(client_hello("api.lab.test", size))
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_side=True).do_handshake()
    answer = outgoing.read()
    assert answer[0] == 22, "a ServerHello, no alert"


def server(answer):
    listener = socket.create_server(("127.0.0.1", 0), backlog=32)

    def serve():
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(sock,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return listener


def test_a_server_that_answers_shows():
    def answer(sock):
        with sock:
            sock.recv(100)
            sock.sendall(b"x" * 700)
            sock.recv(100000)

    with server(answer) as listener:
        found = run("127.0.0.1", listener.getsockname()[1], "localhost")
    assert len(found) == 12
    assert all(one.connected and one.received == 700 for one in found)
    assert {one.mss for one in found} == {None, 1180}


def test_a_server_that_says_nothing_acknowledges_and_is_silent():
    kept: list[socket.socket] = []
    with server(kept.append) as listener:
        found = run("127.0.0.1", listener.getsockname()[1], "localhost", wait_s=0.1)
    assert all(one.connected and one.acked and not one.received and one.largest is None for one in found)


def test_nobody_there():
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    assert not any(one.connected for one in run("127.0.0.1", port, "localhost"))
