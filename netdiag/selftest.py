# SPDX-License-Identifier: Apache-2.0
"""Proves on this very kernel that what is recorded is right: real connections of which everything is known.

A recorder traces this process, which connects to itself on loopback. Ports, owner, bytes, sides and lateness are
chosen here, and every instant lies between two readings of the clock, so nothing has to be believed.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from netdiag.errors import Unsupported
from netdiag.recorder.facts import monotonic_ns
from netdiag.recording.reader import read
from netdiag.tables import Tables, build
from netdiag.tracing.elevation import Elevation, plan
from netdiag.tracing.recorder import Recorder
from netdiag.tracing.signals import Signals

__all__ = ["Connection", "Outcome", "compare", "run"]

LATE_MS = 20.0
"""How long a round lets an answer lie before it is read."""
SLACK_MS = 5.0
"""How far a measured pause may be off: the clock is read before and after a call, the kernel looks in between."""

_STOP_S = 10.0
_SIZES = ((100, 3000), (1, 70_000), (9000, 1))
"""Bytes of request and answer, by round."""

Span = tuple[int, int]
"""Two readings of CLOCK_MONOTONIC, nanoseconds, around one call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """What is known of one connection of this process with itself."""

    address: str
    local_port: int
    remote_port: int
    pid: int
    client_tid: int
    server_tid: int
    sent: int
    """Bytes."""
    received: int
    connect: Span
    send: Span
    """Around the first send."""
    close: Span
    reset: bool
    """Whether it ended by a reset instead of a FIN."""
    late: tuple[float, float]
    """The least and the most milliseconds that the answer can have lain unread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a self-test found."""

    coverage: Mapping[str, Any]
    """As the recorder said when it was armed."""
    connections: int
    """How many were compared; each has two ends."""
    mismatches: tuple[str, ...]
    """One sentence each; none = all was right."""


def run(rounds: int = 6, *, elevation: Elevation | None = None) -> Outcome:
    """Trace `rounds` connections and one that is refused; compare what was recorded. Takes half a second.

    Raises NetdiagError where no recorder can be started or armed, or loopback is down.
    """
    how = elevation or plan(under_sudo=False)
    with Signals() as signals, tempfile.TemporaryFile(prefix="netdiag-selftest-") as file:
        recorder = Recorder(how, signals)
        ours, theirs = socket.socketpair()
        try:
            target = {"pids": [os.getpid()], "follow": False}
            start: dict[str, Any] = {"do": "start", "target": target, "command": None, "probes": []}
            armed = recorder.arm(start, file.fileno(), more={"plain": theirs.fileno()})
            theirs.close()
            made, refused = _traffic(rounds)
            ended = recorder.stop("self-test", None, timeout_s=_STOP_S, others=lambda wait_s: _empty(ours, wait_s))
        finally:
            theirs.close()
            ours.close()
            recorder.close(reap_s=_STOP_S)  # what comes next shall find nothing attached
        recording = read(file)
    tables = build(recording)
    mismatches = [] if ended else ["the recorder did not end the recording"]
    mismatches += compare(tables, made, refused, recording.start_ns)
    return Outcome(coverage=armed.get("coverage") or {}, connections=len(made), mismatches=tuple(mismatches))


def _empty(plain: socket.socket, timeout_s: float) -> None:
    """Let plaintext go: there is none in these connections that means anything."""
    plain.settimeout(timeout_s)
    with contextlib.suppress(OSError):
        while plain.recv(1 << 16):
            pass


def compare(tables: Tables, made: list[Connection], refused: int, start_ns: int) -> Iterator[str]:
    """Yield a sentence for everything that the tables tell differently.

    `refused`: the port to which one connect was refused; `start_ns`: CLOCK_MONOTONIC at the start of the recording.
    """
    if tables.truncated:
        yield "the recording is incomplete"
    yield from (f"{loss.lost} of the records '{loss.probe}' were lost" for loss in tables.losses if loss.lost)
    rows = list(_rows(tables))
    ends = {(row["local_port"], row["remote_port"]): row for row in rows}
    for number, one in enumerate(made, 1):
        mine, theirs = (
            ends.get((one.local_port, one.remote_port)),
            ends.get((one.remote_port, one.local_port)),
        )
        for name, row in (("client", mine), ("server", theirs)):
            if row is None:
                yield f"connection {number}: its {name}'s end was not seen"
                continue
            wrong = (*_ends(one, row, name), *_times(one, row, name, start_ns))
            yield from (
                f"connection {number}, {name}: {what} is {got}, not {expected}" for what, got, expected in wrong
            )
    attempts = [row["outcome"] for row in rows if row["remote_port"] == refused]
    if attempts != ["refused"]:
        yield f"a refused connect was seen as {', '.join(map(str, attempts)) or 'nothing'}"


