# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201 - printing is what the test reads
"""`gets.py LIBRARY CA COUNT URL…`: COUNT requests to each URL in turn, with one client of a library for all.

A body in which an `openssl s_server` says what was agreed is printed. With a library of `timed-…` no requests are made:
COUNT handshakes to the first URL's port, and for each a line `local-port began ended` by the program's own clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import socket
import ssl
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ANNOUNCED = "Cipher is"


def show(body: str) -> None:
    """Print a body that the test reads."""
    if ANNOUNCED in body:
        print(body)


def every(urls: list[str], count: int) -> Iterator[str]:
    """Yield each URL so many times."""
    return (url for url in urls for _ in range(count))


def library(name: str) -> Any:
    """Import a library only where it is used."""
    return importlib.import_module(name)


def with_requests(ca: str, urls: list[str], count: int) -> None:
    """One session for all."""
    session = library("requests").Session()
    for url in every(urls, count):
        show(session.get(url, verify=ca).text)


def with_bare_requests(ca: str, urls: list[str], count: int) -> None:
    """A session per call."""
    for url in every(urls, count):
        show(library("requests").get(url, verify=ca).text)


def with_urllib3(ca: str, urls: list[str], count: int) -> None:
    """One pool."""
    pool = library("urllib3").PoolManager(ca_certs=ca)
    for url in every(urls, count):
        show(pool.request("GET", url).data.decode())


def with_httpx(ca: str, urls: list[str], count: int) -> None:
    """One client."""
    with library("httpx").Client(verify=ssl.create_default_context(cafile=ca)) as client:
        for url in every(urls, count):
            show(client.get(url).text)


async def with_httpx_async(ca: str, urls: list[str], count: int, *, http2: bool = False) -> None:
    """One client on asyncio."""
    async with library("httpx").AsyncClient(verify=ssl.create_default_context(cafile=ca), http2=http2) as client:
        for url in every(urls, count):
            show((await client.get(url)).text)


async def with_httpx_h2(ca: str, urls: list[str], count: int) -> None:
    """One client that also offers HTTP/2."""
    await with_httpx_async(ca, urls, count, http2=True)


async def with_aiohttp(ca: str, urls: list[str], count: int) -> None:
    """One session."""
    aiohttp = library("aiohttp")
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=ca))
    async with aiohttp.ClientSession(connector=connector) as session:
        for url in every(urls, count):
            async with session.get(url) as answer:
                show(await answer.text())


MESSAGES = [{"role": "user", "content": "a question"}]


def with_openai(ca: str, urls: list[str], count: int, *, stream: bool = False) -> None:
    """One client per URL, as each has one base address."""
    openai, httpx = library("openai"), library("httpx")
    for url in urls:
        client = openai.OpenAI(
            base_url=url,
            api_key="-",
            max_retries=0,
            http_client=httpx.Client(verify=ssl.create_default_context(cafile=ca)),
        )
        for _ in range(count):
            answer = client.chat.completions.create(model="m", messages=MESSAGES, stream=stream)
            if stream:
                assert len(list(answer)) == 4
        client.close()


def with_openai_stream(ca: str, urls: list[str], count: int) -> None:
    """As with_openai, with streamed answers."""
    with_openai(ca, urls, count, stream=True)


async def with_openai_async(ca: str, urls: list[str], count: int) -> None:
    """One client per URL on asyncio; every other answer is streamed."""
    openai, httpx = library("openai"), library("httpx")
    for url in urls:
        http = httpx.AsyncClient(verify=ssl.create_default_context(cafile=ca))
        client = openai.AsyncOpenAI(base_url=url, api_key="-", max_retries=0, http_client=http)
        for turn in range(count):
            answer = await client.chat.completions.create(model="m", messages=MESSAGES, stream=turn % 2 == 1)
            if turn % 2:
                assert len([chunk async for chunk in answer]) == 4
        await client.close()


def with_rustls(ca: str, urls: list[str], count: int) -> None:
    """pyreqwest: reqwest on rustls, in a Python program."""
    builder = library("pyreqwest.client").SyncClientBuilder().add_root_certificate_pem(Path(ca).read_bytes())
    with builder.build() as client:
        for url in every(urls, count):
            show(client.get(url).build().send().text())


def with_chrome(ca: str, urls: list[str], count: int) -> None:
    """curl_cffi: BoringSSL with Chrome's hello, which holds a post-quantum key; failures are passed over."""
    requests = library("curl_cffi.requests")
    with requests.Session(impersonate="chrome", verify=ca) as session:
        for url in every(urls, count):
            with contextlib.suppress(requests.exceptions.RequestException):
                show(session.get(url, timeout=10).text)


