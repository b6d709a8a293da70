# SPDX-License-Identifier: Apache-2.0
"""A proxy that connects clients with the lab's server on request: CONNECT, then bytes both ways."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Mapping
from typing import Any, Self

__all__ = ["Tunnel"]

_HEAD_BYTES = 65536


class Tunnel:
    """A running proxy on loopback; a tunnel ends when one side ends it, or was quiet for `idle_s`."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._idle_s = float(settings.get("idle_s", 60.0))
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._tunnel, args=(client,), daemon=True).start()

    def _tunnel(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError, ValueError):
            head = b""
            while b"\r\n\r\n" not in head and len(head) < _HEAD_BYTES:
                data = client.recv(4096)
                if not data:
                    return
                head += data
            method, target, _ = head.split(b" ", 2)
            host, _, port = target.decode("ascii").rpartition(":")
            if method != b"CONNECT":
                return
            with socket.create_connection((host, int(port))) as server:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=self._copy, args=(server, client), daemon=True)
                back.start()
                self._copy(client, server)
                back.join()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        source.settimeout(self._idle_s)
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)
