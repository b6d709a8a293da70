# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201 - printing is what the test reads
"""Many short connections, one after another: `shorts.py PORT COUNT` prints `pid port sent received closer how`."""

from __future__ import annotations

import os
import socket
import struct
import sys

MODES = ("keep", "close", "reset")


def one(port: int, turn: int) -> str:
    """Make one connection and return its line."""
    mode = MODES[turn % 3]
    path = "/close" if mode == "close" else "/keep"
    sock = socket.create_connection(("127.0.0.1", port))
    message = f"GET {path}?{'x' * (turn % 50)} HTTP/1.1\r\nHost: t\r\n\r\n".encode()
    sock.sendall(message)
    received = b""
    while mode == "close" or not received.endswith(b"END\n"):
        data = sock.recv(4096)
        if not data:
            break
        received += data
    local = sock.getsockname()[1]
    if mode == "reset":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
    closer, how = {"keep": ("local", "fin"), "close": ("remote", "fin"), "reset": ("local", "rst")}[mode]
    return f"{os.getpid()} {local} {len(message)} {len(received)} {closer} {how}"


def main() -> None:
    """Make COUNT connections."""
    port, count = int(sys.argv[1]), int(sys.argv[2])
    for turn in range(count):
        print(one(port, turn))


main()
