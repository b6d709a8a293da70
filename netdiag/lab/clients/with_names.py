# SPDX-License-Identifier: Apache-2.0
"""Habits of programs that look names up, on what every Python has."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from .plan import Plan, repeat
from .with_stdlib import Keeper
from .with_stdlib_rare import WIRE_ERRORS

__all__ = ["HABITS"]


def asks_each_time(plan: Plan) -> None:
    """One connection per URL, yet before each call the name is looked up, as programs do that watch for a move."""
    keepers = {url: Keeper(plan, url) for url in plan.urls}

    def call(turn: int) -> None:
        parts = urlsplit(plan.url(turn))
        socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
        keepers[plan.url(turn)].call()

    repeat(plan, call, WIRE_ERRORS)


def optional(plan: Plan) -> None:
    """One connection to the first host; each other host is looked up once, and may not exist."""
    for url in plan.urls[1:]:
        with contextlib.suppress(OSError):
            socket.getaddrinfo(urlsplit(url).hostname, 80, type=socket.SOCK_STREAM)
    keeper = Keeper(plan, plan.urls[0])
    repeat(plan, lambda _turn: keeper.call(), WIRE_ERRORS)


def rotates(plan: Plan) -> None:
    """Looks the name up for each call and keeps a connection per address; the last one, for the C library sorts."""
    keepers: dict[str, Keeper] = {}

    def call(turn: int) -> None:
        parts = urlsplit(plan.url(turn))
        found = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
        address = str(found[-1][4][0])
        url = parts._replace(netloc=f"{address}:{parts.port}").geturl()
        keepers.setdefault(address, Keeper(plan, url)).call()

    repeat(plan, call, WIRE_ERRORS)
    time.sleep(plan.pause_s)


HABITS: dict[str, Callable[[Plan], None]] = {"asks_each_time": asks_each_time, "optional": optional, "rotates": rotates}
