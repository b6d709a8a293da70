# SPDX-License-Identifier: Apache-2.0
"""Habits of programs on the openai package."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from typing import Any

from .plan import Plan, repeat

__all__ = ["HABITS"]

httpx: Any = importlib.import_module("httpx")
openai: Any = importlib.import_module("openai")
FAILURES = (openai.OpenAIError,)


def client_of(plan: Plan) -> Any:
    """Return a client for the lab's API with the package's own limits."""
    http = openai.DefaultHttpxClient(verify=False)
    return openai.OpenAI(base_url=base(plan), api_key="lab-key", http_client=http, max_retries=0)


def base(plan: Plan) -> str:
    """The part of the URL that the package wants."""
    return plan.url(0).split("/chat/")[0]


def ask(plan: Plan, client: Any) -> Any:
    """One completion, streamed if the plan says so."""
    messages = plan.payload["messages"]
    return client.chat.completions.create(model="lab", messages=messages, stream=plan.stream)


def complete(plan: Plan, client: Any) -> None:
    """Ask and take the whole answer as the package's users do."""
    answer = ask(plan, client)
    if plan.stream:
        for _event in answer:
            pass


def per_call(plan: Plan) -> None:
    """A client for every call."""

    def call(_turn: int) -> None:
        with client_of(plan) as client:
            complete(plan, client)

    repeat(plan, call, FAILURES)


def session(plan: Plan) -> None:
    """One client; with `stream`, the package's own early close shows."""
    client = client_of(plan)
    repeat(plan, lambda _turn: complete(plan, client), FAILURES)


def async_session(plan: Plan) -> None:
    """One AsyncOpenAI client."""

    async def main() -> None:
        http = openai.DefaultAsyncHttpxClient(verify=False)
        client = openai.AsyncOpenAI(base_url=base(plan), api_key="lab-key", http_client=http, max_retries=0)
        for _ in range(plan.calls):
            answer = await ask(plan, client)
            if plan.stream:
                async for _event in answer:
                    await asyncio.sleep(0)
            await asyncio.sleep(plan.gap_s)

    asyncio.run(main())


def loops(plan: Plan) -> None:
    """One AsyncOpenAI client, and an event loop for every call."""
    http = openai.DefaultAsyncHttpxClient(verify=False)
    client = openai.AsyncOpenAI(base_url=base(plan), api_key="lab-key", http_client=http, max_retries=0)

    async def once() -> None:
        answer = await ask(plan, client)
        if plan.stream:
            async for _event in answer:
                await asyncio.sleep(0)

    repeat(plan, lambda _turn: asyncio.run(once()), (*FAILURES, RuntimeError))


HABITS: dict[str, Callable[[Plan], None]] = {
    "per_call": per_call,
    "session": session,
    "stream_early": session,
    "async_session": async_session,
    "async_stream": async_session,
    "loops": loops,
}
