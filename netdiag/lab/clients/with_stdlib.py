# SPDX-License-Identifier: Apache-2.0
"""Habits of programs on `http.client`, for a machine that has nothing but Python."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from .plan import Plan, repeat, together, unverified
from .with_stdlib_rare import RARE, WIRE_ERRORS

__all__ = ["HABITS", "Keeper"]

HEADERS = {"Content-Type": "application/json"}


class Keeper:
    """A connection that is kept for the next call, and replaced when it is gone or has been idle for too long."""

    def __init__(self, plan: Plan, url: str, *, expiry_s: float | None = None) -> None:
        self.plan = plan
        self.url = url
        self.expiry_s = expiry_s
        self.context = unverified() if url.startswith("https") else None
        self.connection = connect(plan, url, self.context)
        self.used = time.monotonic()

    def call(self) -> bytes:
        """Post once and read the whole answer."""
        if self.expiry_s is not None and time.monotonic() - self.used >= self.expiry_s:
            self.connection.close()
        try:
            answer = post(self.plan, self.connection, self.url)
            data = answer.read()
        except WIRE_ERRORS:
            self.connection.close()  # http.client opens a new one at the next request
            raise
        self.used = time.monotonic()
        return data


def connect(plan: Plan, url: str, context: ssl.SSLContext | None) -> http.client.HTTPConnection:
    """Return an `http.client` connection for the URL; it opens at its first request."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    if parts.scheme == "https":
        return http.client.HTTPSConnection(host, port, timeout=plan.timeout_s, context=context or unverified())
    return http.client.HTTPConnection(host, port, timeout=plan.timeout_s)


def post(plan: Plan, connection: http.client.HTTPConnection, url: str, **extra: str) -> http.client.HTTPResponse:
    """Send one chat request and return the answer, its body unread."""
    connection.request("POST", urlsplit(url).path, body=plan.body, headers={**HEADERS, **extra})
    return connection.getresponse()


def per_call(plan: Plan) -> None:
    """A connection for every call; with `bad_calls`, only that many of the calls, the rest share one."""
    keeper = Keeper(plan, plan.url(0))

    def call(turn: int) -> None:
        if plan.bad_calls and turn >= plan.bad_calls:
            keeper.call()
            return
        connection = connect(plan, plan.url(turn), None)
        post(plan, connection, plan.url(turn)).read()
        connection.close()

    repeat(plan, call, WIRE_ERRORS)


def session(plan: Plan) -> None:
    """One connection per URL for all calls, opened again where the server closed it."""
    keepers = {url: Keeper(plan, url) for url in plan.urls}
    repeat(plan, lambda turn: retried(keepers[plan.url(turn)]), WIRE_ERRORS)


def retried(keeper: Keeper) -> None:
    """Look at the connection before it is used, as pools do, and call."""
    sock = keeper.connection.sock
    if sock is not None and closed_by_peer(sock):
        keeper.connection.close()
    keeper.call()


def closed_by_peer(sock: Any) -> bool:
    """Whether an idle socket has something to read, which can only be the end."""
    sock.setblocking(False)
    try:
        return bool(sock.recv(1) == b"")
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True
    finally:
        sock.setblocking(True)


def blind_session(plan: Plan) -> None:
    """One connection for all calls, written to without a look, as `http.client` itself does."""
    keeper = Keeper(plan, plan.url(0))
    repeat(plan, lambda _turn: keeper.call(), WIRE_ERRORS)


def probed_session(plan: Plan) -> None:
    """The same on a socket that sends keep-alive probes after each second of silence."""
    keeper = Keeper(plan, plan.url(0))
    keeper.connection.connect()
    sock = keeper.connection.sock
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL):
        sock.setsockopt(socket.IPPROTO_TCP, option, 1)
    repeat(plan, lambda _turn: keeper.call(), WIRE_ERRORS)


def idle_expiry(plan: Plan) -> None:
    """One connection that the client drops at the next call when it has been idle for `expiry_s`."""
    keeper = Keeper(plan, plan.url(0), expiry_s=plan.expiry_s)
    repeat(plan, lambda _turn: keeper.call(), WIRE_ERRORS)


def timed_expiry(plan: Plan) -> None:
    """One connection that a timer closes after `expiry_s` without use."""
    keeper = Keeper(plan, plan.url(0))
    for _ in range(plan.calls):
        with contextlib.suppress(*WIRE_ERRORS):
            keeper.call()
        time.sleep(min(plan.expiry_s, plan.gap_s))
        if plan.gap_s > plan.expiry_s:
            keeper.connection.close()
            time.sleep(plan.gap_s - plan.expiry_s)


def shared_threads(plan: Plan) -> None:
    """One connection that the threads hand on to one another."""
    keeper = Keeper(plan, plan.url(0))
    repeat(plan, lambda _turn: together(1, lambda _n: keeper.call()), WIRE_ERRORS)


