# SPDX-License-Identifier: Apache-2.0
"""Handshakes as the analyses see them: joined to their connections, grouped by program and server. Judges nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from netdiag.analysis.build import Seen, milliseconds
from netdiag.analysis.case import Case, Process
from netdiag.analysis.links import NAN, Link, column, flag, known, number, text
from netdiag.findings import Evidence, Severity
from netdiag.tables.hellos import Chained

__all__ = ["INITIAL_WINDOW", "Server", "Shake", "all_shakes", "saw", "segment", "servers"]

INITIAL_WINDOW = 10
"""Segments that a server may send before the first acknowledgement: RFC 6928."""
_USUAL_SEGMENT = 1460
"""Bytes; the segments of a loopback interface are larger than those of any path that matters."""
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Shake:
    """One TLS handshake of a client. Columns of `handshakes` under their names; NaN and None are unknown."""

    id: str
    link: Link
    started_ns: float
    duration_ms: float
    outcome: str | None
    alert: str | None
    version: str | None
    cipher: str | None
    group: str | None
    sni: str | None
    offered: str | None
    resumed: bool | None
    early_data: str | None
    hello_retry: bool | None
    resumable: bool | None
    client_hello_bytes: float
    server_flight_bytes: float
    certificate_count: float
    tickets_issued: float
    network_ms: float
    server_ms: float
    client_ms: float
    chain: tuple[Chained, ...] | None = None
    """The server's certificates, its own first; None where they did not pass in the clear."""
    client_print: str | None = None
    """What it offers, apart from sessions."""
    server_print: str | None = None
    """What the final ServerHello chose, in its order."""

    @property
    def completed(self) -> bool:
        """It came to its end."""
        return self.outcome == "completed"

    @property
    def full(self) -> bool:
        """It is known to have resumed nothing."""
        return self.completed and self.resumed is False

    @property
    def offers(self) -> bool:
        """The client offered a session."""
        return self.offered not in (None, "none")

    @property
    def ended_ns(self) -> float:
        """When the client's Finished was sent."""
        return self.started_ns + self.duration_ms * 1e6

    @property
    def rtt_ms(self) -> float:
        """The shortest round trip of its connection."""
        return self.link.min_rtt_ms if known(self.link.min_rtt_ms) else self.link.rtt_ms

    @property
    def is_13(self) -> bool:
        """TLS 1.3 or a draft of it."""
        return self.version is not None and self.version.startswith("TLSv1.3")

    @property
    def waits(self) -> float:
        """Round trips that a resumed handshake would have saved; 0 in TLS 1.3 unless the flight is too long."""
        return 0.0 if self.is_13 and not self.long_flight else 1.0

    @property
    def long_flight(self) -> bool:
        """The server had to wait for an acknowledgement before the end of its first flight, on this very path."""
        return self.server_flight_bytes > INITIAL_WINDOW * self.link.mss


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The handshakes of one program, or of one process of it, with one server, by time."""

    host: str
    """The name that the clients asked for, else the address; with the port."""
    shakes: tuple[Shake, ...]
    process: Process | None
    calls: float
    """Requests on the connections of these handshakes, as far as known."""

    def completed(self) -> list[Shake]:
        """Return the handshakes that came to their end."""
        return [shake for shake in self.shakes if shake.completed]


_TEXT = (
    "outcome",
    "alert",
    "version",
    "cipher",
    "group",
    "sni",
    "offered",
    "early_data",
    "client_print",
    "server_print",
)
_FLAGS = ("resumed", "hello_retry", "resumable")
_NUMBERS = (
    "started_ns", "duration_ms", "client_hello_bytes", "server_flight_bytes", "certificate_count", "tickets_issued",
    "network_ms", "server_ms", "client_ms",
)  # fmt: skip


def servers(case: Case, *, by_process: bool = False) -> list[Server]:
    """Return the handshakes of the traced clients by program and server; sessions are kept by each process apart."""
    found: dict[tuple[float | str, str], list[Shake]] = {}
    for shake in all_shakes(case):
        pid = shake.link.pid if known(shake.link.pid) else -1.0
        process = case.processes.get(pid)
        program = process.exe if process and process.exe and not by_process else pid
        if shake.link.role == "client":
            found.setdefault((program, _host(shake)), []).append(shake)
    return [
        Server(
            host=host,
            shakes=tuple(sorted(shakes, key=lambda shake: shake.started_ns)),
            process=case.processes.get(shakes[0].link.pid),
            calls=sum(shake.link.app for shake in shakes if known(shake.link.app)),
        )
        for (_, host), shakes in found.items()
    ]


def _host(shake: Shake) -> str:
    port = shake.link.remote_port
    return f"{shake.sni}:{int(port)}" if shake.sni and known(port) else shake.link.remote


def all_shakes(case: Case) -> list[Shake]:
    """Return the handshakes of both sides, in the order of the table."""
    table = case.tables.handshakes
    read: dict[str, Callable[[Any], Any]] = {
        **dict.fromkeys(_TEXT, text), **dict.fromkeys(_FLAGS, flag), **dict.fromkeys(_NUMBERS, number), "chain": _chain,
    }  # fmt: skip
    cells = {name: [convert(cell) for cell in column(table, name)] for name, convert in read.items()}
    rows = zip(column(table, "id"), column(table, "connection"), strict=True)
    return [
        Shake(id=str(name), link=case.links[int(row)], **{key: values[at] for key, values in cells.items()})
        for at, (name, row) in enumerate(rows)
        if 0 <= int(row) < len(case.links)
    ]


def _chain(value: Any) -> tuple[Chained, ...] | None:
    return value if isinstance(value, tuple) and value else None


def segment(link: Link) -> float:
    """Return the bytes of a segment on a usual path: no more than Ethernet carries, whatever loopback does."""
    return min(link.mss, _USUAL_SEGMENT) if known(link.mss) and link.mss > 0 else _USUAL_SEGMENT


def saw(
    code: str,
    server: Server,
    shakes: Sequence[Shake],
    *,
    of: int,
    confidence: float,
    cost_ms: float = NAN,
    ceiling: Severity | None = None,
    **more: Any,
) -> Seen:
    """Return what was seen on these handshakes; `more` are further members of `Seen`."""
    return Seen(
        code=code,
        links=tuple(shake.link for shake in shakes),
        count=len(shakes),
        of=of,
        confidence=confidence,
        cost_ms=cost_ms,
        ceiling=ceiling,
        calls=max(server.calls, float(of), 1.0),
        host=server.host,
        process=server.process,
        evidence=tuple(Evidence(kind="handshake", id=shake.id, note=_story(shake)) for shake in shakes[:_SHOWN]),
        **more,
    )


def _story(shake: Shake) -> str:
    parts = [shake.version or "version unknown"]
    if shake.completed:
        kind = {True: "resumed", False: "full", None: "resumed or full"}[shake.resumed]
        parts.append(f"{kind} in {milliseconds(shake.duration_ms)}" if known(shake.duration_ms) else kind)
    else:
        parts.append(shake.outcome or "unknown")
    if shake.alert:
        parts.append(f"alert {shake.alert}")
    if shake.offered is not None:
        parts.append({"none": "no session offered"}.get(shake.offered, f"{shake.offered} offered"))
    if known(shake.server_ms) and known(shake.client_ms):
        parts.append(f"server {milliseconds(shake.server_ms)}, client {milliseconds(shake.client_ms)}")
    return ", ".join(parts)
