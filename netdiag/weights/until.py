# SPDX-License-Identifier: Apache-2.0
"""Waits for what ends a trace of a server: it is ready, a page answers, or a line of its output matches.

Run as `python -m netdiag.weights.until FD ready|URL` with `pid N` lines on standard input, or as
`… FD output REGEX IN IN`, which passes on the output of a command. The instant (CLOCK_MONOTONIC, nanoseconds) is
written to FD once.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import select
import ssl
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

__all__ = ["answers", "family", "is_ready", "listening", "main", "pass_on"]

_PERIOD_S = 0.25
_TIMEOUT_S = 2.0
_LISTEN = "0A"
_LONGEST_LINE = 65_536
_PAGES = ("/health", "/v1/models")
"""vLLM, SGLang, TGI, llama.cpp and Triton (behind a proxy) have the first; any OpenAI-like server the second."""
_NO_PAGE = (404, 405, 501)


def status_of(url: str) -> int | None:
    """Return the status of a GET, None where no HTTP answer came; -1 where what came is no HTTP."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # whether it answers is asked, not who
        connection = http.client.HTTPSConnection(host, parts.port, timeout=_TIMEOUT_S, context=context)
    else:
        connection = http.client.HTTPConnection(host, parts.port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
        return connection.getresponse().status
    except http.client.HTTPException:
        return -1
    except (OSError, ValueError):
        return None
    finally:
        connection.close()


def answers(url: str) -> bool:
    """Tell whether a page answers with a status of the 200s."""
    status = status_of(url)
    return status is not None and 200 <= status < 300


def is_ready(base: str) -> bool:
    """Tell whether a server says that it is: a page of health in the 200s, or, where it has none, that it listens."""
    for page in _PAGES:
        status = status_of(base + page)
        if status is None:
            return False
        if status not in _NO_PAGE:
            return status == -1 or 200 <= status < 300
    return True


def family(pids: Sequence[int], proc: Path = Path("/proc")) -> Iterator[int]:
    """Yield processes and all their children."""
    seen: set[int] = set()
    waiting = list(pids)
    while waiting:
        pid = waiting.pop()
        if pid in seen:
            continue
        seen.add(pid)
        yield pid
        for path in (proc / str(pid)).glob("task/*/children"):
            with contextlib.suppress(OSError, ValueError):
                waiting += [int(word) for word in path.read_bytes().split()]


def listening(pid: int, proc: Path = Path("/proc")) -> list[str]:
    """Return `http://ADDRESS:PORT` of the TCP sockets that a process listens at, in this network namespace."""
    folder = proc / str(pid)
    mine = set()
    with contextlib.suppress(OSError):
        if (folder / "ns/net").stat().st_ino != (proc / "self/ns/net").stat().st_ino:
            return []
        for path in (folder / "fd").iterdir():
            with contextlib.suppress(OSError):
                link = str(path.readlink())
                if link.startswith("socket:["):
                    mine.add(link[8:-1])
    found = []
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (folder / "net" / table).read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and fields[9] in mine:
                    found.append(_base(fields[1], table))
    return found


def _base(local: str, table: str) -> str:
    address, _, port = local.partition(":")
    if table == "tcp":
        text = ".".join(str(byte) for byte in bytes.fromhex(address)[::-1])
        host = "127.0.0.1" if text == "0.0.0.0" else text  # noqa: S104 - compared, not bound
    else:
        host = "[::1]" if address != "0" * 32 else "127.0.0.1"
    return f"http://{host}:{int(port, 16)}"


def _waits(mode: str, tell: int) -> None:
    os.set_blocking(0, False)
    pids: list[int] = []
    pending = b""
    while True:
        ready, _, _ = select.select([0], [], [], _PERIOD_S)
        if ready:
            more = os.read(0, 65_536)
            if not more:
                return
            *lines, pending = (pending + more).split(b"\n")
            pids += [int(line[4:]) for line in lines if line.startswith(b"pid ")]
        if not pids:
            continue
        bases = [base for pid in family(pids) for base in listening(pid)] if mode == "ready" else []
        if any(map(is_ready, bases)) if mode == "ready" else answers(mode):
            os.write(tell, f"{time.monotonic_ns()}\n".encode())
            return


def pass_on(pattern: re.Pattern[bytes], tell: int, ways: Mapping[int, int]) -> None:
    """Copy each input to its output until all end; say once when a line matches."""
    pending = dict.fromkeys(ways, b"")
    said = False
    while pending:
        for fd in select.select(list(pending), [], [])[0]:
            try:
                data = os.read(fd, 65_536)
            except OSError:  # the other end of a terminal is gone
                data = b""
            if not data:
                del pending[fd]
                continue
            _write(ways[fd], data)
            *lines, rest = (pending[fd] + data).split(b"\n")
            pending[fd] = rest[-_LONGEST_LINE:]
            if not said and any(pattern.search(line) for line in (*lines, rest)):
                said = True
                os.write(tell, f"{time.monotonic_ns()}\n".encode())


def _write(fd: int, data: bytes) -> None:
    with contextlib.suppress(OSError):
        while data:
            data = data[os.write(fd, data) :]


def main() -> int:
    """Wait."""
    tell, mode = int(sys.argv[1]), sys.argv[2]
    if mode == "output":
        first, second = int(sys.argv[4]), int(sys.argv[5])
        pass_on(re.compile(os.fsencode(sys.argv[3])), tell, {first: 1, second: 2})
    else:
        _waits(mode, tell)
    return 0


if __name__ == "__main__":
    sys.exit(main())