def with_certificate(ca: str, urls: list[str], count: int) -> None:
    """One requests session whose certificate and key stand beside the authority's."""
    session = library("requests").Session()
    session.cert = tuple(str(Path(ca).with_name(name)) for name in ("client.pem", "client.key"))
    for url in every(urls, count):
        show(session.get(url, verify=ca).text)


def with_timed_sync(ca: str, urls: list[str], count: int) -> None:
    """Handshakes on blocking sockets."""
    context = ssl.create_default_context(cafile=ca)
    for _ in range(count):
        sock = socket.create_connection(("127.0.0.1", urlsplit(urls[0]).port))
        wrapped = context.wrap_socket(sock, server_hostname="localhost", do_handshake_on_connect=False)
        began = time.monotonic_ns()
        wrapped.do_handshake()
        print(wrapped.getsockname()[1], began, time.monotonic_ns())
        wrapped.close()


async def with_timed_asyncio(ca: str, urls: list[str], count: int) -> None:
    """Handshakes on asyncio, from the connected socket until the connection is handed over."""
    context, loop = ssl.create_default_context(cafile=ca), asyncio.get_running_loop()
    for _ in range(count):
        sock = socket.create_connection(("127.0.0.1", urlsplit(urls[0]).port))
        sock.setblocking(False)
        local = sock.getsockname()[1]
        began = time.monotonic_ns()
        transport, _ = await loop.create_connection(
            asyncio.Protocol, sock=sock, ssl=context, server_hostname="localhost"
        )
        print(local, began, time.monotonic_ns())
        transport.close()
        await asyncio.sleep(0)


async def with_blocked_loop(ca: str, urls: list[str], count: int) -> None:
    """Handshakes on an event loop that something else keeps busy in each of its turns."""
    context = ssl.create_default_context(cafile=ca)
    busy = True

    async def block() -> None:
        while busy:
            time.sleep(0.07)  # noqa: ASYNC251 - the fault to be shown
            await asyncio.sleep(0)

    task = asyncio.create_task(block())
    for _ in range(count):
        _, writer = await asyncio.open_connection(
            "127.0.0.1", urlsplit(urls[0]).port, ssl=context, server_hostname="localhost"
        )
        writer.close()
    busy = False
    await task


def with_distrust(ca: str, urls: list[str], count: int) -> None:
    """Handshakes by a program that knows no certificate of the server's; `ca` is not used."""
    del ca
    for _ in range(count):
        with (
            contextlib.suppress(ssl.SSLError),
            socket.create_connection(("127.0.0.1", urlsplit(urls[0]).port)) as sock,
            ssl.create_default_context().wrap_socket(sock, server_hostname="localhost"),
        ):
            pass


PROGRAMS: dict[str, Callable[[str, list[str], int], Awaitable[None] | None]] = {
    "requests": with_requests,
    "requests-bare": with_bare_requests,
    "urllib3": with_urllib3,
    "httpx": with_httpx,
    "httpx-async": with_httpx_async,
    "httpx-h2": with_httpx_h2,
    "aiohttp": with_aiohttp,
    "openai": with_openai,
    "openai-stream": with_openai_stream,
    "openai-async": with_openai_async,
    "rustls": with_rustls,
    "chrome": with_chrome,
    "certificate": with_certificate,
    "timed-sync": with_timed_sync,
    "timed-asyncio": with_timed_asyncio,
    "blocked-loop": with_blocked_loop,
    "distrust": with_distrust,
}


def main(name: str, ca: str, count: str, *urls: str) -> None:
    """Do as the arguments say."""
    work = PROGRAMS[name](ca, list(urls), int(count))
    if work is not None:
        asyncio.run(_wait(work))


async def _wait(work: Awaitable[None]) -> None:
    await work


if __name__ == "__main__":
    main(*sys.argv[1:])
