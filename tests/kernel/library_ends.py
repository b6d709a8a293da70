# SPDX-License-Identifier: Apache-2.0
"""The two ends of connections that TLS libraries are watched on: a server of the test's own, and programs to trace."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import threading
import time

from netdiag.lab import certificate
from tests.kernel.harness import serve

__all__ = ["Program", "Server"]


class Server:
    """A TLS server on loopback in a thread of the test, which is not traced."""

    def __init__(self, folder, *, think=lambda _: 0.0):
        self.key, self.cert = certificate.make(folder)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(self.cert, self.key)
        self._listener = serve()
        self.port = self._listener.getsockname()[1]
        self._think = think
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        number = 0
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(sock, number), daemon=True).start()
            number += 1

    def _answer(self, sock, number):
        time.sleep(self._think(number))
        try:
            with self._context.wrap_socket(sock, server_side=True) as secure:
                if secure.recv(4096):
                    secure.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        except OSError:
            return  # what the client makes of it is what is tested

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


class Program:
    """A program that begins when it is told to, as `netdiag trace -- CMD` starts one."""

    def __init__(self, *argv, env=None):
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", 'read go; exec "$@"', "sh", *map(str, argv)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
        )  # fmt: skip
        self.pid = self.process.pid

    def go(self):
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def end(self):
        """Run it to its end; return the lines that it printed, read as JSON."""
        out, err = self.process.communicate(b"\n", timeout=60)
        assert self.process.returncode == 0, err.decode()
        return [json.loads(line) for line in out.decode().splitlines() if line.startswith("[")]

    def close(self):
        self.process.kill()
        self.process.communicate()
