# SPDX-License-Identifier: Apache-2.0
"""An HTTPS server that streams events and remembers which path came over which port, and when it wrote each event."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any

from netdiag.lab import certificate

__all__ = ["Server"]

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


class Server:
    """One thread a connection; `asked` is path → (client's port, instants of the events in ns)."""

    def __init__(self, folder: Path, *, events: int = 5, gap_s: float = 0.02) -> None:
        key, cert = certificate.make(folder)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(cert, key)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self._listener.getsockname()[1]
        self.asked: dict[str, tuple[int, list[int]]] = {}
        self._events, self._gap_s = events, gap_s
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept no more."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, (_, port) = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(sock, port), daemon=True).start()

    def _serve(self, sock: socket.socket, port: int) -> None:
        try:
            with self._context.wrap_socket(sock, server_side=True) as secure:
                buffer = b""
                while True:
                    while b"\r\n\r\n" not in buffer:
                        data = secure.recv(65536)
                        if not data:
                            return
                        buffer += data
                    head, _, buffer = buffer.partition(b"\r\n\r\n")
                    buffer = self._skip_body(secure, head, buffer)
                    self._answer(secure, head.split(b" ")[1].decode(), port)
        except OSError:
            return

    def _skip_body(self, secure: Any, head: bytes, buffer: bytes) -> bytes:
        fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:])
        if b"chunked" in fields.get(b"transfer-encoding", b""):
            while not buffer.endswith(b"0\r\n\r\n"):
                buffer += secure.recv(65536)
            return b""
        length = int(fields.get(b"content-length", b"0"))
        while len(buffer) < length:
            buffer += secure.recv(65536)
        return buffer[length:]

    def _answer(self, secure: Any, path: str, port: int) -> None:
        stamps: list[int] = []
        self.asked[path.partition("?")[0]] = port, stamps
        secure.sendall(_HEAD)
        for number in range(self._events):
            time.sleep(self._gap_s)
            token = {"model": "m", "choices": [{"index": 0, "delta": {"content": f"planted-answer-{number} "}}]}
            event = b"data: " + json.dumps(token).encode() + b"\n\n"
            secure.sendall(b"%x\r\n%s\r\n" % (len(event), event))
            stamps.append(time.monotonic_ns())
        secure.sendall(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
