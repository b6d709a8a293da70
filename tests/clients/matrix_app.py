# SPDX-License-Identifier: Apache-2.0
"""An ASGI program that answers the calls of the matrix, and writes down each: `MATRIX_LOG` names the file."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

LOG = os.environ["MATRIX_LOG"]
WHOLE = {
    "model": "m-1",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "planted-answer"}}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
}


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answer one call."""
    if scope["type"] != "http":
        return
    data, more = b"", True
    while more:
        message = await receive()
        data += message.get("body", b"")
        more = message.get("more_body", False)
    path, method, sent = scope["path"], scope["method"], 0
    asked = json.loads(data) if data else {}
    if path.startswith("/v1/chat/") and asked.get("stream"):
        status = 200
        await start(send, 200, "text/event-stream", None)
        for number in range(5):
            token = {"model": "m-1", "choices": [{"index": 0, "delta": {"content": f"planted-answer {number}"}}]}
            event = b"data: " + json.dumps(token).encode() + b"\n\n"
            sent += len(event)
            await send({"type": "http.response.body", "body": event, "more_body": True})
            await asyncio.sleep(0.015)
        sent += 14
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})
    else:
        status, text = 200, b'{"data": []}'
        if path.startswith("/v1/chat/"):
            text = json.dumps(WHOLE).encode()
        elif path == "/nothing":
            status, text = 204, b""
        elif path == "/missing":
            status, text = 404, b"no"
        elif path == "/large":
            text = b"x" * 300_000
        await start(send, status, "application/json", None if status == 204 else len(text))
        text = b"" if method == "HEAD" else text
        sent = len(text)
        await send({"type": "http.response.body", "body": text})
    said = {"port": scope["client"][1], "method": method, "path": path, "status": status, "sent": sent}
    with open(LOG, "a", encoding="ascii") as log:  # noqa: ASYNC230, PTH123 - one short line
        log.write(json.dumps(said | {"protocol": "HTTP/" + scope["http_version"]}) + "\n")


async def start(send: Any, status: int, kind: str, length: int | None) -> None:
    """Send the head of an answer."""
    fields = [(b"content-type", kind.encode())]
    if length is not None:
        fields.append((b"content-length", str(length).encode()))
    await send({"type": "http.response.start", "status": status, "headers": fields})
