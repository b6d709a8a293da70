# SPDX-License-Identifier: Apache-2.0
"""A connection of our own, to a real TLS server on loopback."""

from __future__ import annotations

import socket
import ssl
import threading

import pytest

from netdiag.lab import certificate
from netdiag.route.engine import own_session
from netdiag.route.engine.live import raw_allowed
from netdiag.route.engine.own_session import Refused, opened
from netdiag.route.engine.session import Numbers

NAME = "api.example.com"
NUMBERS = Numbers(acknowledged=1, expected=2)


class Server:
    """Answers every request of one connection; writes down what it got."""

    def __init__(self, folder):
        key, cert = certificate.make(folder)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(cert, key)
        self.names: list[str | None] = []
        self.context.sni_callback = lambda _socket, name, _context: self.names.append(name)
        self.got, self.peer, self.ended = b"", None, False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        try:
            sock, self.peer = self.listener.accept()
            sock.settimeout(10)
            with self.context.wrap_socket(sock, server_side=True) as secure:
                while data := secure.recv(65536):
                    self.got += data
                    secure.sendall(b"HTTP/1.1 204 No Content\r\nX: " + b"y" * 100 + b"\r\n\r\n")
                self.ended = True
        except OSError:
            return

    def close(self):
        self.thread.join(10)
        self.listener.close()
        assert not self.thread.is_alive()


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path)
    yield server
    server.listener.close()
    server.thread.join(10)


@pytest.fixture
def learns(monkeypatch):
    """Let numbers be learnt without raw sockets: what the value says, an error is raised."""

    def set_to(value):
        def learn(_ends, _timeout_s):
            if isinstance(value, BaseException):
                raise value
            return value

        monkeypatch.setattr(own_session, "learn", learn)

    return set_to


def requests(server):
    server.close()
    return [part.split(b"\r\n") for part in server.got.split(b"\r\n\r\n") if part]


def test_two_requests_are_sent_and_nothing_more(server, learns):
    learns(NUMBERS)
    with opened("127.0.0.1", server.port, NAME) as (ends, numbers):
        assert numbers is NUMBERS
        assert (ends.remote_ip, ends.remote_port) == ("127.0.0.1", server.port)
        assert (ends.local_ip, ends.local_port) == server.peer
        assert not server.ended
    first, second = requests(server)
    assert first == second
    assert first[0] == b"HEAD / HTTP/1.1"
    assert f"Host: {NAME}".encode() in first
    assert server.names == [NAME]
    assert server.ended


def test_a_name_with_other_letters_is_sent_as_dns_has_it(server, learns):
    learns(NUMBERS)
    with opened("127.0.0.1", server.port, "bücher.example"):
        pass
    assert b"Host: xn--bcher-kva.example" in requests(server)[0]


def test_numbers_that_could_not_be_learned_are_told(server, learns):
    learns(None)
    with pytest.raises(Refused, match="stayed silent"), opened("127.0.0.1", server.port, NAME):
        pass


def test_without_raw_sockets_no_second_request_is_sent(server, learns, monkeypatch):
    learns(PermissionError(1, "Operation not permitted"))
    monkeypatch.setattr(own_session, "_LISTENING_S", 0.5)
    with pytest.raises(PermissionError), opened("127.0.0.1", server.port, NAME):
        pass
    assert len(requests(server)) == 1


def test_a_closed_port_is_told(learns):
    learns(NUMBERS)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Refused, match="Connection refused"), opened("127.0.0.1", port, NAME):
        pass


def test_a_server_without_tls_is_told(learns):
    learns(NUMBERS)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            sock, _ = listener.accept()
            with sock:
                sock.recv(4096)
                sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        with (
            pytest.raises(Refused, match="no connection of our own"),
            opened("127.0.0.1", listener.getsockname()[1], NAME),
        ):
            pass
        thread.join(10)


def test_the_numbers_are_those_of_the_connection(server):
    if not raw_allowed():
        pytest.skip("raw sockets are not allowed for this user")
    with opened("127.0.0.1", server.port, NAME) as (_, numbers):
        assert numbers.acknowledged > 0
        assert numbers.expected > 0
