# SPDX-License-Identifier: Apache-2.0
"""Habits of programs on requests."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

from .plan import Plan, repeat, take, together

__all__ = ["HABITS"]

requests: Any = importlib.import_module("requests")
FAILURES = (requests.RequestException,)


def post(plan: Plan, turn: int, via: Any = requests, **options: Any) -> Any:
    """Post once through the module or a session."""
    return via.post(plan.url(turn), json=plan.payload, verify=False, timeout=plan.timeout_s, **options)


def per_call(plan: Plan) -> None:
    """`requests.post` for every call; with `bad_calls`, only that many, the rest go through one Session."""
    session = requests.Session()
    good = plan.bad_calls or plan.calls
    repeat(plan, lambda turn: post(plan, turn, requests if turn < good else session).content, FAILURES)


def session(plan: Plan) -> None:
    """One Session."""
    shared = requests.Session()
    repeat(plan, lambda turn: post(plan, turn, shared).content, FAILURES)


def unread(plan: Plan) -> None:
    """Streamed answers whose bodies nobody reads or closes."""
    shared, left = requests.Session(), []
    repeat(plan, lambda turn: left.append(post(plan, turn, shared, stream=True)), FAILURES)
    time.sleep(plan.pause_s)


def unread_closed(plan: Plan) -> None:
    """Streamed answers that are closed with the body unread."""
    shared = requests.Session()

    def call(turn: int) -> None:
        answer = post(plan, turn, shared, stream=True)
        time.sleep(plan.pause_s)
        answer.close()

    repeat(plan, call, FAILURES)


def cancelled(plan: Plan) -> None:
    """Leaves every answer after its first bytes."""
    shared = requests.Session()

    def call(turn: int) -> None:
        answer = post(plan, turn, shared, stream=True)
        pieces = answer.iter_content(plan.read_bytes)  # held, for its end is the answer's end
        take(pieces, plan.read_bytes)
        time.sleep(plan.pause_s)
        answer.close()

    repeat(plan, call, FAILURES)


def threads(plan: Plan) -> None:
    """A Session for every thread, used once."""
    repeat(plan, lambda turn: together(1, lambda _n: post(plan, turn, requests.Session()).content), FAILURES)


def thread_clients(plan: Plan) -> None:
    """`burst` threads at once, each with a Session of its own."""
    together(plan.burst, lambda _n: session(plan))


def burst(plan: Plan) -> None:
    """One Session whose pool keeps `keep` connections, used by `burst` threads at once."""
    shared = requests.Session()
    for scheme in ("https://", "http://"):
        shared.mount(scheme, requests.adapters.HTTPAdapter(pool_maxsize=plan.keep))
    repeat(plan, lambda turn: together(plan.burst, lambda _n: post(plan, turn, shared).content), FAILURES)


def small_pool(plan: Plan) -> None:
    """One Session whose pool has `keep` connections and lets `burst` threads wait for them."""
    shared = requests.Session()
    for scheme in ("https://", "http://"):
        shared.mount(scheme, requests.adapters.HTTPAdapter(pool_maxsize=plan.keep, pool_block=True))
    together(plan.burst, lambda _n: repeat(plan, lambda turn: post(plan, turn, shared).content, FAILURES))


def proxied_per_call(plan: Plan) -> None:
    """`requests.post` through a proxy for every call."""
    proxies = {"https": plan.proxy}
    repeat(plan, lambda turn: post(plan, turn, proxies=proxies).content, FAILURES)


def proxied_session(plan: Plan) -> None:
    """One Session through a proxy."""
    shared = requests.Session()
    shared.proxies = {"https": plan.proxy}
    repeat(plan, lambda turn: post(plan, turn, shared).content, FAILURES)


HABITS: dict[str, Callable[[Plan], None]] = {
    "per_call": per_call,
    "session": session,
    "unread": unread,
    "unread_closed": unread_closed,
    "cancelled": cancelled,
    "threads": threads,
    "thread_clients": thread_clients,
    "burst": burst,
    "small_pool": small_pool,
    "async_stream": session,
    "proxied_per_call": proxied_per_call,
    "proxied_session": proxied_session,
}
