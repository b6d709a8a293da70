# SPDX-License-Identifier: Apache-2.0
"""Snapshots of a small trace with known faults, and a way to press keys on a dashboard over them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from textual.pilot import Pilot

from netdiag import testing
from netdiag.findings import Advice, Evidence, Finding, Severity, Subject
from netdiag.tui import aggregate, exact
from netdiag.tui.app import Dashboard
from netdiag.tui.model import Examination, Snapshot, State, key

STREAM = {
    "kind": "sse", "chunks": 5, "first_chunk_ms": 50.0, "first_token_ms": 50.0, "gap_p50_ms": 20.0,
    "gap_p95_ms": 700.0, "gap_max_ms": 700.0, "tokens": 5, "finished": True,
}  # fmt: skip
HOSTILE = "evil\x1b[31m\u202etxt.\n表"


def tables(**more: Any) -> Any:
    """Return tables of three connections: one with a stream that stalls, one that is refused, one with two calls."""
    plaintext = {"method": "POST", "path": "/v1/chat", "host": "api.example.com", "source": "plaintext"}
    return testing.tables(
        connections=[
            testing.connection(opened_at=0, closed_by="local", close="fin", closing_at=1500, idle_before_close_ms=0.5,
                               remote_name="api.example.com", encrypted=True, requests=1.0, handshake="h1"),
            testing.connection(opened_at=100, outcome="refused", error="ECONNREFUSED", established_ns=float("nan"),
                               remote_port=8080.0, connect_ms=0.2, close=None),
            testing.connection(opened_at=200, pid=200.0, remote_ip="192.0.2.7", remote_port=8000.0, requests=2.0),
        ],
        handshakes=[
            {"connection": 0, "started_ns": 1e6, "duration_ms": 9.0, "outcome": "completed", "version": "TLSv1.3",
             "cipher": "TLS_AES_128_GCM_SHA256", "alpn": "http/1.1", "resumed": False, "network_ms": 1.0,
             "server_ms": 2.0, "client_ms": 6.0, "source": "wire"},
        ],
        records=[
            testing.record(0, "send", 1, 512, type=22, first=1),
            testing.record(0, "receive", 4, 122, type=22, first=2),
            testing.record(0, "receive", 4, 900),
            testing.record(0, "send", 10, 70),
            testing.record(0, "send", 12, 300),
        ],
        requests=[
            testing.request(0, 12, 50, total_ms=950.0, receive_ms=900.0, ended_at=962, stream=STREAM, status=200.0,
                            reused=False, connect_ms=1.0, tls_ms=9.0, attempt=1.0, **plaintext),
            testing.request(2, 300, 20, pid=200.0, status=500.0, attempt=1.0, **plaintext | {"host": "192.0.2.7"}),
            testing.request(2, 400, 40, pid=200.0, status=200.0, attempt=2.0, **plaintext | {"host": "192.0.2.7"}),
        ],
        chunks=[testing.chunk(0, at) for at in (62, 82, 102, 802, 822)],
        processes=[testing.process(), testing.process(200, exe="/usr/bin/node")],
        span_ms=2000.0,
        **more,
    )  # fmt: skip


def finding(**more: Any) -> Finding:
    """Return the finding that the stream shows."""
    default: dict[str, Any] = {
        "code": "stream.server-stall", "cause": None, "severity": Severity.CRITICAL, "confidence": 0.95,
        "title": "0.7 of 1.0 s in a stall: the server sent nothing for 700 ms", "count": 1, "of": 1, "cost_ms": 700.0,
        "subject": Subject(pid=100, exe="/usr/bin/python3", remote="192.0.2.1:443", host="api.example.com"),
        "share_of_total": 0.7, "what_if": "1.0 → 0.3 s", "explain": "netdiag explain stream.server-stall",
        "evidence": (
            Evidence(kind="request", id=None, note="one gap far above the others"),
            Evidence(kind="request", id="r1", note="nothing for 700 ms"),
            Evidence(kind="connection", id="c2", note="refused"),
            Evidence(kind="handshake", id="h1", note="full"),
            Evidence(kind="request", id="r99", note="not examined"),
        ),
        "advice": (Advice(text="Look for preemption.", snippet="client = OpenAI()"),),
    }  # fmt: skip
    return Finding(**default | more)


def examination(built: Any = None, findings: Sequence[Finding] | None = None, **more: Any) -> Examination:
    """Return an examination of the tables."""
    built = tables() if built is None else built
    stall = {"at_ms": 90.0, "gap_ms": 700.0, "blame": "server", "why": "the window stood open"}
    default: dict[str, Any] = {"failures": (), "stalls": {0: [stall]}, "covered": 3, "total": 3, "seconds": 0.1}
    found = (finding(),) if findings is None else tuple(findings)
    return Examination(tables=built, findings=found, calls=exact.calls(built), **default | more)


def snapshot(exam: Examination | None = None, **more: Any) -> Snapshot:
    """Return the snapshot of a finished trace."""
    exam = examination() if exam is None else exam
    programs = {100: "python3", 200: "node"}
    ends, now = exact.ends(exam.tables), exam.tables.span_ms * 1e6
    live = more.get("state") is State.LIVE
    rates, step = aggregate.rates(exam.calls, ends, now, 60, live=live)
    default: dict[str, Any] = {
        "state": State.FINISHED, "what": "python app.py", "length_s": now / 1e9, "lost": 0, "seen": 10,
        "rows": aggregate.rows(exam.calls, ends, programs, now, live=live), "rates": rates, "step_s": step,
        "total": aggregate.figures(exam.calls, ends, now, live=live), "calls": exam.calls, "programs": programs,
        "examination": exam, "fresh": frozenset(key(one) for one in exam.findings[:1]),
    }  # fmt: skip
    return Snapshot(**default | more)


def text_of(app: Dashboard) -> str:
    """Return what the terminal shows."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


def press(
    *keys: str,
    size: tuple[int, int] = (80, 24),
    shown: Snapshot | None = None,
    then: Callable[[Dashboard, Pilot[None]], Awaitable[None]] | None = None,
    **options: Any,
) -> str:
    """Open a dashboard, press keys, and return what the terminal shows."""

    async def run() -> str:
        app = Dashboard(None, snapshot=snapshot() if shown is None else shown, **options)
        async with app.run_test(size=size, notifications=True) as pilot:
            await pilot.pause()
            await pilot.press(*keys)
            await pilot.pause()
            if then is not None:
                await then(app, pilot)
                await pilot.pause()
            return text_of(app)

    return asyncio.run(run())


def picture(keys: Sequence[str], size: tuple[int, int], shown: Snapshot | None = None, **options: Any) -> str:
    """Return a picture (SVG) of a calm dashboard after keys."""

    async def run() -> str:
        app = Dashboard(None, snapshot=snapshot() if shown is None else shown, calm=True, **options)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await pilot.press(*keys)
            await pilot.pause()
            return app.export_screenshot(title="netdiag live")

    return asyncio.run(run())
