# SPDX-License-Identifier: Apache-2.0
"""Pools that do not fit: too small for the parallel calls, or several where one would do."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low

from netdiag.analysis.case import Group
from netdiag.analysis.claims import Claim, prompt_local
from netdiag.analysis.links import Link, known
from netdiag.analysis.pricing import successors
from netdiag.findings import Learned

__all__ = ["cold_burst", "parallel_calls", "pool_split", "pool_too_small"]

_SLACK_NS = 5e6
_OPEN_NS = 100e6
_BURST_NS = 50e6
_BURST = 8
_MOST_KEPT = 64
"""Connections looked at around one close; larger pools are judged by these."""


def parallel_calls(links: Sequence[Link]) -> int:
    """Return how many calls ran at once at most."""
    edges = [(call.began_ns, 1) for link in links for call in link.calls if call.answered]
    edges += [(call.last_byte_ns, -1) for link in links for call in link.calls if call.answered]
    running = most = 0
    for _, step in sorted(edges):
        running += step
        most = max(most, running)
    return most


def pool_too_small(group: Group, rest: Sequence[Link]) -> Claim | None:
    """The program closes surplus connections after their answers while it keeps using others."""
    ended = [link for link in rest if prompt_local(link) and link.calls]
    reused = [link for link in group.links if len(link.calls) >= 2][:_MOST_KEPT]
    if len(ended) < 3 or not reused:
        return None
    kept = {link.row: _kept(link, reused) for link in ended}
    surplus = [link for link in ended if kept[link.row]]
    needed = [link for link in surplus if all(_busy_at(other, link) for other in kept[link.row])]
    if len(surplus) < 3 or len(needed) < 0.5 * len(surplus):
        return None
    if len(successors(surplus, group.links)) < 2:
        return None
    size, burst = median_low([len(kept[link.row]) for link in surplus]), parallel_calls(group.links)
    if burst <= size:
        return None
    return Claim(
        code="reuse.pool-too-small",
        lost=tuple(surplus),
        confidence=0.85,
        learned=Learned(name="connections_kept", value=size, low=size, high=size, unit="connections"),
        note=f"up to {burst} calls ran at once",
        words={"kept": str(size), "burst": str(burst)},
    )


def _kept(link: Link, reused: Sequence[Link]) -> list[Link]:
    """Return the connections that were there when this one was closed and that carried calls afterwards."""
    return [
        other
        for other in reused
        if other is not link and other.opened_ns < link.closing_ns
        and any(call.began_ns > link.closing_ns for call in other.calls)
    ]  # fmt: skip


def _busy_at(other: Link, link: Link) -> bool:
    """`other` carried a call, or was being made for one, when `link` was opened; a younger one during its last call."""
    setup = link.setup_ms * 1e6 if known(link.setup_ms) else 0.0
    low, high = link.opened_ns - _SLACK_NS, link.opened_ns + setup + _SLACK_NS
    if other.opened_ns > high:
        low, high = link.calls[-1].began_ns, link.calls[-1].last_byte_ns
    first = min(other.opened_ns, other.calls[0].began_ns)
    if first <= high and other.calls[0].last_byte_ns >= low:
        return True
    return any(call.began_ns <= high and call.last_byte_ns >= low for call in other.calls)


def pool_split(group: Group, rest: Sequence[Link]) -> Claim | None:
    """New connections are opened beside idle ones, again and again, and the idle ones are not used any more."""
    pairs = _pairs(group.links)
    idle, opened = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    if len(pairs) < 3 or len(pairs) <= group.calls / 3:
        return None
    addresses = {link.remote_ip for link in group.links if link.used}
    threads = {link.io_tid for link in group.links if link.used and known(link.io_tid)}
    words = {"addresses": str(len(addresses))}
    code, note = "reuse.pool-split", "each stood open, with its call done, when another was opened"
    if len(addresses) >= 3 and len(addresses) >= 0.6 * len(idle):
        code, note = "reuse.address-rotation", "fewer than two calls on most of them"
    elif len(threads) >= 0.9 * len([link for link in group.links if link.used]):
        code, note = "reuse.client-per-thread", f"{len(threads)} threads, none shared; they stay open, unused"
    return Claim(code=code, lost=tuple(idle), confidence=0.7, pays=tuple(opened), note=note, words=words)


def _pairs(links: Sequence[Link]) -> list[tuple[Link, Link]]:
    """Return (idle connection, connection opened beside it); each stands in one pair at most on either side."""
    waiting: list[Link] = []
    pairs: list[tuple[Link, Link]] = []
    pending = [link for link in links if link.used and link.calls and not link.unread > 0]
    for link in pending:
        free = [other for other in waiting if _idle_beside(other, link)]
        if free:
            pairs.append((free[0], link))
            waiting.remove(free[0])
        waiting = [other for other in waiting if not _over(other, link)]
        waiting.append(link)
    return pairs


def _over(other: Link, link: Link) -> bool:
    return known(other.closing_ns) and other.closing_ns < link.opened_ns + _OPEN_NS


def _idle_beside(other: Link, link: Link) -> bool:
    """`other` had done its last call when `link` was opened, and stayed open for a while."""
    return other.calls[-1].answered and other.calls[-1].last_byte_ns < link.opened_ns and not _over(other, link)


def cold_burst(group: Group, rest: Sequence[Link]) -> Claim | None:
    """Many connections are made in one moment, because a burst of calls found none."""
    used = [link for link in group.links if link.used and known(link.opened_ns)]
    best: list[Link] = []
    first = 0
    for last, link in enumerate(used):
        while used[first].opened_ns < link.opened_ns - _BURST_NS:
            first += 1
        best = used[first : last + 1] if last + 1 - first > len(best) else best
    setups = [link.setup_ms for link in best if known(link.setup_ms)]
    if len(best) < _BURST or not setups:
        return None
    return Claim(
        code="reuse.cold-burst", lost=tuple(best), confidence=0.8, pays=(), cost_ms=max(setups), quiet=True,
        note=f"set up in {min(setups):.0f} to {max(setups):.0f} ms",
    )  # fmt: skip
