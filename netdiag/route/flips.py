# SPDX-License-Identifier: Apache-2.0
"""One anycast address, several sites: some source ports are sent elsewhere, and every new connection draws lots."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from netdiag.route import figures
from netdiag.route.figures import Figures
from netdiag.route.model import Attempt, Connect
from netdiag.route.pop_names import from_headers

__all__ = ["LEAST_PORTS", "Cluster", "clusters", "redial_gain_ms"]

LEAST_PORTS = 11
"""So many source ports meet a way that carries a quarter of the flows with 95 % confidence."""

_LEAST_GAP_MS = 15.0
_LEAST_SHARE = 2


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
    the slow ones not all at one moment.
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
    if gap <= max(_LEAST_GAP_MS, 4 * scatter) or not _at_several_times(ordered[:at], ordered[at:]):
        return [ordered]
    return [ordered[:at], ordered[at:]]


def _scatter(ordered: Sequence[float]) -> float:
    """Return the median distance from the median, of two values as well."""
    known = figures.mad(ordered)
    return (ordered[-1] - ordered[0]) / 2 if known is None else known


def _at_several_times(near: Sequence[tuple[Attempt, float]], far: Sequence[tuple[Attempt, float]]) -> bool:
    """Tell whether slow connections came at different times, with a quick one between the first and the last.

    Where all slow ones were under way at the same moment, something was late for a moment: the line, or a machine.
    """
    starts = sorted(attempt.started_ns for attempt, _ in far)
    apart = starts[-1] - starts[0] >= far[0][1] * 1e6
    return apart and any(starts[0] <= attempt.started_ns <= starts[-1] for attempt, _ in near)


def _cluster(pop: str | None, pairs: Sequence[tuple[Attempt, float]]) -> Cluster:
    found = figures.of(ms for _, ms in pairs)
    assert found is not None  # noqa: S101 - no group is empty
    ports = tuple(attempt.source_port for attempt, _ in pairs if attempt.source_port is not None)
    return Cluster(pop=pop, figures=found, ports=ports)
