# SPDX-License-Identifier: Apache-2.0
"""A small recording with all that a long one may hold, to be worked on as if it were long."""

from __future__ import annotations

from netdiag.recording.reader import Recording
from netdiag.testing import RecordingBuilder

__all__ = ["CONNECTIONS", "recording"]

CONNECTIONS = 7


def recording(*, calls: int = 12, slow_from: float = 1e9, end: str | None = "command ended") -> Recording:
    """Return a trace of two processes on some connections, one of them refused, one closed in between.

    From `slow_from` milliseconds on answers take ten times as long.
    """
    builder = RecordingBuilder()
    for pid in (100, 200):
        builder.process(pid)
    builder.fact("loss", probe="tcp_io", seen=2 * calls * CONNECTIONS, lost=0)
    for number in range(CONNECTIONS):
        at, made = 3.0 * number, []
        for _ in range(calls):
            wait = 40.0 if at >= slow_from else 4.0
            made += [("send", at + 1, 150), ("receive", at + 1 + wait, 900 + number)]
            at += wait + 21
        closed = ("local", at + 5) if number % 3 == 0 else None
        pid = 100 if number % 2 else 200
        builder.connection(made, opened=3.0 * number, closed=closed, tgid=pid, tid=pid, dport=8080 + number % 2)
    builder.connection([], opened=50, tgid=100, tid=100, dport=9999, established=0, kind=2, state=7, error=111)
    return builder.recording(end=end, end_at=2000)
