# SPDX-License-Identifier: Apache-2.0
"""Habits of programs that try again: by tenacity, by a client library's own means, and by loops of their own."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import random
import time
import urllib.parse
from collections.abc import Callable
from typing import Any

from .plan import Plan, repeat, unverified

__all__ = ["HABITS"]

aiohttp: Any = importlib.import_module("aiohttp")
aiohttp_retry: Any = importlib.import_module("aiohttp_retry")
httpx: Any = importlib.import_module("httpx")
openai: Any = importlib.import_module("openai")
requests: Any = importlib.import_module("requests")
tenacity: Any = importlib.import_module("tenacity")
urllib3: Any = importlib.import_module("urllib3")

PARENT = os.getpid()
STATUSES = (429, 500, 502, 503, 504)
FAILURES = (
    openai.OpenAIError, urllib3.exceptions.HTTPError, requests.RequestException, httpx.HTTPError, tenacity.RetryError,
)  # fmt: skip


def base(plan: Plan) -> str:
    """Return the part of the URL that the openai package wants."""
    return plan.url(0).split("/chat/")[0]


def sdk(plan: Plan) -> None:
    """The openai package with its own retries."""
    http = openai.DefaultHttpxClient(verify=False)
    client = openai.OpenAI(
        base_url=base(plan), api_key="lab-key", http_client=http, max_retries=plan.tries - 1, timeout=plan.timeout_s
    )
    messages = plan.payload["messages"]
    repeat(plan, lambda _turn: client.chat.completions.create(model="lab", messages=messages), FAILURES)


def sdk_nested(plan: Plan) -> None:
    """The openai package with its own retries, in a loop that tries again."""
    http = openai.DefaultHttpxClient(verify=False)
    client = openai.OpenAI(
        base_url=base(plan), api_key="lab-key", http_client=http, max_retries=2, timeout=plan.timeout_s
    )
    again = tenacity.Retrying(stop=tenacity.stop_after_attempt(plan.tries), wait=tenacity.wait_none())
    messages = plan.payload["messages"]
    repeat(plan, lambda _turn: again(client.chat.completions.create, model="lab", messages=messages), FAILURES)


def _retry(plan: Plan) -> Any:
    return urllib3.Retry(
        total=plan.tries - 1, backoff_factor=plan.pause_s, status_forcelist=STATUSES, allowed_methods=None
    )


def pool(plan: Plan) -> None:
    """urllib3 with a Retry."""
    manager = urllib3.PoolManager(cert_reqs="CERT_NONE", retries=_retry(plan), timeout=plan.timeout_s)
    repeat(plan, lambda turn: manager.request("POST", plan.url(turn), body=plan.body), FAILURES)


def adapter(plan: Plan) -> None:
    """A requests session with a Retry in its adapter."""
    session = requests.Session()
    for scheme in ("https://", "http://"):
        session.mount(scheme, requests.adapters.HTTPAdapter(max_retries=_retry(plan)))
    options = {"verify": False, "timeout": plan.timeout_s}
    repeat(plan, lambda turn: session.post(plan.url(turn), json=plan.payload, **options), FAILURES)


class Again(httpx.HTTPTransport):  # type: ignore[misc]
    """A transport of httpx that asks again, with pauses that double."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(verify=False)
        self.plan = plan

    def handle_request(self, request: Any) -> Any:
        """Ask until the answer is no error, or often enough."""
        for turn in range(self.plan.tries):
            answer = super().handle_request(request)
            if answer.status_code not in STATUSES or turn == self.plan.tries - 1:
                break
            answer.read()
            time.sleep(self.plan.pause_s * 2**turn)
        return answer


def transport(plan: Plan) -> None:
    """A client of httpx with that transport."""
    with httpx.Client(transport=Again(plan), timeout=plan.timeout_s) as client:
        repeat(plan, lambda turn: client.post(plan.url(turn), json=plan.payload), FAILURES)


def loop(plan: Plan) -> None:
    """A tenacity loop around httpx, with pauses that double."""
    pauses = tenacity.wait_exponential(multiplier=plan.pause_s, min=0)
    again = tenacity.Retrying(stop=tenacity.stop_after_attempt(plan.tries), wait=pauses)
    with httpx.Client(verify=False, timeout=plan.timeout_s) as client:

        def call(turn: int) -> None:
            client.post(plan.url(turn), json=plan.payload).raise_for_status()

        repeat(plan, lambda turn: again(call, turn), FAILURES)


