# SPDX-License-Identifier: Apache-2.0
"""What a check says about lost connections, and the small judgements that all checks share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TypeAlias

from netdiag.analysis.answers import CLOSING_ALERTS
from netdiag.analysis.case import Group
from netdiag.analysis.links import Link, known
from netdiag.findings import Learned

__all__ = [
    "PROMPT_MS",
    "Check",
    "Claim",
    "at_once",
    "cluster",
    "complete",
    "learned",
    "left_unread",
    "prompt_local",
    "soon",
    "soon_remote",
    "steady",
    "tolerance",
]

PROMPT_MS = 400.0
"""A program that closes within this time of an answer was done with the connection: no idle timer is that short."""
_TIMER_MS = 150.0
_EVEN_MS, _EVEN = 10.0, 0.03
_SERVER_SOON_MS = 50.0
"""A server that closes within this and one round trip did not wait for an idle timer."""
_EXIT_NS = 150e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One cause for lost connections of one group."""

    code: str
    lost: tuple[Link, ...]
    confidence: float
    cause: str | None = None
    learned: Learned | None = None
    note: str = ""
    """What stands beside the count in the evidence."""
    pays: tuple[Link, ...] | None = None
    """Connections that the fix would save; None = those opened after the lost ones."""
    cost_ms: float | None = None
    """Milliseconds; None = the set-up times of `pays`."""
    quiet: bool = False
    """Never above info."""
    breaks: bool = False
    """Requests fail of it."""
    words: dict[str, str] = field(default_factory=dict)
    """Further values for the texts."""


Check: TypeAlias = Callable[[Group, Sequence[Link]], Claim | None]
"""Looks at the lost connections that no earlier check explained."""


def at_once(link: Link) -> bool:
    """Closed so soon after a response that the order of the closes proves nothing."""
    return link.idle_before_close_ms <= link.floor_ms


def complete(link: Link) -> bool:
    """The last request was answered and no byte of the answer was left unread."""
    answered = link.calls[-1].answered if link.calls else link.app > 0
    return answered and not left_unread(link)


def left_unread(link: Link) -> bool:
    """Bytes of an answer lay unread at the end, or came after it; a closing alert of TLS is none."""
    if link.closed_by == "remote" and link.encrypted is not False and link.unread in CLOSING_ALERTS:
        return False
    return bool(link.unread_close) or link.unread > 0 or link.late_bytes > 0


def prompt_local(link: Link) -> bool:
    """The program closed it soon after a complete answer."""
    return link.closed_by == "local" and complete(link) and link.idle_before_close_ms <= PROMPT_MS


def soon(link: Link) -> bool:
    """Closed sooner after the last data than any idle timer would do."""
    return link.idle_before_close_ms <= _SERVER_SOON_MS + (link.rtt_ms if known(link.rtt_ms) else 0.0)


def soon_remote(link: Link) -> bool:
    """The server closed it in good order, with or soon after its answer."""
    return link.closed_by == "remote" and link.close != "rst" and complete(link) and soon(link)


def at_exit(link: Link, group: Group, span_ns: float) -> bool:
    """The end of the program or of the trace closed it, not a habit."""
    end = group.end_ns if known(group.end_ns) else span_ns
    late = not at_once(link) and link.closed_by == "local" and link.closing_ns >= end - _EXIT_NS
    # a program that opens another connection afterwards goes on
    return late and not any(other.opened_ns > link.closing_ns for other in group.links)


def steady(lost: Sequence[Link]) -> bool:
    """They lay idle for one and the same time, long enough for a timer: no program is done so evenly.

    One in five may be later: a timer waits for a processor, but is never early.
    """
    ages = sorted(link.idle_before_close_ms for link in lost)
    ages = ages[: max(1, len(ages) - len(ages) // 5)]
    return ages[0] >= _TIMER_MS and ages[-1] - ages[0] <= max(_EVEN_MS, _EVEN * ages[-1])


def tolerance(value: float) -> float:
    """Return how far timers of one setting may lie apart, in the unit of milliseconds."""
    return max(60.0, 0.05 * value)


def cluster(links: Sequence[Link], measure: Callable[[Link], float]) -> list[Link]:
    """Return the largest set of connections whose measure (milliseconds) is one and the same number."""
    ordered = sorted((link for link in links if known(measure(link))), key=measure)
    best: list[Link] = []
    for first, link in enumerate(ordered):
        limit = measure(link) + tolerance(measure(link))
        same = [other for other in ordered[first:] if measure(other) <= limit]
        best = same if len(same) > len(best) else best
    return best


def learned(name: str, values_ms: Sequence[float]) -> Learned:
    """Return the number that several measurements (milliseconds) agree on, in seconds."""
    return Learned(
        name=name, value=median(values_ms) / 1e3, low=min(values_ms) / 1e3, high=max(values_ms) / 1e3, unit="s"
    )
