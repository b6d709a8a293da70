# SPDX-License-Identifier: Apache-2.0
"""TLS traffic for the measurements, by Python's ssl module on the system's OpenSSL.

    tlsload.py serve CERT KEY             prints its port; answers each read with one small answer
    tlsload.py shake PORT COUNT           COUNT times connect, handshake, ask, read, close
    tlsload.py full PORT SECONDS          asks on one connection as fast as it can
    tlsload.py chunks PORT COUNT          reads COUNT small records that the server sends one after another
    tlsload.py hold PORT                  does the same at each line `shake COUNT` or `chunks COUNT` that comes in

All but serve print: count, nanoseconds that it took.
"""

from __future__ import annotations

import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

REQUEST = b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n\r\n"
BODY = b'{"object":"list","data":[{"id":"small","object":"model"},{"id":"large","object":"model"}]}    '
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
CHUNK = b'data: {"token":"another one of these"}\n\n'
ASK_CHUNKS = b"CHUNKS "


def serve(cert: str, key: str) -> None:
    """Serve until killed, a thread for each connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(listener.getsockname()[1], flush=True)
    while True:
        threading.Thread(target=_answer, args=(context, listener.accept()[0]), daemon=True).start()


def _answer(context: ssl.SSLContext, sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        with context.wrap_socket(sock, server_side=True) as wrapped:
            while data := wrapped.recv(4096):
                if data.startswith(ASK_CHUNKS):
                    for _ in range(int(data.split()[1])):
                        wrapped.send(CHUNK)
                else:
                    wrapped.send(ANSWER)
    except OSError:
        sock.close()


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _connect(context: ssl.SSLContext, port: int) -> ssl.SSLSocket:
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(sock)


def _ask(sock: ssl.SSLSocket) -> None:
    sock.send(REQUEST)
    left = len(ANSWER)
    while left:
        left -= len(sock.recv(4096))


def shake(port: int, count: int) -> int:
    """Make connections one after another."""
    context = _context()
    for _ in range(count):
        with _connect(context, port) as sock:
            _ask(sock)
    return count


def full(port: int, seconds: float) -> int:
    """Ask for so long."""
    count, end = 0, time.monotonic() + seconds
    with _connect(_context(), port) as sock:
        while time.monotonic() < end:
            _ask(sock)
            count += 1
    return count


def chunks(port: int, count: int) -> int:
    """Read a stream."""
    left = count * len(CHUNK)
    with _connect(_context(), port) as sock:
        sock.send(ASK_CHUNKS + b"%d" % count)
        while left:
            left -= len(sock.recv(4096))
    return count


COUNTED = {"shake": shake, "chunks": chunks}


def main(mode: str, *words: str) -> None:
    """Do as the arguments say."""
    if mode == "serve":
        serve(*words)
    port = int(words[0])
    if mode == "hold":
        for line in sys.stdin:
            kind, amount = line.split()
            _timed(partial(COUNTED[kind], port, int(amount)))
    elif mode in COUNTED:
        _timed(partial(COUNTED[mode], port, int(words[1])))
    else:
        _timed(partial(full, port, float(words[1])))


def _timed(work: Callable[[], int]) -> None:
    began = time.monotonic_ns()
    count = work()
    print(count, time.monotonic_ns() - began, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
