# SPDX-License-Identifier: Apache-2.0
"""One anycast address, several sites: some source ports are sent elsewhere, and every new connection draws lots."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from netdiag.route import figures
from netdiag.route.figures import Figures
from netdiag.route.model import Attempt, Connect
from netdiag.route.pop_names import from_headers

__all__ = ["LEAST_PORTS", "Cluster", "clusters", "redial_gain_ms"]

LEAST_PORTS = 11
"""So many source ports meet a way that carries a quarter of the flows with 95 % confidence."""

_LEAST_GAP_MS = 15.0
_LEAST_SHARE = 2
_LEAST_TURNS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Connections to one address that were answered alike."""

    pop: str | None
    """Airport code by header; None: told apart by round trip alone."""
    figures: Figures
    ports: tuple[int, ...]

    @property
    def count(self) -> int:
        """Return how many connections it holds."""
        return self.figures.n


def clusters(connect: Connect) -> tuple[Cluster, ...]:
    """Return the groups of connections to an address, the nearest first; one group where no flip shows.

    Groups differ by the point of presence that they name. Where none is named they differ where a gap in the round
    trips is wider than 15 ms and four times what either side scatters, with two connections at least on both sides,
    and lots were drawn: the moment does not explain it.
    """
    measured = figures.connect_ms([connect])
    if not measured:
        return ()
    named: dict[str | None, list[tuple[Attempt, float]]] = defaultdict(list)
    for attempt, ms in measured:
        pop = from_headers(attempt.http.headers) if attempt.http else None
        named[pop.code if pop else None].append((attempt, ms))
    codes = [code for code in named if code is not None]
    if len(codes) > 1:
        groups = [_cluster(code, pairs) for code, pairs in named.items() if code is not None]
        return tuple(sorted(groups, key=lambda one: one.figures.min_ms))
    code = codes[0] if codes else None
    enough = code is None and len(measured) >= LEAST_PORTS
    parts = _split(sorted(measured, key=lambda pair: pair[1])) if enough else [measured]
    return tuple(_cluster(code if len(parts) == 1 else None, part) for part in parts)


def redial_gain_ms(found: Sequence[Cluster]) -> float | None:
    """Return what a connection of the slowest group would gain by landing in the nearest one; None for one group."""
    if len(found) < 2:
        return None
    return max(one.figures.median_ms for one in found) - found[0].figures.median_ms


def _split(ordered: list[tuple[Attempt, float]]) -> list[list[tuple[Attempt, float]]]:
    times = [ms for _, ms in ordered]
    cuts = range(_LEAST_SHARE, len(times) - _LEAST_SHARE + 1)
    at = max(cuts, key=lambda cut: times[cut] - times[cut - 1], default=0)
    if not at:
        return [ordered]
    low, high = times[:at], times[at:]
    gap = high[0] - low[-1]
    scatter = max(_scatter(low), _scatter(high))
    if gap <= max(_LEAST_GAP_MS, 4 * scatter) or not _by_lot(ordered[:at], ordered[at:]):
        return [ordered]
    return [ordered[:at], ordered[at:]]


def _scatter(ordered: Sequence[float]) -> float:
    """Return the median distance from the median, of two values as well."""
    known = figures.mad(ordered)
    return (ordered[-1] - ordered[0]) / 2 if known is None else known


def _by_lot(near: Sequence[tuple[Attempt, float]], far: Sequence[tuple[Attempt, float]]) -> bool:
    """Tell whether the source port decided, and not the moment.

    Two slow connections had a quick one begin and end while they were under way: neither the line nor a machine paused.
    Or slow ones came in three turns with quick ones between; a pause or two make a turn or two.
    """
    witnessed = sum(any(_within(one, slow) for one in near) for slow in far)
    return witnessed >= _LEAST_SHARE or _turns(near, far) >= _LEAST_TURNS


def _within(quick: tuple[Attempt, float], slow: tuple[Attempt, float]) -> bool:
    """Tell whether a connection began and stood while another one was being opened."""
    (one, one_ms), (other, other_ms) = quick, slow
    last = other.started_ns + other_ms * 1e6
    return other.started_ns <= one.started_ns and one.started_ns + one_ms * 1e6 <= last


def _turns(near: Sequence[tuple[Attempt, float]], far: Sequence[tuple[Attempt, float]]) -> int:
    """Return how many times slow connections follow a quick one, or come first, in order of their start."""
    starts = sorted([*((one.started_ns, 0) for one, _ in near), *((one.started_ns, 1) for one, _ in far)])
    return sum(slow and not before for (_, before), (_, slow) in pairwise([(0, 0), *starts]))


def _cluster(pop: str | None, pairs: Sequence[tuple[Attempt, float]]) -> Cluster:
    found = figures.of(ms for _, ms in pairs)
    assert found is not None  # noqa: S101 - no group is empty
    ports = tuple(attempt.source_port for attempt, _ in pairs if attempt.source_port is not None)
    return Cluster(pop=pop, figures=found, ports=ports)
