# SPDX-License-Identifier: Apache-2.0
# mypy: disable-error-code="import-not-found,import-untyped"
"""The same calls by many client libraries: `matrix.py CLIENT URL CA PLAN`, PLAN a JSON list of calls.

A call is `[method, target, stream]`; those to /v1/chat/completions carry a body as SDKs send it. Keys, cookies and
prompts are planted in all of them: nothing of that may be found anywhere afterwards.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from typing import Any

CLIENT, URL, CA = sys.argv[1:4]
PLAN: list[tuple[str, str, bool]] = json.loads(sys.argv[4])
HEADERS = {"authorization": "Bearer planted-key-7f3a", "cookie": "session=planted-cookie-7f3a"}
CHAT = "/v1/chat/completions"


def body(stream: bool) -> dict[str, Any]:
    """Return what an SDK would send."""
    return {"model": "m-1", "stream": stream, "messages": [{"role": "user", "content": "planted-prompt-7f3a"}]}


def payload(target: str, stream: bool) -> bytes | None:
    """Return the body of a call, None for one without."""
    return json.dumps(body(stream)).encode() if target.startswith(CHAT) else None


def calls() -> list[tuple[str, str, bytes | None, dict[str, str]]]:
    """Return method, URL, body and header fields of each call."""
    made = []
    for method, target, stream in PLAN:
        data = payload(target, stream)
        made.append((method, URL + target, data, HEADERS | ({"content-type": "application/json"} if data else {})))
    return made


def with_requests() -> None:
    import requests

    with requests.Session() as session:
        session.trust_env, session.verify = False, CA
        for method, url, data, fields in calls():
            with session.request(method, url, data=data, headers=fields, stream=True, allow_redirects=False) as answer:
                for _ in answer.iter_lines():
                    pass


def with_urllib3() -> None:
    import urllib3

    pool = urllib3.PoolManager(ca_certs=CA, retries=False)
    for method, url, data, fields in calls():
        answer = pool.request(method, url, body=data, headers=fields, preload_content=False)
        for _ in answer.stream(1024):
            pass
        answer.release_conn()
    pool.clear()


def with_httpx(*, http2: bool = False) -> None:
    import httpx

    with httpx.Client(verify=ssl.create_default_context(cafile=CA), http2=http2) as client:
        for method, url, data, fields in calls():
            with client.stream(method, url, content=data, headers=fields) as answer:
                for _ in answer.iter_lines():
                    pass


def with_httpx_h2() -> None:
    with_httpx(http2=True)


def with_httpx_async(*, http2: bool = False, at_once: bool = False) -> None:
    import httpx

    async def one(client: httpx.AsyncClient, method: str, url: str, data: bytes | None, fields: dict[str, str]) -> None:
        async with client.stream(method, url, content=data, headers=fields) as answer:
            async for _ in answer.aiter_lines():
                pass

    async def main() -> None:
        async with httpx.AsyncClient(verify=ssl.create_default_context(cafile=CA), http2=http2) as client:
            if at_once:
                await asyncio.gather(*(one(client, *call) for call in calls()))
            else:
                for call in calls():
                    await one(client, *call)

    asyncio.run(main())


def with_httpx_async_h2() -> None:
    with_httpx_async(http2=True, at_once=True)


def with_aiohttp() -> None:
    import aiohttp

    async def one(session: aiohttp.ClientSession, method: str, url: str, data: Any, fields: dict[str, str]) -> None:
        async with session.request(method, url, data=data, headers=fields, allow_redirects=False) as answer:
            async for _ in answer.content:
                pass

    async def main() -> None:
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=CA))
        async with aiohttp.ClientSession(connector=connector) as session:
            await asyncio.gather(*(one(session, *call) for call in calls()))

    asyncio.run(main())


def with_openai() -> None:
    import httpx
    import openai

    http = httpx.Client(verify=ssl.create_default_context(cafile=CA))
    client = openai.OpenAI(base_url=f"{URL}/v1", api_key="planted-key-7f3a", http_client=http, max_retries=0)
    for stream in (bool(each[2]) for each in PLAN if each[1].startswith(CHAT)):
        extra = {"extra_headers": {"Cookie": HEADERS["cookie"]}, "extra_query": {"key": "planted-query-7f3a"}}
        answer = client.chat.completions.create(**body(stream), **extra)
        if stream:
            for _ in answer:
                pass
    client.close()


def with_openai_async() -> None:
    import httpx
    import openai

    async def main() -> None:
        http = httpx.AsyncClient(verify=ssl.create_default_context(cafile=CA))
        client = openai.AsyncOpenAI(base_url=f"{URL}/v1", api_key="planted-key-7f3a", http_client=http, max_retries=0)

        async def one(stream: bool) -> None:
            extra = {"extra_headers": {"Cookie": HEADERS["cookie"]}, "extra_query": {"key": "planted-query-7f3a"}}
            answer = await client.chat.completions.create(**body(stream), **extra)
            if stream:
                async for _ in answer:
                    pass

        await asyncio.gather(*(one(bool(each[2])) for each in PLAN if each[1].startswith(CHAT)))
        await client.close()

    asyncio.run(main())


def with_pycurl(*, version: str = "CURL_HTTP_VERSION_1_1") -> None:
    import pycurl

    curl = pycurl.Curl()
    for method, url, data, fields in calls():
        curl.reset()
        curl.setopt(pycurl.HTTP_VERSION, getattr(pycurl, version))
        curl.setopt(pycurl.CAINFO, CA)
        curl.setopt(pycurl.URL, url)
        curl.setopt(pycurl.HTTPHEADER, [f"{name}: {value}" for name, value in fields.items()])
        curl.setopt(pycurl.WRITEFUNCTION, lambda _: None)
        if method == "HEAD":
            curl.setopt(pycurl.NOBODY, 1)
        elif data is not None:
            curl.setopt(pycurl.POSTFIELDS, data)
        curl.perform()
    curl.close()


def with_pycurl_h2() -> None:
    with_pycurl(version="CURL_HTTP_VERSION_2TLS")


def with_pyreqwest() -> None:
    """Have rustls inside: nothing but the wire can be seen."""

    from pyreqwest.client import SyncClientBuilder

    with SyncClientBuilder().danger_accept_invalid_certs(True).build() as client:
        for method, url, data, fields in calls():
            asked = client.request(method, url).headers(fields)
            if data is not None:
                asked = asked.body_bytes(data)
            asked.build().send().bytes()


globals()["with_" + CLIENT.replace("-", "_")]()
