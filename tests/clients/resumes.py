# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201 - printing is what the test reads
"""`resumes.py CA VERSION STEP…`: a connection for each step, offering the session of the one before.

Prints for each whether it resumed. A step is `ADDRESS:PORT`, a pause in seconds, or `hup:PID`, which sends that signal.
"""

from __future__ import annotations

import os
import signal
import socket
import ssl
import sys
import time


def main(ca: str, version: str, *steps: str) -> None:
    """Do the steps."""
    context = ssl.create_default_context(cafile=ca)
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    session: ssl.SSLSession | None = None
    for step in steps:
        address, _, port = step.partition(":")
        if address == "hup":
            os.kill(int(port), signal.SIGHUP)
        elif not port:
            time.sleep(float(step))
        else:
            session = ask(context, address, int(port), session)


def ask(context: ssl.SSLContext, address: str, port: int, session: ssl.SSLSession | None) -> ssl.SSLSession | None:
    """Ask once; return the session, which is whole only after the answer."""
    with (
        socket.create_connection((address, port)) as sock,
        context.wrap_socket(sock, server_hostname="localhost", session=session) as wrapped,
    ):
        wrapped.sendall(b"GET /close HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        while wrapped.recv(4096):
            pass
        print(wrapped.session_reused)
        return wrapped.session


if __name__ == "__main__":
    main(*sys.argv[1:])