def _rows(tables: Tables) -> Iterator[dict[str, Any]]:
    for row in tables.connections.to_dict("records"):
        yield {str(name): value for name, value in row.items()}


def _ends(one: Connection, row: Mapping[str, Any], name: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield (what, value, expected) for each fact of one end that is wrong."""
    client = name == "client"
    expected = {
        "pid": one.pid,
        "tid": one.client_tid if client else one.server_tid,
        "role": name,
        "local_ip": one.address,
        "remote_ip": one.address,
        "outcome": "established",
        "bytes_sent": one.sent if client else one.received,
        "bytes_received": one.received if client else one.sent,
        "closed_by": "local" if client else "remote",
        "close": "rst" if one.reset else "fin",
    }
    for what, value in expected.items():
        if row[what] != value:
            yield what, row[what], value


def _times(one: Connection, row: Mapping[str, Any], name: str, start_ns: int) -> Iterator[tuple[str, str, str]]:
    """Yield (what, value, expected) for each instant of one end that is not between the two looks at the clock."""
    spans = {"opened_ns": one.connect, "established_ns": one.connect, "closing_ns": one.close}
    if name == "client":
        spans["first_sent_ns"] = one.send
        lag = (row["last_read_ns"] - row["first_received_ns"]) / 1e6
        if not one.late[0] - SLACK_MS <= lag <= one.late[1] + SLACK_MS:
            yield "the wait of the answer", f"{lag:.3f} ms", f"{one.late[0]:.1f} to {one.late[1]:.1f} ms"
    for what, (low, high) in spans.items():
        instant = row[what] + start_ns
        if not low <= instant <= high:
            yield what, f"{(instant - low) / 1e6:.3f} ms", f"0 to {(high - low) / 1e6:.3f} ms after the call"


def _traffic(rounds: int) -> tuple[list[Connection], int]:
    """Make the connections; return what is known of them and the port of the one that is refused."""
    try:
        return [_converse(number) for number in range(rounds)], _refused()
    except OSError as error:
        message = f"no connection on loopback could be made: {error.strerror}"
        raise Unsupported(message, hint="bring the loopback interface up: ip link set lo up") from error


def _converse(number: int) -> Connection:
    """Make one connection: a thread connects, this one answers; the answer is read late, the client closes first."""
    family, address = [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")][number % 2 and _has_ipv6()]
    request, answer = _SIZES[number % len(_SIZES)]
    with socket.socket(family) as listener, socket.socket(family) as client:
        listener.bind((address, 0))
        listener.listen()
        tid, connect = _in_thread(client, listener.getsockname())
        server = listener.accept()[0]
        with server:
            send = _timed(lambda: client.sendall(bytes(request)))
            _read(server, request)
            answered = _timed(lambda: server.sendall(bytes(answer)))
            time.sleep(LATE_MS / 1e3)
            taken = _timed(lambda: _read(client, answer))
            names = client.getsockname(), client.getpeername()
            if number % 3 == 2:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            close = _timed(lambda: _close(client, server))
    return Connection(
        address=address,
        local_port=names[0][1],
        remote_port=names[1][1],
        pid=os.getpid(),
        client_tid=tid,
        server_tid=threading.get_native_id(),
        sent=request,
        received=answer,
        connect=connect,
        send=send,
        close=close,
        reset=number % 3 == 2,
        late=((taken[0] - answered[1]) / 1e6, (taken[1] - answered[0]) / 1e6),
    )


def _in_thread(client: socket.socket, address: Any) -> tuple[int, Span]:
    """Connect in a thread of its own; return its number and when."""

    def work() -> tuple[int, Span]:
        return threading.get_native_id(), _timed(lambda: client.connect(address))

    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(work).result()


def _refused() -> int:
    """Connect to a port on which nobody listens any more; return it."""
    with socket.socket() as nobody, socket.socket() as client:
        nobody.bind(("127.0.0.1", 0))
        port = int(nobody.getsockname()[1])
        client.connect_ex(("127.0.0.1", port))  # bound, but not listening: refused, and nobody else can take it
    return port


def _timed(action: Callable[[], object]) -> Span:
    before = monotonic_ns()
    action()
    return before, monotonic_ns()


def _read(sock: socket.socket, count: int) -> None:
    while count > 0 and (data := sock.recv(count)):
        count -= len(data)


def _close(client: socket.socket, server: socket.socket) -> None:
    """Close and wait until the other side has learned of it."""
    client.close()
    try:
        server.recv(1)
    except ConnectionResetError:
        return


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True
