# SPDX-License-Identifier: Apache-2.0
"""Long recordings for measuring reports, comparisons, exports and the dashboard: generated, with the real layouts.

Plain HTTP on some connections at a steady rate, every instant drawn from a seeded generator: the same arguments give
the same bytes. `python -m scripts._bench.long FILE --requests 1800000 --rate 500` is an hour.
"""

from __future__ import annotations

import argparse
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netdiag import testing
from netdiag.addresses import from_text
from netdiag.recording.reader import dtype_of
from netdiag.recording.writer import RecordingWriter

__all__ = ["main", "write"]

_PIDS = (100, 200)
_SEND, _RECEIVE = 1, 2
_HEAD = struct.Struct("<II")
_BLOCK = 4096
"""Records written at once, as the recorder drains them."""
_SLOW_MS = 30.0
"""What one wait of twenty takes longer."""


def write(path: Path, *, requests: int, rate: float = 500.0, connections: int = 100, seed: int = 1) -> None:
    """Write a recording of that many requests at that rate, the other ends on loopback."""
    random = np.random.default_rng(seed)
    began = np.arange(requests) * (1e9 / rate) + random.uniform(0, 2e5, requests)
    wait = random.gamma(4.0, 2.5e6, requests) + (random.random(requests) < 0.05) * _SLOW_MS * 1e6
    conn = np.arange(requests) % connections
    wait = np.minimum(wait, connections * 1e9 / rate * 0.8)
    at = (testing.START_NS + 10e6 + began).astype(np.uint64)
    got = (testing.START_NS + 10e6 + began + wait).astype(np.uint64)
    size = random.integers(400, 4000, requests)
    with path.open("wb+") as file:
        writer = RecordingWriter(file.fileno(), testing.header())
        for stream in ("tcp", "tcp_io", "process", "tls_record"):
            writer.layout(testing.layout(stream).stream, testing.layout(stream))
        for pid in _PIDS:
            fact = {"pid": pid, "ppid": 1, "exe": "/usr/bin/python3", "comm": "python3", "started_ns": testing.START_NS}
            writer.fact("process", fact)
        _ends(writer, conn, connections, at, got, size)
        step = _BLOCK // 2
        for first in range(0, requests, step):
            part = slice(first, first + step)
            _calls(writer, conn[part], at[part], got[part], size[part])
        writer.fact("loss", {"probe": "tcp_io", "seen": 2 * requests, "lost": 0})
        writer.end("command ended", int(got.max()) + 1_000_000)


def _blank(stream: str, count: int) -> NDArray[Any]:
    return np.zeros(count, dtype_of(testing.layout(stream)))


def _calls(
    writer: RecordingWriter, conn: NDArray[Any], at: NDArray[Any], got: NDArray[Any], size: NDArray[Any]
) -> None:
    events = _blank("tcp_io", 2 * len(conn))
    for half, direction, when, moved in ((0, _SEND, at, np.full(len(conn), 180)), (1, _RECEIVE, got, size)):
        rows = events[half::2]
        rows["cookie"], rows["direction"] = conn + 1, direction
        rows["time"] = rows["began"] = rows["ended"] = when
        rows["bytes"] = rows["first_bytes"] = moved
        rows["calls"] = 1
        rows["tgid"] = rows["tid"] = np.array(_PIDS)[conn % len(_PIDS)]
        if direction == _RECEIVE:
            rows["arrived"], rows["max_lag"] = when - np.uint64(20_000), 20
    _put(writer, "tcp_io", events[np.argsort(events["time"], kind="stable")])


def _put(writer: RecordingWriter, stream: str, events: NDArray[Any]) -> None:
    """Write records, each with the ring's header in front."""
    layout = testing.layout(stream)
    raw = np.frombuffer(events.tobytes(), np.uint8).reshape(len(events), layout.stride).copy()
    raw[:, : _HEAD.size] = np.frombuffer(_HEAD.pack(layout.size, 0), np.uint8)
    writer.records(layout.stream, [raw.tobytes()])


def _ends(
    writer: RecordingWriter,
    conn: NDArray[Any],
    connections: int,
    at: NDArray[Any],
    got: NDArray[Any],
    size: NDArray[Any],
) -> None:
    events = _blank("tcp", connections)
    row = np.arange(connections)
    events["cookie"], events["netns"], events["family"], events["role"] = row + 1, 1, 2, 1
    events["tgid"] = events["tid"] = np.array(_PIDS)[row % len(_PIDS)]
    events["comm"] = b"python3"
    for name, value in (("saddr", "127.0.0.1"), ("daddr", "127.0.0.1")):
        events[name] = np.frombuffer(from_text(value), np.uint8)
    events["sport"], events["dport"] = 20_000 + row % 40_000, 8080
    events["srtt"], events["min_rtt"], events["mss"] = 100, 50, 32_768
    count = np.bincount(conn, minlength=connections)
    first, last = np.full(connections, 2**63, np.uint64), np.zeros(connections, np.uint64)
    np.minimum.at(first, conn, at)
    np.maximum.at(last, conn, got)
    events["opened"], events["established"] = first - np.uint64(400_000), first - np.uint64(300_000)
    events["first_sent"], events["last_sent"] = first, last
    events["first_received"], events["last_received"], events["last_read"] = first, last, last
    events["bytes_sent"], events["bytes_received"] = 180 * count, np.bincount(conn, size, connections)
    events["sends"] = events["receives"] = count
    events["kind"], events["state"] = 4, 1
    events["time"] = last + np.uint64(10_000)
    _put(writer, "tcp", events)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write what the command line asks for."""
    parser = argparse.ArgumentParser(description="Write a generated recording.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=500.0, help="requests a second (%(default)s)")
    parser.add_argument("--connections", type=int, default=100)
    options = parser.parse_args(arguments)
    write(options.file, requests=options.requests, rate=options.rate, connections=options.connections)


if __name__ == "__main__":
    main()
