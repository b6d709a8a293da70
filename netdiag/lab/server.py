# SPDX-License-Identifier: Apache-2.0
"""An LLM-like API on loopback that misbehaves to order and writes down what really happened.

`python -m netdiag.lab.server SETTINGS.json FACTS.jsonl` prints one line `ready PORT` and serves until SIGTERM.
Standard library only; one thread per connection, because the clients are few and the order of a thread is easy to read.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import FrameType

from netdiag.lab import certificate
from netdiag.lab.exchange import Exchange
from netdiag.lab.facts import FactLog
from netdiag.lab.settings import ServerSettings, TlsSettings

__all__ = ["Server", "main"]

VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


class Server:
    """Listens, accepts and gives each connection to a thread."""

    def __init__(self, settings: ServerSettings, log: FactLog) -> None:
        self.settings = settings
        self.log = log
        self.contexts = [tls_context(settings.tls) for _ in range(settings.tls.fleet)] if settings.tls else []
        self.turns: dict[str, int] = {}
        self.lock = threading.Lock()
        self.accepted = 0
        self.listeners = listen(settings)
        self.reload_pipes = [os.pipe() for _ in settings.reload_at_s]

    @property
    def port(self) -> int:
        """The port that all listeners share."""
        return int(self.listeners[0].getsockname()[1])

    def serve(self) -> None:
        """Accept until the process ends."""
        for listener in self.listeners[1:]:
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        self._accept(self.listeners[0])

    def turn(self, path: str) -> int:
        """Count requests of one path, from 0."""
        with self.lock:
            self.turns[path] = self.turns.get(path, -1) + 1
            return self.turns[path]

    def reload_signals(self) -> list[int]:
        """Descriptors of the reloads to come; each turns readable, for all who hold it, at its reload."""
        return [read_end for read_end, _ in self.reload_pipes]

    def _accept(self, listener: socket.socket) -> None:
        while True:
            time.sleep(self.settings.accept_wait_s)
            sock, address = listener.accept()
            with self.lock:
                self.accepted += 1
                number = self.accepted
            self.log.write("accept", conn=number, peer_port=address[1], peer=address[0])
            if number == 1:
                self._plan_reloads()
            prepare(sock, self.settings)
            threading.Thread(target=self._connection, args=(number, sock), daemon=True).start()

    def _plan_reloads(self) -> None:
        for delay, pipe in zip(self.settings.reload_at_s, list(self.reload_pipes), strict=True):
            timer = threading.Timer(delay, self._reload, args=(pipe,))
            timer.daemon = True
            timer.start()

    def _reload(self, pipe: tuple[int, int]) -> None:
        self.reload_pipes.remove(pipe)  # connections from now on belong to the new server
        os.close(pipe[1])

    def _connection(self, number: int, sock: socket.socket) -> None:
        try:
            Exchange(self, number, self._handshake(number, sock)).run()
        except (ConnectionError, ssl.SSLError) as error:  # in the handshake; later ends are the exchange's
            self.log.write("close", conn=number, by="client", why=f"handshake: {type(error).__name__}")
            sock.close()

    def _handshake(self, number: int, sock: socket.socket) -> socket.socket:
        if self.settings.tls is None:
            return sock
        time.sleep(self.settings.tls.handshake_wait_s)
        began = time.monotonic_ns()
        # two connections in turn reach the same server of a fleet: a ticket is refused, then taken, and so on
        wrapped = self.contexts[number // 2 % len(self.contexts)].wrap_socket(sock, server_side=True)
        version, resumed = wrapped.version(), wrapped.session_reused
        self.log.write("handshake", conn=number, version=version, resumed=resumed, began=began)
        return wrapped


def tls_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return a server context with a certificate and ticket keys of its own."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory(prefix="netdiag-lab-") as folder:
        key, cert = certificate.make(Path(folder), padding=settings.padding)
        context.load_cert_chain(cert, key)
    context.minimum_version, context.maximum_version = VERSIONS[settings.min], VERSIONS[settings.max]
    if settings.groups:
        context.set_ecdh_curve(settings.groups)
    if not settings.tickets:
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
    return context


def listen(settings: ServerSettings) -> list[socket.socket]:
    """Open one listener per address; the first one settles the port for all."""
    listeners: list[socket.socket] = []
    port = settings.port
    for address in settings.bind:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.create_server((address, port), family=family, backlog=settings.backlog)
        port = listener.getsockname()[1]
        listeners.append(listener)
    return listeners


def prepare(sock: socket.socket, settings: ServerSettings) -> None:
    """Set the socket options that the settings ask for."""
    if settings.nodelay:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if settings.receive_buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer)


def stop(_number: int, _frame: FrameType | None) -> None:
    """End at once: the threads hold nothing that needs care, every fact is already written."""
    os._exit(0)


def main() -> None:
    """Serve as the two arguments say."""
    settings = ServerSettings.read(json.loads(Path(sys.argv[1]).read_text()))
    signal.signal(signal.SIGTERM, stop)
    with Path(sys.argv[2]).open("w") as file:
        server = Server(settings, FactLog(file))
        print("ready", server.port, flush=True)
        server.serve()


if __name__ == "__main__":
    main()