def threads(plan: Plan) -> None:
    """A connection for every thread; the threads run one after another."""
    repeat(plan, lambda turn: together(1, lambda _n: Keeper(plan, plan.url(turn)).call()), WIRE_ERRORS)


def thread_clients(plan: Plan) -> None:
    """`burst` threads at once, each with a connection of its own that it uses `calls` times."""

    def work(_number: int) -> None:
        keeper = Keeper(plan, plan.url(0))
        repeat(plan, lambda _turn: keeper.call(), WIRE_ERRORS)

    together(plan.burst, work)


def burst(plan: Plan) -> None:
    """Bursts of parallel calls; `keep` connections are kept for the next burst, the surplus is closed."""
    kept: list[Keeper] = []

    def call(_turn: int) -> None:
        while len(kept) < plan.burst:
            kept.append(Keeper(plan, plan.url(0)))
        together(plan.burst, lambda number: kept[number].call())
        for surplus in kept[plan.keep :]:
            surplus.connection.close()
        del kept[plan.keep :]

    repeat(plan, call, WIRE_ERRORS)


def ebb(plan: Plan) -> None:
    """Waves of ever fewer calls at a time, so that `keep` kept connections have been idle for different times."""
    kept = [Keeper(plan, plan.url(0)) for _ in range(plan.keep)]
    for _ in range(plan.calls):
        for gone in range(plan.keep):
            together(plan.keep - gone, lambda number: quietly(kept[number]))
            time.sleep(plan.gap_s)
        time.sleep(plan.pause_s)


def quietly(keeper: Keeper) -> None:
    """Call, and pass over a connection that broke."""
    with contextlib.suppress(*WIRE_ERRORS):
        retried(keeper)


def pool_split(plan: Plan) -> None:
    """A pool per setting, `keep` of them, all to one host, used in turn and never shared."""
    keepers = [Keeper(plan, plan.url(0)) for _ in range(plan.keep)]
    repeat(plan, lambda turn: keepers[turn % len(keepers)].call(), WIRE_ERRORS)
    time.sleep(plan.pause_s)


def stream_early(plan: Plan) -> None:
    """Reads a stream to `[DONE]` and closes: the end of the body is never read."""
    context = unverified()  # one for all, as a client object has it

    def call(turn: int) -> None:
        connection = connect(plan, plan.url(turn), context)
        read_until_done(post(plan, connection, plan.url(turn)))
        connection.close()

    repeat(plan, call, WIRE_ERRORS)


def read_until_done(answer: http.client.HTTPResponse) -> None:
    """Read lines to the last event, not to the end of the body."""
    for line in answer:
        if line.startswith(b"data: [DONE]"):
            return


def unread(plan: Plan) -> None:
    """Looks at the status, leaves the body unread and the connection open."""
    left: list[http.client.HTTPResponse] = []

    def call(turn: int) -> None:
        left.append(post(plan, connect(plan, plan.url(turn), None), plan.url(turn)))

    repeat(plan, call, WIRE_ERRORS)
    time.sleep(plan.pause_s)


def unread_closed(plan: Plan) -> None:
    """Looks at the status and closes with the body unread; with `bad_calls`, only of that many."""
    keeper = Keeper(plan, plan.url(0))

    def call(turn: int) -> None:
        if plan.bad_calls and turn >= plan.bad_calls:
            keeper.call()
            return
        connection = connect(plan, plan.url(turn), None)
        post(plan, connection, plan.url(turn))
        time.sleep(plan.pause_s)
        connection.close()

    repeat(plan, call, WIRE_ERRORS)


def cancelled(plan: Plan) -> None:
    """Reads some of each answer and closes in the middle of it; with `bad_calls`, only of that many."""
    keeper = Keeper(plan, plan.url(0))

    def call(turn: int) -> None:
        if plan.bad_calls and turn >= plan.bad_calls:
            keeper.call()
            return
        connection = connect(plan, plan.url(turn), None)
        post(plan, connection, plan.url(turn)).read(plan.read_bytes)
        time.sleep(plan.pause_s)
        connection.close()

    repeat(plan, call, WIRE_ERRORS)


def asks_close(plan: Plan) -> None:
    """Sends `Connection: close` with every call."""

    def call(turn: int) -> None:
        connection = connect(plan, plan.url(turn), None)
        post(plan, connection, plan.url(turn), Connection="close").read()
        connection.close()

    repeat(plan, call, WIRE_ERRORS)


HABITS: dict[str, Callable[[Plan], None]] = {
    "per_call": per_call,
    "session": session,
    "blind_session": blind_session,
    "probed_session": probed_session,
    "idle_expiry": idle_expiry,
    "timed_expiry": timed_expiry,
    "shared_threads": shared_threads,
    "threads": threads,
    "thread_clients": thread_clients,
    "burst": burst,
    "ebb": ebb,
    "pool_split": pool_split,
    "stream_early": stream_early,
    "unread": unread,
    "unread_closed": unread_closed,
    "cancelled": cancelled,
    "asks_close": asks_close,
    **RARE,
}
