# SPDX-License-Identifier: Apache-2.0
"""A program that holds a TLS connection, has its way probed inside that connection, and goes on using it.

`inside.py IP` prints one JSON object: how often the connection worked, and the trace.
"""

from __future__ import annotations

import json
import socket
import ssl
import sys
import threading

from netdiag.route.engine.live import LiveProber
from netdiag.route.engine.session import Endpoints
from netdiag.route.prober import TraceRequest
from netdiag.route.store import plain


def main() -> None:
    """Connect, ask, probe while asking, ask again."""
    ip = sys.argv[1]
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((ip, 443)) as plain_socket, context.wrap_socket(plain_socket) as secure:
        answered: list[bool] = []

        def ask() -> None:
            secure.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            answered.append(secure.recv(4096).startswith(b"HTTP/1.1 200"))

        ask()
        timer = threading.Timer(0.3, ask)
        timer.daemon = True
        timer.start()
        local, remote = secure.getsockname(), secure.getpeername()
        ends = Endpoints(local_ip=local[0], local_port=local[1], remote_ip=remote[0], remote_port=remote[1])
        trace = LiveProber().inside(ends, TraceRequest(ip=ip, max_ttl=10))
        ask()
    print(json.dumps({"answered": answered, "trace": plain(trace)}))  # noqa: T201 - its output


if __name__ == "__main__":
    main()
