# SPDX-License-Identifier: Apache-2.0
"""An HTTPS server whose streams go as their path says: `… streams_server.py CERT KEY HOST STAMPS`; it prints its port.

`/streams/NAME/TOKENS/GAP_MS/STALL_AT/STALL_MS`: a pause of `STALL_MS` before token `STALL_AT` (none where that is -1).
Each answer is a line of JSON in STAMPS: its path, and when each token was written, ns of the monotonic clock.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import sys
import time
from pathlib import Path
from typing import TextIO

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


def event() -> bytes:
    """Return one token's event as a chunk."""
    delta = {"content": "x" * random.randint(1, 9)}
    said = b"data: " + json.dumps({"model": "m", "choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(said), said)


async def answer(writer: asyncio.StreamWriter, path: str) -> list[int]:
    """Stream one answer; return when its tokens were written."""
    tokens, gap_ms, stall_at, stall_ms = (int(part) for part in path.split("/")[3:7])
    writer.write(HEAD)
    due, stamps = time.monotonic() + random.random() * gap_ms / 1e3, []
    for number in range(tokens):
        due += stall_ms / 1e3 if number == stall_at else 0.0
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        due += gap_ms / 1e3
        writer.write(event())
        stamps.append(time.monotonic_ns())
    writer.write(END)
    await writer.drain()
    return stamps


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, log: TextIO) -> None:
    """Answer what comes on one connection."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ")[1].decode()
            log.write(json.dumps([path, await answer(writer, path)]) + "\n")
            log.flush()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main(cert: str, key: str, host: str, log: TextIO) -> None:
    """Listen until killed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server = await asyncio.start_server(lambda r, w: serve(r, w, log), host, 0, ssl=context, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201 - whoever started it waits for that
    await server.serve_forever()


if __name__ == "__main__":
    certificate, private_key, address, stamps_file = sys.argv[1:5]
    with Path(stamps_file).open("w") as file:
        asyncio.run(main(certificate, private_key, address, file))
