# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201 - printing is what the test reads
"""A curl process for every connection: `shorts_curl.py PORT COUNT` prints `pid port sent received closer how`."""

from __future__ import annotations

import subprocess
import sys

FORMAT = r"%{stderr}%{local_port} %{size_request} %{size_header} %{size_download}"


def main() -> None:
    """Run COUNT processes. The server keeps the connection, so it is always curl that closes."""
    port, count = int(sys.argv[1]), int(sys.argv[2])
    for turn in range(count):
        url = f"http://127.0.0.1:{port}/keep?{'x' * (turn % 50)}"
        command = ["curl", "-s", "-o", "/dev/null", "-w", FORMAT, url]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            words = process.communicate()[1].split()
        local, sent, head, body = (int(word) for word in words)
        print(process.pid, local, sent, head + body, "local", "fin")


main()
