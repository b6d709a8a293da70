# SPDX-License-Identifier: Apache-2.0
"""Connections of an event loop that is gone: a client of asyncio that outlives the loop in which it opened them.

`asyncio.run()` per call with one shared client: the call that follows takes the connection of the last one, writes its
request straight to the socket, and fails when it would wait for the answer, since the loop to wake it is closed.
The answer arrives and not a byte of it is ever read; the call after that opens a connection of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from netdiag.analysis.case import Group, Process
from netdiag.analysis.claims import Claim
from netdiag.analysis.links import Link, known
from netdiag.analysis.pricing import setup_cost

__all__ = ["loop_per_call"]

_HABIT = 2
"""Answers that nobody read, each with a new connection behind it."""
_WAITED_NS = 5e6
"""An answer that came so shortly before the end of what was seen may have been about to be read."""
_ASYNC = frozenset({"httpx", "openai", "anthropic", "litellm", "aiohttp"})
"""Libraries with a client for asyncio."""


def loop_per_call(group: Group, rest: Sequence[Link]) -> Claim | None:
    """Requests on used connections whose answers came and were left altogether, each followed by a new connection."""
    if not _is_python(group.process):
        return None
    used = [link for link in group.links if link.used]
    left = [link for link in used if _left(link) and _followed(link, used)]
    if len(left) < _HABIT or len(left) < 0.5 * len(used):
        return None
    paid = [link for link in used if any(link.opened_ns > _asked(other) for other in left)]
    spent = sum((_next_opened(link, used) - _asked(link)) / 1e6 for link in left)
    made = setup_cost(paid)
    return Claim(
        code="reuse.loop-per-call",
        lost=tuple(left),
        confidence=0.9 if all(link.exact for link in left) else 0.8,
        pays=tuple(paid),
        cost_ms=made + min(spent, made) if known(made) else None,
        note="on each of them the last answer came and not a byte of it was read, and a new connection followed",
        breaks=True,
    )


def _is_python(process: Process | None) -> bool:
    if process is None:
        return False
    program = (process.exe or process.comm or "").rsplit("/", 1)[-1]
    known_names = set(process.libraries) | set(process.installed)
    return program.startswith(("python", "pypy")) and (not known_names or bool(known_names & _ASYNC))


def _left(link: Link) -> bool:
    """Its last request was answered and nothing of the answer read, though earlier answers had been."""
    if len(link.calls) < 2 or link.closed_by == "remote" or not known(link.last_read_ns):
        return False
    before, last = link.calls[-2:]
    unheard = before.first_byte_ns <= link.last_read_ns < last.sent_ns < link.last_received_ns
    return unheard and not link.closing_ns - link.last_received_ns < _WAITED_NS


def _asked(link: Link) -> float:
    return link.calls[-1].sent_ns


def _next_opened(link: Link, used: Sequence[Link]) -> float:
    return min((other.opened_ns for other in used if other.opened_ns > _asked(link)), default=float("inf"))


def _followed(link: Link, used: Sequence[Link]) -> bool:
    return _next_opened(link, used) < float("inf")
