# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import socket
import threading

from netdiag.lab.tunnel import Tunnel


def test_bytes_go_both_ways_behind_a_connect():
    with socket.create_server(("127.0.0.1", 0)) as server, Tunnel({"idle_s": 5.0}) as tunnel:

        def echo():
            with server.accept()[0] as accepted:
                while data := accepted.recv(100):
                    accepted.sendall(data.upper())

        thread = threading.Thread(target=echo)
        thread.start()
        with socket.create_connection(("127.0.0.1", tunnel.port), timeout=5.0) as client:
            client.sendall(f"CONNECT 127.0.0.1:{server.getsockname()[1]} HTTP/1.1\r\n\r\n".encode())
            assert client.recv(200).startswith(b"HTTP/1.1 200")
            client.sendall(b"hello")
            assert client.recv(100) == b"HELLO"
        thread.join(5.0)
        assert not thread.is_alive()


def test_what_is_no_connect_is_refused():
    with Tunnel({}) as tunnel, socket.create_connection(("127.0.0.1", tunnel.port), timeout=5.0) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert client.recv(100) == b""
