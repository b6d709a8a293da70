# SPDX-License-Identifier: Apache-2.0
"""Lost connections that the program ended: a client per call, per thread or per process, and idle expiry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from netdiag.analysis.case import Group
from netdiag.analysis.claims import (
    PROMPT_MS,
    Claim,
    at_once,
    cluster,
    complete,
    learned,
    prompt_local,
    steady,
    tolerance,
)
from netdiag.analysis.links import Link, known
from netdiag.analysis.pricing import successors
from netdiag.findings import Learned

__all__ = ["client_idle_expiry", "client_per_call", "client_per_thread"]

_LAZY_BEFORE_NS = 5e6
_LAZY_AFTER_NS = 50e6
_DOUBT = 0.6
_CONTEXT_MS = 8.0
"""A pause this long before each ClientHello is the building of a TLS context."""
_HOPPING = frozenset({"go", "java"})
"""Run-times that move a connection between threads at will: threads prove nothing there."""


def client_idle_expiry(group: Group, rest: Sequence[Link]) -> Claim | None:
    """The program ends connections that lay idle: at the next call, or by a timer."""
    lost = [link for link in rest if _idle_local(link)]
    even = len(lost) >= 3 and _by_timer(group, lost)
    lost = lost if even else [link for link in lost if link.idle_before_close_ms > PROMPT_MS] or lost
    reused = [gap for link in group.links for gap in link.gaps_ms]
    if len(lost) < 2 or len(successors(lost, group.links)) < 2:
        return None
    shortest, longest = min(link.idle_before_close_ms for link in lost), max(reused, default=0.0)
    contradicted = longest > shortest + tolerance(shortest)
    if contradicted or (shortest <= PROMPT_MS and not 0 < longest < shortest and not even):
        return None
    lazy = [link for link in lost if _next_opened(link, group)]
    claim = _lazy(lost, longest, shortest) if 2 * len(lazy) >= len(lost) else _timer(lost)
    if claim is not None and shortest <= PROMPT_MS and not longest:
        work = "; a program that works so evenly with each answer before it closes would look the same"
        return replace(claim, confidence=_DOUBT, note=claim.note + work)
    return claim


def _by_timer(group: Group, lost: Sequence[Link]) -> bool:
    """The ends are as even as a timer's, and the library has one."""
    libraries = set(group.process.libraries) if group.process else set()
    return steady(lost) and libraries != {"requests"}


def _idle_local(link: Link) -> bool:
    return link.closed_by == "local" and complete(link) and not at_once(link) and known(link.idle_before_close_ms)


def _next_opened(link: Link, group: Group) -> bool:
    """The next connection was opened in the moment this one was closed."""
    low, high = link.closing_ns - _LAZY_BEFORE_NS, link.closing_ns + _LAZY_AFTER_NS
    return any(other is not link and low <= other.opened_ns <= high for other in group.links)


def _lazy(lost: Sequence[Link], longest: float, shortest: float) -> Claim:
    value = (longest + shortest) / 2 if longest else shortest
    known_low = f"still used after {longest / 1e3:.2f} s of rest, " if longest else ""
    return Claim(
        code="reuse.client-idle-expiry",
        lost=tuple(lost),
        confidence=(0.9 if longest else 0.75) + (0.05 if len(lost) >= 3 else 0.0),
        cause="lazy",
        learned=Learned(name="idle_expiry", value=value / 1e3, low=longest / 1e3, high=shortest / 1e3, unit="s"),
        note=f"{known_low}closed by the program at its next call after {shortest / 1e3:.2f} s or more",
    )


def _timer(lost: Sequence[Link]) -> Claim | None:
    same = cluster(lost, lambda link: link.idle_before_close_ms)
    if len(same) < 2 or len(same) < 0.6 * len(lost):
        return None
    ages = [link.idle_before_close_ms for link in same]
    return Claim(
        code="reuse.client-idle-expiry",
        lost=tuple(same),
        confidence=min(0.95, 0.8 + 0.05 * len(same)),
        cause="timer",
        learned=learned("idle_expiry", ages),
        note=f"closed by the program's timer {min(ages) / 1e3:.2f} to {max(ages) / 1e3:.2f} s after the last answer",
    )


def _single(group: Group, rest: Sequence[Link]) -> list[Link]:
    """Connections that the program ended after their only call, when that is what most of its connections are."""
    lost = [link for link in rest if prompt_local(link) and link.app == 1]
    used = [link for link in group.links if link.used]
    enough = (
        len(lost) >= 3 and not _by_timer(group, lost) and len(lost) >= 0.5 * len(used) and len(lost) > group.calls / 10
    )
    return lost if enough and len(successors(lost, group.links)) >= 2 else []


def client_per_thread(group: Group, rest: Sequence[Link]) -> Claim | None:
    """Every connection belongs to a thread of its own."""
    lost = _single(group, rest)
    used = [link for link in group.links if link.used]
    threads = {_thread(link) for link in used if known(_thread(link))}
    hops = any(link.io_tids > 0 for link in used)
    libraries = set(group.process.libraries) if group.process else set()
    if not lost or hops or len(threads) < 3 or len(threads) < 0.9 * len(used) or libraries & _HOPPING:
        return None
    return Claim(
        code="reuse.client-per-thread",
        lost=tuple(lost),
        confidence=0.85 if all(known(link.io_tids) for link in used) else 0.7,
        note=f"{len(used)} connections, {len(threads)} threads, none shared",
    )


def _thread(link: Link) -> float:
    return link.io_tid if known(link.io_tid) else link.tid


def client_per_call(group: Group, rest: Sequence[Link]) -> Claim | None:
    """The program ends every connection after its only call."""
    lost = _single(group, rest)
    if not lost:
        return None
    undecided = sum(map(at_once, lost)) > 0.5 * len(lost)
    pauses = [pause for link in lost if known(pause := _context_ms(link))]
    fresh = len(pauses) >= 0.8 * len(lost) and median(pauses) >= _CONTEXT_MS
    note = f"closed by the program within {max(link.idle_before_close_ms for link in lost):.1f} ms of the answer"
    if anew := _built_anew(lost):
        note += f", a new TLS context for each ({median(anew):.1f} ms)"
    elif fresh:
        note += f", {median(pauses):.0f} ms of the program's own work before each handshake"
    if undecided:
        note += "; an answer that asks for the close would look the same"
    confidence = (0.7 if undecided else 0.9) + (0.05 if fresh or anew else 0.0)
    return Claim(
        code="reuse.client-per-call",
        lost=tuple(lost),
        confidence=min(0.95, confidence) - (0.0 if all(link.exact for link in lost) else 0.05),
        cause="unknown" if undecided else None,
        note=note,
    )


def _built_anew(lost: Sequence[Link]) -> list[float]:
    """Return the times that building TLS contexts took, when the library was seen to do so for most connections."""
    times = [link.context_ms for link in lost if link.contexts >= 1]
    return times if len(times) >= 0.8 * len(lost) else []


def _context_ms(link: Link) -> float:
    hello = link.turns[0].began_ns if link.turns and link.encrypted is not False else float("nan")
    return (hello - link.established_ns) / 1e6
