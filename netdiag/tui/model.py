# SPDX-License-Identifier: Apache-2.0
"""What the worker hands to the widgets: immutable snapshots. Unknown is None; nothing changes under a reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from netdiag.findings import Finding
from netdiag.tables import Tables
from netdiag.tui.columns import Calls

__all__ = ["Examination", "Figures", "Rate", "Row", "Snapshot", "State"]


class State(StrEnum):
    """How the recording stands."""

    OPENING = "opening"
    LIVE = "live"
    QUIET = "quiet"
    """It could grow, and does not."""
    FINISHED = "finished"
    TRUNCATED = "truncated"
    """It breaks off: damaged, or the recorder died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Counts and percentiles of some requests and connections."""

    requests: int | None
    """None = nobody could tell whether what flowed was requests."""
    connections: int
    requests_s: float | None
    connections_s: float | None
    reuse: float | None
    resumption: float | None
    wait_ms: tuple[float | None, float | None, float | None]
    """p50, p95, p99."""
    first_token_ms: tuple[float | None, float | None, float | None]
    errors: int | None
    retries: int | None
    failed_connections: int
    time_ms: float
    """What their requests took, together."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """Of that time, milliseconds by part; those that nobody could tell are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A process and a host that it talks to."""

    pid: int | None
    program: str | None
    host: str | None
    figures: Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A figure over time, in equal steps, oldest first; None = no value in that step."""

    name: str
    unit: str
    now: float | None
    history: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Examination:
    """Tables and findings of a recording, or of the newest whole connections of a large one."""

    tables: Tables
    findings: tuple[Finding, ...]
    failures: tuple[str, ...]
    stalls: Mapping[int, Sequence[Mapping[str, object]]]
    """By row of requests."""
    calls: Calls
    covered: int
    total: int
    """Connections: how many of all were examined."""
    seconds: float
    """What it cost."""
    since_ms: float | None = None
    """Only what came from then on was examined; None: connections are examined whole."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot:
    """All that the screens show, at one moment."""

    state: State = State.OPENING
    why: str | None = None
    """Why it is not as it should be."""
    what: str = ""
    """What was traced."""
    started: str = ""
    length_s: float = 0.0
    lost: int | None = None
    seen: int = 0
    rows: tuple[Row, ...] = ()
    total: Figures | None = None
    rates: tuple[Rate, ...] = ()
    step_s: float = 1.0
    """Of the rates' history."""
    calls: Calls = field(default_factory=Calls.none)
    examination: Examination | None = None
    quick: bool = False
    """The figures come from raw records: waits are those that the program saw."""
    requests: int = 0
    """All that were seen; the figures are of the newest of them where `calls` are fewer."""
    programs: Mapping[int, str] = field(default_factory=dict)
    weights: Mapping[str, Any] | None = None
    """The document `netdiag.weights/1` of a load of weights; None where none was recorded."""
    fresh: frozenset[tuple[str, str | None, int | None, str | None]] = frozenset()
    """Findings that came up with the newest examination, by `key`."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings, loudest first; none before there was an examination."""
        return () if self.examination is None else self.examination.findings


def key(finding: Finding) -> tuple[str, str | None, int | None, str | None]:
    """Return what makes two findings of different moments the same."""
    return finding.code, finding.cause, finding.subject.pid, finding.subject.remote or finding.subject.host
