# SPDX-License-Identifier: Apache-2.0
"""Habits of programs on httpx."""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Callable
from typing import Any

from .plan import Plan, repeat, take, together

__all__ = ["HABITS"]

httpx: Any = importlib.import_module("httpx")
FAILURES = (httpx.HTTPError, httpx.StreamError)


def options(plan: Plan) -> dict[str, Any]:
    """Return the arguments that every client is made with."""
    limits = httpx.Limits(keepalive_expiry=plan.expiry_s, max_keepalive_connections=plan.keep)
    return {"verify": False, "limits": limits, "timeout": plan.timeout_s}


def per_call(plan: Plan) -> None:
    """`httpx.post` for every call; with `bad_calls`, only that many, the rest go through one Client."""
    with httpx.Client(**options(plan)) as client:

        def call(turn: int) -> None:
            if plan.bad_calls and turn >= plan.bad_calls:
                client.post(plan.url(turn), json=plan.payload).read()
            else:
                httpx.post(plan.url(turn), json=plan.payload, verify=False).read()

        repeat(plan, call, FAILURES)


def session(plan: Plan) -> None:
    """One Client."""
    with httpx.Client(**options(plan)) as client:
        repeat(plan, lambda turn: client.post(plan.url(turn), json=plan.payload).read(), FAILURES)


def thread_clients(plan: Plan) -> None:
    """`burst` threads at once, each with a Client of its own."""
    together(plan.burst, lambda _n: session(plan))


def burst(plan: Plan) -> None:
    """One AsyncClient that keeps `keep` connections, with `burst` calls at once."""

    async def main() -> None:
        async with httpx.AsyncClient(**options(plan)) as client:
            for turn in range(plan.calls):
                calls = (client.post(plan.url(turn), json=plan.payload) for _ in range(plan.burst))
                await asyncio.gather(*calls)
                await asyncio.sleep(plan.gap_s)

    asyncio.run(main())


def async_stream(plan: Plan) -> None:
    """One AsyncClient that reads every stream to its end."""

    async def main() -> None:
        async with httpx.AsyncClient(**options(plan)) as client:
            for turn in range(plan.calls):
                async with client.stream("POST", plan.url(turn), json=plan.payload) as answer:
                    async for _line in answer.aiter_lines():
                        await asyncio.sleep(0)
                await asyncio.sleep(plan.gap_s)

    asyncio.run(main())


def loops(plan: Plan) -> None:
    """One AsyncClient, and an event loop for every `burst` calls."""
    client = httpx.AsyncClient(**options(plan))

    async def several() -> None:
        for turn in range(plan.burst):
            await client.post(plan.url(turn), json=plan.payload)

    repeat(plan, lambda _turn: asyncio.run(several()), (*FAILURES, RuntimeError))


def blocked_loop(plan: Plan) -> None:
    """One AsyncClient with `burst` streams at once, and a loop that sleeps `pause_s` in the midst of them."""

    async def read(client: Any, turn: int, *, blocks: bool) -> None:
        async with client.stream("POST", plan.url(turn), json=plan.payload) as answer:
            line = 0
            async for text in answer.aiter_lines():
                line += bool(text)
                if blocks and text and line == plan.pause_at:
                    time.sleep(plan.pause_s)  # noqa: ASYNC251 - the fault: nobody else runs

    async def main() -> None:
        async with httpx.AsyncClient(**options(plan)) as client:
            for turn in range(plan.calls):
                await asyncio.gather(*(read(client, turn, blocks=not number) for number in range(plan.burst)))
                await asyncio.sleep(plan.gap_s)

    asyncio.run(main())


def busy_streams(plan: Plan) -> None:
    """One AsyncClient with `burst` streams at once, and work of `pause_s` for every line."""

    async def read(client: Any, turn: int) -> None:
        async with client.stream("POST", plan.url(turn), json=plan.payload) as answer:
            async for _text in answer.aiter_lines():
                until = time.thread_time() + plan.pause_s
                while time.thread_time() < until:
                    pass

    async def main() -> None:
        async with httpx.AsyncClient(**options(plan)) as client:
            for turn in range(plan.calls):
                await asyncio.gather(*(read(client, turn) for _ in range(plan.burst)))
                await asyncio.sleep(plan.gap_s)

    asyncio.run(main())


def h2_burst(plan: Plan) -> None:
    """One AsyncClient that speaks HTTP/2, with `burst` calls at once; streams are read to their end."""

    async def read(client: Any, turn: int) -> None:
        async with client.stream("POST", plan.url(turn), json=plan.payload) as answer:
            async for _piece in answer.aiter_bytes():
                await asyncio.sleep(0)

    async def main() -> None:
        async with httpx.AsyncClient(http2=True, **options(plan)) as client:
            for turn in range(plan.calls):
                calls = (read(client, turn) for _ in range(plan.burst))
                await asyncio.gather(*calls, return_exceptions=True)
                await asyncio.sleep(plan.gap_s)

    asyncio.run(main())


def cancelled(plan: Plan) -> None:
    """One Client that leaves every stream after its first bytes."""
    with httpx.Client(**options(plan)) as client:

        def call(turn: int) -> None:
            with client.stream("POST", plan.url(turn), json=plan.payload) as answer:
                pieces = answer.iter_raw()  # held, for its end is the answer's end
                take(pieces, plan.read_bytes)
                time.sleep(plan.pause_s)

        repeat(plan, call, FAILURES)


HABITS: dict[str, Callable[[Plan], None]] = {
    "per_call": per_call,
    "session": session,
    "idle_expiry": session,
    "thread_clients": thread_clients,
    "burst": burst,
    "async_stream": async_stream,
    "blocked_loop": blocked_loop,
    "busy_streams": busy_streams,
    "h2_burst": h2_burst,
    "cancelled": cancelled,
    "loops": loops,
}
