# SPDX-License-Identifier: Apache-2.0
"""client.py LIBRARY PORT PER_SECOND: an HTTP client that asks at a steady rate on one connection.

LIBRARY: http.client, requests, httpx, or https for http.client over TLS. Prints a line of counters every 50 ms until
killed: monotonic ns, requests, own CPU ns.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

Ask = Callable[[], Any]


def main(library: str, port: int, per_second: int) -> None:
    """Ask until killed."""
    ask = ASKERS[library](port)
    count, following, said = 0, time.monotonic(), 0.0
    while True:
        time.sleep(max(0.0, following - time.monotonic()))
        ask()
        count += 1
        following += 1 / per_second
        if following - said >= 0.05:
            said = following
            print(time.monotonic_ns(), count, time.process_time_ns(), flush=True)


def standard(port: int) -> Ask:
    """Ask by the standard library."""
    connection = importlib.import_module("http.client").HTTPConnection("127.0.0.1", port)

    def ask() -> Any:
        connection.request("GET", "/v1/models", headers={"Accept": "application/json"})
        return json.loads(connection.getresponse().read())

    return ask


def secure(port: int) -> Ask:
    """Ask by the standard library over TLS, whatever the certificate."""
    ssl = importlib.import_module("ssl")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = importlib.import_module("http.client").HTTPSConnection("127.0.0.1", port, context=context)

    def ask() -> Any:
        connection.request("GET", "/v1/models", headers={"Accept": "application/json"})
        return json.loads(connection.getresponse().read())

    return ask


def requests(port: int) -> Ask:
    """Ask by one requests session."""
    session = importlib.import_module("requests").Session()
    return lambda: session.get(f"http://127.0.0.1:{port}/v1/models").json()


def httpx(port: int) -> Ask:
    """Ask by one httpx client, as the SDKs of LLM APIs do."""
    client = importlib.import_module("httpx").Client()
    return lambda: client.get(f"http://127.0.0.1:{port}/v1/models").json()


ASKERS = {"http.client": standard, "https": secure, "requests": requests, "httpx": httpx}

if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
