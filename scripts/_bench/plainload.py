# SPDX-License-Identifier: Apache-2.0
"""TLS requests and streams at a steady rate, for what reading plaintext costs the program that is traced.

    plainload.py serve CERT KEY       prints its port
    plainload.py hold PORT            each line `full S`, `ask S RATE` or `streams S COUNT RATE` is answered by a JSON
                                      object: count, seconds, cpu_s, p50_us, p99_us; first it prints a number

`full` asks as fast as it can. Latency of `ask` is from the call that sends to the last byte; of `streams` from the
server's stamp in the chunk to the moment at which it is read.
"""

from __future__ import annotations

import json
import selectors
import socket
import ssl
import sys
import threading
import time

REQUEST = b"POST /v1/x HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nContent-Length: 2\r\n\r\n{}"
BODY = b'{"object":"list","data":[{"id":"small","object":"model"}]}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"%016x"}}]}\n\n'
CHUNK = b"%x\r\n%s\r\n" % (len(EVENT % 0), EVENT)
SIZE = len(CHUNK % 0)


def serve(cert: str, key: str) -> None:
    """Serve until killed, a thread for each connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    print(listener.getsockname()[1], flush=True)
    while True:
        threading.Thread(target=_answer, args=(context, listener.accept()[0]), daemon=True).start()


def _answer(context: ssl.SSLContext, sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        with context.wrap_socket(sock, server_side=True) as secure:
            while data := secure.recv(4096):
                if data.startswith(b"GET /stream/"):
                    count, rate = map(int, data.split()[1].split(b"/")[2:4])
                    secure.send(HEAD)
                    began = time.monotonic()
                    for number in range(count):
                        time.sleep(max(0.0, began + number / rate - time.monotonic()))
                        secure.send(CHUNK % time.monotonic_ns())
                else:
                    secure.send(ANSWER)
    except OSError:
        sock.close()


def _connect(port: int) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(sock)


def asks(port: int, seconds: float, rate: float) -> list[float]:
    """Return how long each request took, µs."""
    took: list[float] = []
    with _connect(port) as sock:
        began = time.monotonic()
        while (now := time.monotonic()) < began + seconds:
            if rate:
                time.sleep(max(0.0, began + len(took) / rate - now))
            start = time.monotonic_ns()
            sock.send(REQUEST)
            left = len(ANSWER)
            while left:
                left -= len(sock.recv(4096))
            took.append((time.monotonic_ns() - start) / 1e3)
    return took


def streams(port: int, seconds: float, count: int, rate: float) -> list[float]:
    """Return how late each chunk was read, µs."""
    late: list[float] = []
    with selectors.DefaultSelector() as waiting:
        for _ in range(count):
            sock = _connect(port)
            sock.send(b"GET /stream/%d/%d HTTP/1.1\r\n\r\n" % (seconds * rate, rate))
            waiting.register(sock, selectors.EVENT_READ, [int(seconds * rate), -len(HEAD), b""])
        while waiting.get_map():
            for key, _ in waiting.select():
                data = key.fileobj.recv(65536)  # type: ignore[union-attr]
                now, state = time.monotonic_ns(), key.data
                text = state[2] + data
                if state[1] < 0:
                    text, state[1] = text[-state[1] :], 0
                while len(text) >= SIZE:
                    late.append((now - int(text[text.index(b'tent":"') + 7 :][:16], 16)) / 1e3)
                    text, state[0] = text[SIZE:], state[0] - 1
                state[2] = text
                if not state[0] or not data:
                    waiting.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]
    return late


def main(mode: str, *words: str) -> None:
    """Do as the arguments say."""
    if mode == "serve":
        serve(*words)
    port = int(words[0])
    print(0, flush=True)
    for line in sys.stdin:
        kind, *numbers = line.split()
        began, cpu = time.monotonic(), time.process_time()
        if kind == "streams":
            values = streams(port, float(numbers[0]), int(numbers[1]), float(numbers[2]))
        else:
            values = asks(port, float(numbers[0]), float(numbers[1]) if kind == "ask" else 0.0)
        spent, took = time.process_time() - cpu, time.monotonic() - began
        values.sort()
        at = [values[int(len(values) * share)] for share in (0.5, 0.99)]
        said = {"count": len(values), "seconds": took, "cpu_s": spent, "p50_us": at[0], "p99_us": at[1]}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
