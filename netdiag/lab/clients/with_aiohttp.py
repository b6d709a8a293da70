# SPDX-License-Identifier: Apache-2.0
"""Habits of programs on aiohttp."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from collections.abc import Callable
from typing import Any

from .plan import Plan

__all__ = ["HABITS"]

aiohttp: Any = importlib.import_module("aiohttp")


def session_of(plan: Plan) -> Any:
    """Return a session whose connections live for `expiry_s` without use."""
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False, keepalive_timeout=plan.expiry_s))


async def post(plan: Plan, session: Any, turn: int) -> None:
    """Post once and read the whole answer."""
    with contextlib.suppress(aiohttp.ClientError):
        async with session.post(plan.url(turn), json=plan.payload) as answer:
            await answer.read()


def per_call(plan: Plan) -> None:
    """A session for every call."""

    async def main() -> None:
        for turn in range(plan.calls):
            async with session_of(plan) as session:
                await post(plan, session, turn)
            await asyncio.sleep(plan.gap_s)

    asyncio.run(main())


def session(plan: Plan) -> None:
    """One session for all calls."""

    async def main() -> None:
        async with session_of(plan) as shared:
            for turn in range(plan.calls):
                await post(plan, shared, turn)
                await asyncio.sleep(plan.gap_s)

    asyncio.run(main())


def burst(plan: Plan) -> None:
    """One session with `burst` calls at once."""

    async def main() -> None:
        async with session_of(plan) as shared:
            for turn in range(plan.calls):
                await asyncio.gather(*(post(plan, shared, turn) for _ in range(plan.burst)))
                await asyncio.sleep(plan.gap_s)

    asyncio.run(main())


def async_stream(plan: Plan) -> None:
    """One session that reads every stream to its end."""

    async def main() -> None:
        async with session_of(plan) as shared:
            for turn in range(plan.calls):
                async with shared.post(plan.url(turn), json=plan.payload) as answer:
                    async for _piece in answer.content.iter_any():
                        await asyncio.sleep(0)
                await asyncio.sleep(plan.gap_s)

    asyncio.run(main())


HABITS: dict[str, Callable[[Plan], None]] = {
    "per_call": per_call,
    "session": session,
    "timed_expiry": session,
    "burst": burst,
    "async_stream": async_stream,
}
