# SPDX-License-Identifier: Apache-2.0
"""A small stage on which the tests of the analyses play connections, in milliseconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from netdiag import testing
from netdiag.analysis import Options, examine, run
from netdiag.findings import Finding, Severity
from netdiag.tables.model import Loss, Tables
from netdiag.tables.schema import frame

NAN = math.nan
HANDSHAKE_MS = 6.0
CONTEXT_MS = 20.0


class Stage:
    """Connections of made-up programs to made-up servers; `tables()` is what a trace of them would be."""

    def __init__(self) -> None:
        self.connections: list[dict[str, Any]] = []
        self.turns: list[dict[str, Any]] = []
        self.retransmits: list[dict[str, Any]] = []
        self.processes: list[dict[str, Any]] = []
        self.listeners: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self.records: list[dict[str, Any]] = []
        self.bursts: list[dict[str, Any]] = []
        self.handshakes: list[dict[str, Any]] = []
        self.tls_calls: list[dict[str, Any]] = []
        self.contexts: list[dict[str, Any]] = []
        self.resolutions: list[dict[str, Any]] = []
        self.losses: tuple[Loss, ...] = ()
        self.span_ms = 60_000.0

    def process(self, pid: int = 1, **columns: Any) -> None:
        """Add a process; `libraries` is a list of names."""
        names = columns.pop("libraries", ())
        libraries = [{"name": name, "version": None, "evidence": "test"} for name in names]
        self.processes.append({"pid": pid, "exe": "/usr/bin/python3", "libraries": libraries} | columns)

    def failed(self, at: float, outcome: str, **columns: Any) -> int:
        """Add an attempt that made no connection; returns its row."""
        return self._row({"opened_ns": at * 1e6, "outcome": outcome, "ended_ns": (at + 1) * 1e6} | columns)

    def connection(
        self,
        at: float,
        calls: Sequence[float] = (0.0,),
        *,
        wait: float = 20.0,
        tls: bool = True,
        counted: bool = False,
        closed_by: str | None = None,
        idle: float = 0.5,
        context: float = CONTEXT_MS,
        unanswered: bool = False,
        turn: dict[str, Any] | None = None,
        **columns: Any,
    ) -> int:
        """Add an established connection and return its row.

        `calls` are pauses before each call (the first counts from readiness); `idle` is the pause before the close.
        `unanswered`: the last call got no answer. `turn` overrides columns of the last turn.
        """
        row, rtt = len(self.connections), columns.get("rtt_ms", 0.05)
        now = at + rtt
        established = now
        if tls:
            now += context
            self._turn(row, now, now + HANDSHAKE_MS, 517, 1365)
            now += HANDSHAKE_MS + 0.5
        for index, pause in enumerate(calls):
            now += pause
            last = index == len(calls) - 1
            lost = unanswered and last
            extra = turn if turn and last else {}
            self._turn(row, now, NAN if lost else now + wait, 400, 0 if lost else 700, **extra)
            now += 0.2 if lost else wait
        values = {
            "opened_ns": at * 1e6,
            "established_ns": established * 1e6,
            "connect_ms": rtt,
            "rtt_ms": rtt,
            "outcome": "established",
            "requests": (len(calls) - unanswered) if counted or not tls else NAN,
            "encrypted": tls,
            "closed_by": closed_by,
            "close": "fin" if closed_by else "open",
            "closing_ns": (now + idle) * 1e6 if closed_by else NAN,
            "idle_before_close_ms": idle if closed_by else NAN,
            "bytes_received": 700.0,
        }
        return self._row(values | columns)

    def _row(self, columns: dict[str, Any]) -> int:
        row = len(self.connections)
        base = {
            "id": f"c{row + 1}", "cookie": row + 1, "pid": 1.0, "tid": 1.0, "io_tid": columns.get("tid", 1.0),
            "io_tids": 0.0, "role": "client", "family": "ipv4", "protocol": "tcp", "local_ip": "192.0.2.9",
            "local_port": 40000.0 + row, "remote_ip": "192.0.2.1", "remote_port": 443.0, "preexisting": False,
            "unread_close": False, "shared": False, "never_sent": False, "unread": 0.0, "retransmits": 0.0,
            "syn_retransmits": 0.0, "zero_window_ms": 0.0, "peer_window_ms": 0.0,
        }  # fmt: skip
        self.connections.append(base | columns)
        return row

    def _turn(self, row: int, began: float, ended: float, sent: float, received: float, **columns: Any) -> None:
        mine = sum(turn["connection"] == row for turn in self.turns)
        base = {
            "connection": row, "number": mine + 1, "began_ns": began * 1e6, "sent_ns": began * 1e6 + 1e5,
            "first_byte_ns": ended * 1e6, "last_byte_ns": ended * 1e6, "sent_bytes": sent, "sent_calls": 1.0,
            "received_bytes": received, "received_calls": 2.0, "received_bursts": 1.0,
            "answered": not math.isnan(ended),
        }  # fmt: skip
        self.turns.append(base | columns)

    def read(self, row: int, began: float, count: int = 1, gap: float = 10.0, **columns: Any) -> None:
        """Add reads of the program, from `began` on (ms)."""
        for number in range(count):
            at = (began + number * gap) * 1e6
            burst = {"connection": row, "direction": "receive", "began_ns": at, "ended_ns": at, "close_notify": False}
            self.bursts.append(burst | columns)

    def end_of(self, row: int) -> float:
        """Return when the connection was closed, ms."""
        return float(self.connections[row]["closing_ns"]) / 1e6

    def tables(self) -> Tables:
        """Return the tables."""
        rows: dict[str, list[dict[str, Any]]] = {
            "connections": self.connections,
            "turns": self.turns,
            "retransmits": self.retransmits,
            "processes": self.processes,
            "listeners": self.listeners,
            "requests": self.requests,
            "records": self.records,
            "bursts": self.bursts,
            "handshakes": self.handshakes,
            "tls_calls": self.tls_calls,
            "contexts": self.contexts,
            "resolutions": self.resolutions,
        }
        frames: dict[str, Any] = {}
        for name, items in rows.items():
            names = {column for item in items for column in item}
            frames[name] = frame(name, len(items), {column: [item.get(column) for item in items] for column in names})
        return Tables(span_ms=self.span_ms, losses=self.losses, **frames)

    def findings(self) -> list[Finding]:
        """Return what the analyses say."""
        return run(self.tables())

    def codes(self) -> list[str]:
        """Return the codes of the findings, loudest first."""
        return [finding.code for finding in self.findings()]

    def loud(self) -> list[str]:
        """Return the codes above info."""
        return [finding.code for finding in self.findings() if finding.severity is not Severity.INFO]

    def only(self, code: str) -> Finding:
        """Return the one finding there is, which must have this code."""
        found = self.findings()
        assert [finding.code for finding in found] == [code]
        return found[0]


@pytest.fixture
def stage() -> Stage:
    return Stage()


class Calls:
    """Requests and streams of one made-up program on its connections, in milliseconds."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {
            name: []
            for name in (
                "connections", "requests", "chunks", "records", "bursts", "retransmits", "processes", "handshakes",
                "scheduling",
            )
        }  # fmt: skip
        self.span_ms = 60_000.0

    def connection(self, **columns: Any) -> int:
        """Add a connection that nothing is wrong with; returns its row."""
        default = {"encrypted": True, "requests": NAN, "preexisting": False, "keepalive_probes": True}
        self.rows["connections"].append(testing.connection(**(default | columns)))
        return len(self.rows["connections"]) - 1

    def call(self, row: int, at: float, wait: float = 50.0, *, send: float = 0.0, **columns: Any) -> int:
        """Add a call in plaintext, sent within `send` and answered at once after `wait`; returns its row."""
        sent, end = at + send, at + send + wait
        wait = columns.pop("wait_ms", wait)
        default = {
            "source": "plaintext", "protocol": "http/1.1", "status": 200.0, "complete": True, "tid": 100.0,
            "method": "POST", "path": "/v1/x", "send_ms": send, "total_ms": send + wait, "sent_ns": sent * 1e6,
            "first_byte_ns": end * 1e6, "ended_ns": end * 1e6,
        }  # fmt: skip
        self.rows["requests"].append(testing.request(row, at, wait, **(default | columns)))
        return len(self.rows["requests"]) - 1

    def stream(
        self,
        row: int,
        at: float,
        gaps: Sequence[float] = (20.0,) * 39,
        *,
        first: float = 100.0,
        kinds: Sequence[str] | None = None,
        exact: bool = True,
        sizes: Sequence[int] | None = None,
        **columns: Any,
    ) -> int:
        """Add a stream: its first piece `first` after the request, the others after `gaps`; returns its row.

        `exact`: seen in plaintext, with `kinds` (content where none are given); else in records of `sizes`.
        """
        times = [at + first, *(at + first + sum(gaps[: index + 1]) for index in range(len(gaps)))]
        facts = {"kind": "sse" if exact else None, "chunks": len(times), "first_chunk_ms": first}
        if exact:
            facts["first_token_ms"] = first
        default = {
            "stream": facts, "source": "plaintext" if exact else "records", "ended_ns": times[-1] * 1e6,
            "total_ms": times[-1] - at, "first_byte_ns": times[0] * 1e6, "receive_ms": times[-1] - times[0],
        }  # fmt: skip
        number = self.call(row, at, first, **(default | columns))
        for index, time in enumerate(times):
            if exact:
                self.rows["chunks"].append(testing.chunk(number, time, kinds[index] if kinds else "content"))
            size = sizes[index] if sizes else 120
            self.rows["records"].append(testing.record(row, "receive", time, size))
            self.rows["bursts"].append(testing.burst(row, "receive", time, size + 5))
        return number

    def tables(self) -> Tables:
        """Return the tables."""
        rows: dict[str, Any] = self.rows
        return testing.tables(span_ms=self.span_ms, **rows)

    def findings(self, **options: Any) -> list[Finding]:
        """Return what the analyses say; they all must be able to."""
        report = examine(self.tables(), Options(**options))
        assert report.failures == ()
        return list(report.findings)

    def codes(self) -> list[str]:
        """Return the codes of the findings, loudest first."""
        return [finding.code for finding in self.findings()]

    def loud(self) -> list[str]:
        """Return the codes above info."""
        return [finding.code for finding in self.findings() if finding.severity is not Severity.INFO]

    def only(self, code: str) -> Finding:
        """Return the one finding there is, which must have this code."""
        found = self.findings()
        assert [finding.code for finding in found] == [code]
        assert "?" not in found[0].title + "".join(line.note for line in found[0].evidence)
        return found[0]


@pytest.fixture
def calls() -> Calls:
    return Calls()
