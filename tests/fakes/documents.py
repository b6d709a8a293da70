# SPDX-License-Identifier: Apache-2.0
"""A recording's parts and its document, made by hand, for tests of everything that comes after the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netdiag.document import build
from netdiag.findings import Advice, Evidence, Finding, Learned, Severity, Subject
from netdiag.recording.reader import Recording
from netdiag.tables import Loss, Tables
from netdiag.tables.schema import frame

__all__ = ["build", "connection", "document", "finding", "per_call_tables", "recording", "request", "rows", "tables"]

MS = 1e6
START_NS = 1_795_021_600_123_456_789


def recording(**changes: Any) -> Recording:
    """Return a recording without records: header, facts and end."""
    header: dict[str, Any] = {
        "version": "0.1.0",
        "started": "2026-11-18T17:06:40.123456789Z",
        "clock": {"monotonic_ns": 5_000_000_000, "realtime_ns": START_NS, "boottime_ns": 5_000_000_000},
        "host": {"kernel": "6.12.0", "arch": "x86_64", "btf": True, "cpus": 2},
        "target": {},
        "command": {"argv": ["python", "app.py"]},
        "tier": "btf",
    }
    facts: list[dict[str, Any]] = [
        {
            "kind": "coverage",
            "probes": [
                {"name": "tcp", "state": "attached", "reason": None, "remedy": None},
                {
                    "name": "process",
                    "state": "partial",
                    "reason": "no tracepoint for forks",
                    "remedy": "a newer kernel",
                },
            ],
            "tls_libraries": [],
            "unobservable": [{"pid": None, "what": "QUIC", "why": "only TCP is traced"}],
        },
        {"kind": "cost", "recorder_cpu_ms": 12.5, "kernel_ms": 3.25, "programs": []},
        {"kind": "command", "argv": ["python", "app.py"], "exit_status": 0, "pid": 4711},
    ]
    end = {"exit_reason": "command-exited", "at_ns": 8_000_000_000}
    return Recording(**{"header": header, "facts": facts, "end": end, **changes})


def tables(
    connections: Sequence[Mapping[str, Any]], requests: Sequence[Mapping[str, Any]] = (), **changes: Any
) -> Tables:
    """Return tables with these rows; what a row leaves out is unknown."""
    values = {
        "connections": rows("connections", connections),
        "requests": rows("requests", requests),
        "processes": rows("processes", [{"pid": 4711, "ppid": 1, "exe": "/usr/bin/python3.11", "comm": "python"}]),
        "span_ms": 3000.0,
        "losses": (Loss(probe="tcp", seen=12, lost=0), Loss(probe="process", seen=2, lost=0)),
    }
    return Tables(**{**values, **changes})


def rows(table: str, entries: Sequence[Mapping[str, Any]]) -> Any:
    """Return a table with these rows."""
    names = list(dict.fromkeys(name for entry in entries for name in entry))
    return frame(table, len(entries), {name: [entry.get(name) for entry in entries] for name in names})


def connection(number: int, at_ms: float = 0.0, **changes: Any) -> dict[str, Any]:
    """Return one established client connection that lived for 50 ms."""
    row: dict[str, Any] = {
        "id": f"c{number}",
        "cookie": 1000 + number,
        "pid": 4711,
        "tid": 4711,
        "comm": "python",
        "role": "client",
        "netns": 1,
        "family": "ipv4",
        "protocol": "tcp",
        "local_ip": "192.0.2.10",
        "local_port": 40000 + number,
        "remote_ip": "198.51.100.7",
        "remote_port": 8080,
        "opened_ns": at_ms * MS,
        "established_ns": (at_ms + 4) * MS,
        "closing_ns": (at_ms + 48) * MS,
        "ended_ns": (at_ms + 50) * MS,
        "preexisting": False,
        "outcome": "established",
        "connect_ms": 4.0,
        "syn_retransmits": 0,
        "bytes_sent": 240,
        "bytes_received": 1800,
        "rtt_ms": 3.9,
        "min_rtt_ms": 3.8,
        "retransmits": 0,
        "keepalive_probes": False,
        "closed_by": "local",
        "close": "fin",
        "idle_before_close_ms": 1.5,
        "encrypted": False,
        "requests": 1,
        "unread_close": False,
        "shared": False,
        "never_sent": False,
    }
    return {**row, **changes}


def request(number: int, connection_row: int, at_ms: float = 0.0, **changes: Any) -> dict[str, Any]:
    """Return one plain request of 46 ms that was inferred from sends and receives."""
    row: dict[str, Any] = {
        "id": f"r{number}",
        "connection": connection_row,
        "pid": 4711,
        "protocol": "inferred",
        "sequence": 1,
        "reused": False,
        "request_bytes": 240,
        "response_bytes": 1800,
        "started_ns": at_ms * MS,
        "connect_ms": 4.0,
        "client_setup_ms": 1.0,
        "tls_ms": 0.0,
        "send_ms": 0.2,
        "wait_ms": 40.0,
        "receive_ms": 0.8,
        "reader_lag_ms": 0.0,
        "unattributed_ms": 0.0,
        "total_ms": 46.0,
        "source": "sockets",
        "complete": True,
    }
    return {**row, **changes}


def finding(**changes: Any) -> Finding:
    """Return a finding with every member filled in."""
    values: dict[str, Any] = {
        "code": "reuse.client-per-call",
        "cause": None,
        "severity": Severity.WARNING,
        "confidence": 0.97,
        "title": "A new connection for every call costs 20 of 230 ms (9 %)",
        "subject": Subject(pid=4711, exe="/usr/bin/python3.11", remote="198.51.100.7:8080"),
        "count": 5,
        "of": 5,
        "cost_ms": 20.0,
        "share_of_total": 0.087,
        "what_if": "with one client: 46 → 42 ms a call (estimate from this run's parts)",
        "evidence": (
            Evidence(kind="connection", id=None, note="5 requests on 5 connections, each closed first by the program"),
            Evidence(kind="connection", id="c1", note="198.51.100.7:8080, 1 request, set up in 4.0 ms"),
            Evidence(kind="connection", id="c2", note="198.51.100.7:8080, 1 request, set up in 4.0 ms"),
        ),
        "learned": Learned(name="connections per call", value=1.0, low=1.0, high=1.0, unit="connections"),
        "advice": (
            Advice(
                text="create one client and share it",
                setting="httpx.Client",
                snippet="client = httpx.Client()  # at module level\nclient.get(url)",
                applies_to="httpx",
            ),
        ),
        "explain": "netdiag explain reuse.client-per-call",
    }
    return Finding(**{**values, **changes})


def per_call_tables(calls: int = 5) -> Tables:
    """Return the tables of a program that opens a connection for each of its calls."""
    connections = [connection(number + 1, 100.0 * number) for number in range(calls)]
    requests = [request(number + 1, number, 100.0 * number) for number in range(calls)]
    turns = rows(
        "turns",
        [
            {
                "connection": number,
                "number": 0,
                "began_ns": (100 * number + 5) * MS,
                "sent_ns": (100 * number + 5.2) * MS,
                "first_byte_ns": (100 * number + 45.2) * MS,
                "last_byte_ns": (100 * number + 46) * MS,
                "answered": True,
            }
            for number in range(calls)
        ],
    )
    return tables(connections, requests, turns=turns)


def document(**changes: Any) -> dict[str, Any]:
    """Return a whole document: five calls on five connections and the finding about them."""
    info = finding(
        code="tcp.far-server",
        severity=Severity.INFO,
        title="The server is far: 90 ms a round trip",
        confidence=0.8,
        cost_ms=None,
        share_of_total=None,
        what_if=None,
        learned=None,
        advice=(),
    )
    built = build(recording(), per_call_tables(), [finding(), info])
    return {**built, **changes}