def client_retry(plan: Plan) -> None:
    """aiohttp-retry with pauses that double."""

    async def work() -> None:
        options = aiohttp_retry.ExponentialRetry(
            attempts=plan.tries, start_timeout=plan.pause_s, statuses=set(STATUSES), retry_all_server_errors=True
        )
        connector = aiohttp.TCPConnector(ssl=False)
        async with aiohttp_retry.RetryClient(retry_options=options, connector=connector) as client:
            for turn in range(plan.calls):
                if turn:
                    await asyncio.sleep(plan.gap_s)
                async with client.post(plan.url(turn), json=plan.payload) as answer:
                    await answer.read()

    asyncio.run(work())


def hammer(plan: Plan) -> None:
    """A loop that asks again at once."""
    session = requests.Session()

    def call(turn: int) -> None:
        for _ in range(plan.tries):
            answer = session.post(plan.url(turn), json=plan.payload, verify=False, timeout=plan.timeout_s)
            if answer.status_code < 400:
                return
            time.sleep(plan.pause_s)

    repeat(plan, call, FAILURES)


def impatient(plan: Plan) -> None:
    """A loop around requests whose timeout is short."""
    session = requests.Session()
    again = tenacity.Retrying(stop=tenacity.stop_after_attempt(plan.tries), wait=tenacity.wait_fixed(plan.pause_s))
    options = {"verify": False, "timeout": plan.timeout_s}
    repeat(plan, lambda turn: again(session.post, plan.url(turn), json=plan.payload, **options), FAILURES)


def abandon(plan: Plan) -> None:
    """Says goodbye in TLS without an answer, each time after another time, and goes on; `bad_calls`, if set, do so."""
    bad = plan.bad_calls or plan.calls
    secure = unverified() if plan.url(0).startswith("https:") else None

    async def call(turn: int) -> None:
        parts = urllib.parse.urlsplit(plan.url(turn))
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=secure)
        head = f"POST {parts.path} HTTP/1.1\r\nHost: lab\r\nContent-Length: {len(plan.body)}\r\n\r\n"
        writer.write(head.encode() + plan.body)
        limit = plan.timeout_s * (1 + 0.4 * turn) if turn < bad else 60.0
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(reader.read(65536), limit)
        writer.close()  # and the event loop waits for the server's goodbye, half a minute at most

    async def work() -> None:
        for turn in range(plan.calls):
            await call(turn)
            await asyncio.sleep(plan.gap_s)

    asyncio.run(work())


def in_step(plan: Plan) -> None:
    """`burst` processes that call at one time and ask again after one pause, longer or shorter by the jitter."""
    begin = time.monotonic() + 1.5
    children = [os.fork() for _ in range(plan.burst) if os.getpid() == PARENT]
    if 0 in children:
        random.seed()
        session = requests.Session()
        for turn in range(plan.calls):
            time.sleep(max(0.0, begin + turn * plan.gap_s - time.monotonic()))
            for _ in range(plan.tries):
                if session.post(plan.url(turn), json=plan.payload, verify=False, timeout=20).status_code < 400:
                    break
                time.sleep(plan.pause_s * random.uniform(1 - plan.jitter, 1 + plan.jitter))
        os._exit(0)
    for child in children:
        os.waitpid(child, 0)


def hedge(plan: Plan) -> None:
    """Asks a second time where no answer came within a pause, takes the first answer, and lets the other one go on."""

    async def work() -> None:
        async with httpx.AsyncClient(verify=False, timeout=plan.timeout_s) as client:
            for turn in range(plan.calls):
                both = [asyncio.ensure_future(client.post(plan.url(turn), json=plan.payload))]
                await asyncio.wait(both, timeout=plan.pause_s)
                if not both[0].done():
                    both.append(asyncio.ensure_future(client.post(plan.url(turn), json=plan.payload)))
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.sleep(plan.gap_s)
                await asyncio.gather(*both)

    asyncio.run(work())


HABITS: dict[str, Callable[[Plan], None]] = {
    "sdk": sdk,
    "sdk_nested": sdk_nested,
    "pool": pool,
    "adapter": adapter,
    "transport": transport,
    "loop": loop,
    "client_retry": client_retry,
    "hammer": hammer,
    "impatient": impatient,
    "abandon": abandon,
    "in_step": in_step,
    "hedge": hedge,
}
