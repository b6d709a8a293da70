# SPDX-License-Identifier: Apache-2.0
"""Rarer habits, on bare sockets: forks, stops, bursts of connections, slow readers, careless writers."""

from __future__ import annotations

import gzip
import http.client
import os
import select
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

from .plan import Plan, repeat, together, unverified

__all__ = ["RARE", "WIRE_ERRORS"]

T = TypeVar("T")

WIRE_ERRORS: tuple[type[BaseException], ...] = (OSError, http.client.HTTPException)


def dial(plan: Plan, url: str, context: ssl.SSLContext | None = None) -> socket.socket:
    """Open a connection, with TLS where the URL asks for it, in a context of its own if none is given."""
    parts = urlsplit(url)
    sock = socket.create_connection((parts.hostname, parts.port), timeout=plan.timeout_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return (context or unverified()).wrap_socket(sock) if parts.scheme == "https" else sock


def message(plan: Plan, url: str) -> tuple[bytes, bytes]:
    """Return head and body of a chat request."""
    parts = urlsplit(url)
    lines = [f"POST {parts.path} HTTP/1.1", f"Host: {parts.netloc}", "Content-Type: application/json"]
    lines.append(f"Content-Length: {len(plan.body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode(), plan.body


def talk(plan: Plan, sock: socket.socket, url: str) -> bytes:
    """Send one request, read one answer, whole."""
    sock.sendall(b"".join(message(plan, url)))
    answer = http.client.HTTPResponse(sock)
    answer.begin()
    return answer.read()


def cold_burst(plan: Plan) -> None:
    """`burst` connections opened in the same moment, then kept; so in every of `calls` rounds."""
    sockets: dict[int, socket.socket] = {}
    context = unverified()

    def work(number: int) -> None:
        if number not in sockets:
            sockets[number] = dial(plan, plan.url(0), context)
        talk(plan, sockets[number], plan.url(0))

    def round_of_calls(turn: int) -> None:
        if plan.keep == 0 and turn:
            for sock in sockets.values():
                sock.close()
            sockets.clear()
        together(plan.burst, work)

    repeat(plan, round_of_calls, WIRE_ERRORS)


def fork_shared(plan: Plan) -> None:
    """One connection, opened before a fork, written by parent and child."""
    sock = dial(plan, plan.url(0))
    talk(plan, sock, plan.url(0))
    child = os.fork()
    if child == 0:
        time.sleep(plan.gap_s)
        repeat(plan, lambda turn: talk(plan, sock, plan.url(turn)), (*WIRE_ERRORS, ValueError))
        os._exit(0)
    repeat(plan, lambda turn: talk(plan, sock, plan.url(turn)), (*WIRE_ERRORS, ValueError))
    os.waitpid(child, 0)


def fork_separate(plan: Plan) -> None:
    """Parent and child open a connection each, after the fork."""
    child = os.fork()
    sock = dial(plan, plan.url(0))
    repeat(plan, lambda turn: talk(plan, sock, plan.url(turn)), WIRE_ERRORS)
    sock.close()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def frozen(plan: Plan) -> None:
    """The process is stopped for `pause_s` between calls, and goes on with the connection that it had."""
    sock: socket.socket | None = None

    def call(turn: int) -> None:
        nonlocal sock
        if turn:
            freeze(plan.pause_s)
        sock = sock or dial(plan, plan.url(0))
        try:
            talk(plan, sock, plan.url(0))
        except WIRE_ERRORS:
            sock.close()
            sock = None
            raise

    repeat(plan, call, WIRE_ERRORS)


def freeze(seconds: float) -> None:
    """Stop this process for a while; a child wakes it."""
    parent = os.getpid()
    if os.fork() == 0:
        time.sleep(0.01)
        os.kill(parent, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(parent, signal.SIGCONT)
        os._exit(0)
    time.sleep(0.05)
    os.wait()


def hold(plan: Plan) -> None:
    """Opens `burst` connections, one call on each, and gives none back."""
    held: list[socket.socket] = []

    def call(turn: int) -> None:
        sock = dial(plan, plan.url(turn))
        held.append(sock)
        talk(plan, sock, plan.url(turn))

    repeat(plan, call, WIRE_ERRORS)
    time.sleep(plan.pause_s)


def try_connect(plan: Plan) -> None:
    """Only tries to connect, with the plan's timeout."""
    repeat(plan, lambda turn: dial(plan, plan.url(turn)).close(), WIRE_ERRORS)


def call_fresh(plan: Plan) -> None:
    """A connection for every call, `burst` at a time, in whatever state the other side is."""

    def work(turn: int) -> None:
        try:
            sock = dial(plan, plan.url(turn))
            talk(plan, sock, plan.url(turn))
            sock.close()
        except WIRE_ERRORS:
            return

    repeat(plan, lambda _turn: together(plan.burst, work), WIRE_ERRORS)


def slow_reader(plan: Plan) -> None:
    """Reads every answer in small pieces with pauses, so that the receive window shuts."""

    def call(turn: int) -> None:
        parts = urlsplit(plan.url(turn))
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
        sock.connect((parts.hostname, parts.port))
        sock.sendall(b"".join(message(plan, plan.url(turn))))
        answer = http.client.HTTPResponse(sock)
        answer.begin()
        while answer.read(plan.read_bytes):
            time.sleep(plan.pause_s)

    repeat(plan, call, WIRE_ERRORS)


def nagle(plan: Plan) -> None:
    """Sends head and body in two small writes on one connection, without TCP_NODELAY."""
    parts = urlsplit(plan.url(0))
    raw = socket.create_connection((parts.hostname, parts.port), timeout=plan.timeout_s)
    sock = unverified().wrap_socket(raw) if parts.scheme == "https" else raw

    def call(turn: int) -> None:
        for piece in message(plan, plan.url(turn)):
            sock.sendall(piece)
        answer = http.client.HTTPResponse(sock)
        answer.begin()
        answer.read()

    repeat(plan, call, WIRE_ERRORS)


def impatient(plan: Plan) -> None:
    """Gives up after `timeout_s` without an answer, and tries again on a new connection."""

    def call(turn: int) -> None:
        sock = dial(plan, plan.url(turn))
        try:
            talk(plan, sock, plan.url(turn))
        finally:
            sock.close()

    repeat(plan, call, WIRE_ERRORS)


def processes(plan: Plan) -> None:
    """Starts a `curl` process for every call."""
    for turn in range(plan.calls):
        command = ["curl", "-sk", "-o", "/dev/null", "--data-binary", "@-", plan.url(turn)]
        subprocess.run(command, input=plan.body, check=False)
        time.sleep(plan.gap_s)


def eyeballs(plan: Plan) -> None:
    """Tries the first address, the second one `pause_s` later, and talks to whichever answers, once per connection."""

    def call(_turn: int) -> None:
        first = start(plan.urls[0])
        if not selected(first, plan.pause_s):
            second = start(plan.urls[1])
            if not selected(second, plan.timeout_s):
                raise TimeoutError
            first.close()
            first = second
        first.setblocking(True)
        talk(plan, first, plan.urls[1])
        kept.append(first)

    kept: list[socket.socket] = []
    repeat(plan, call, WIRE_ERRORS)


def start(url: str) -> socket.socket:
    """Begin a connect and return at once."""
    parts = urlsplit(url)
    sock = socket.socket(socket.AF_INET6 if ":" in (parts.hostname or "") else socket.AF_INET)
    sock.setblocking(False)
    sock.connect_ex((parts.hostname, parts.port))
    return sock


def selected(sock: socket.socket, timeout: float) -> bool:
    """Whether a connect that was begun has ended well within the time."""
    _, ready, _ = select.select([], [sock], [], timeout)
    return bool(ready) and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0


def resuming(plan: Plan) -> None:
    """A connection for every call that offers the TLS session of the one before."""
    context = unverified()
    session: ssl.SSLSession | None = None

    def call(turn: int) -> None:
        nonlocal session
        parts = urlsplit(plan.url(turn))
        raw = socket.create_connection((parts.hostname, parts.port), timeout=plan.timeout_s)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock = context.wrap_socket(raw, session=session)
        talk(plan, sock, plan.url(turn))
        session = sock.session
        sock.close()

    repeat(plan, call, WIRE_ERRORS)


def late_finish(plan: Plan) -> None:
    """A connection for every call; the program is busy for `pause_s` while the server's answer to its hello waits."""

    def call(turn: int) -> None:
        parts = urlsplit(plan.url(turn))
        raw = socket.create_connection((parts.hostname, parts.port), timeout=plan.timeout_s)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        raw.setblocking(False)
        sock = unverified().wrap_socket(raw, do_handshake_on_connect=False)
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            select.select([sock], [], [], plan.timeout_s)
            time.sleep(plan.pause_s)
        sock.setblocking(True)
        sock.do_handshake()
        talk(plan, sock, plan.url(turn))
        sock.close()

    repeat(plan, call, WIRE_ERRORS)


def distrusting(plan: Plan) -> None:
    """A connection for every call, given up because nobody vouches for the server's certificate."""
    context = ssl.create_default_context()

    def call(turn: int) -> None:
        parts = urlsplit(plan.url(turn))
        with socket.create_connection((parts.hostname, parts.port), timeout=plan.timeout_s) as raw:
            context.wrap_socket(raw, server_hostname="localhost")

    repeat(plan, call, WIRE_ERRORS)


def crumbs(plan: Plan) -> None:
    """One connection whose TLS is fed with `read_bytes` at a time."""
    parts = urlsplit(plan.url(0))
    sock = socket.create_connection((parts.hostname, parts.port), timeout=plan.timeout_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    came, goes = ssl.MemoryBIO(), ssl.MemoryBIO()
    secure = unverified().wrap_bio(came, goes)

    def finish(step: Callable[[], T]) -> T:
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                sock.sendall(goes.read())
                came.write(sock.recv(plan.read_bytes))

    def call(turn: int) -> None:
        secure.write(b"".join(message(plan, plan.url(turn))))
        sock.sendall(goes.read())
        answer = b""
        while not answer.endswith(b"\r\n0\r\n\r\n"):
            answer += finish(lambda: secure.read(65536))

    finish(secure.do_handshake)
    sock.sendall(goes.read())
    repeat(plan, call, WIRE_ERRORS)
    sock.close()


def some_compressed(plan: Plan) -> None:
    """One connection; `bad_calls` of the bodies go out as they are, the others, which come first, compressed."""
    parts = urlsplit(plan.url(0))
    connection = http.client.HTTPSConnection(
        parts.hostname or "", parts.port, timeout=plan.timeout_s, context=unverified()
    )

    def call(turn: int) -> None:
        headers, body = {"Content-Type": "application/json"}, plan.body
        if turn < plan.calls - plan.bad_calls:
            headers, body = {**headers, "Content-Encoding": "gzip"}, gzip.compress(body)
        connection.request("POST", urlsplit(plan.url(turn)).path, body=body, headers=headers)
        connection.getresponse().read()

    repeat(plan, call, WIRE_ERRORS)


RARE: dict[str, Callable[[Plan], None]] = {
    "crumbs": crumbs,
    "some_compressed": some_compressed,
    "cold_burst": cold_burst,
    "fork_shared": fork_shared,
    "fork_separate": fork_separate,
    "frozen": frozen,
    "hold": hold,
    "try_connect": try_connect,
    "call_fresh": call_fresh,
    "slow_reader": slow_reader,
    "nagle": nagle,
    "impatient": impatient,
    "processes": processes,
    "eyeballs": eyeballs,
    "resuming": resuming,
    "late_finish": late_finish,
    "distrusting": distrusting,
}
