# SPDX-License-Identifier: Apache-2.0
"""What a finding is: a cause with its proof, its cost and the setting to change."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

__all__ = ["Advice", "Evidence", "Finding", "Learned", "Severity", "Subject"]


class Severity(StrEnum):
    """How much it matters; the order is the order of reports."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Whom the finding is about; None where it is about more than one."""

    pid: int | None = None
    exe: str | None = None
    remote: str | None = None
    """Address and port, `192.0.2.1:443` or `[2001:db8::1]:443`."""
    host: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One observation that supports the finding."""

    kind: str
    """Which table: connection, request, handshake, process, listener, loss."""
    id: str | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """A number that the evidence shows."""

    name: str
    value: float
    low: float
    high: float
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to change, in the words of the library it applies to."""

    text: str
    setting: str | None = None
    value: str | None = None
    snippet: str | None = None
    applies_to: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One cause. Field meanings are those of `findings[]` in the JSON output."""

    code: str
    cause: str | None
    severity: Severity
    confidence: float
    title: str
    subject: Subject
    count: int
    of: int
    cost_ms: float | None
    share_of_total: float | None
    what_if: str | None
    evidence: tuple[Evidence, ...] = field(default=())
    learned: Learned | None = None
    advice: tuple[Advice, ...] = field(default=())
    explain: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the finding as plain JSON values."""
        return asdict(self)
