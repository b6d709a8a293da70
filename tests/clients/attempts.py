# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201 - printing is what the test reads
"""Connect attempts: `attempts.py TIMEOUT_S ADDRESS:PORT…` prints `pid errno` for each, 0 = connected, -1 = gave up."""

from __future__ import annotations

import errno
import os
import socket
import sys


def attempt(target: str, timeout_s: float) -> int:
    """Connect once and return how it ended."""
    host, _, port = target.rpartition(":")
    sock = socket.socket()
    sock.settimeout(timeout_s or None)
    try:
        sock.connect((host, int(port)))
    except TimeoutError as error:
        return errno.ETIMEDOUT if error.errno == errno.ETIMEDOUT else -1
    except OSError as error:
        return error.errno or 0
    finally:
        sock.close()
    return 0


def main() -> None:
    """Try every target in turn."""
    for target in sys.argv[2:]:
        print(os.getpid(), attempt(target, float(sys.argv[1])))


main()
