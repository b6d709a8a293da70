# SPDX-License-Identifier: Apache-2.0
"""What would be normal from here: given, measured to landmarks of the region, known from before, or computed."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from netdiag.route import figures
from netdiag.route.gazetteer import Place
from netdiag.route.physics import distance_km, fibre_ms
from netdiag.route.places import Here

__all__ = ["Baseline", "Source", "choose", "synthetic_ms"]


Source = Literal["given", "measured", "history", "synthetic"]
_LEAST_LANDMARKS = 3
_LEAST_CHECKS = 5
_LEAST_COMPUTED_MS = 10.0
"""A computed baseline knows nothing of the client's line: common ones take this long to the next city."""
_TIMES_FIBRE = 2.0
"""Cables do not lie straight: twice the straight way is what a good route takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The round trip to compare with."""

    rtt_ms: float
    mad_ms: float | None
    """How much it scatters; None: not known."""
    source: Source
    n: int
    """Landmarks, checks, or 1."""


def choose(
    *,
    given_ms: float | None,
    nearby: Iterable[tuple[float, float]],
    history: Sequence[float],
    here: Here | None,
    served: Iterable[Place],
    access_ms: float,
) -> Baseline | None:
    """Return the best baseline there is; None where not even a computed one is possible.

    `nearby`: (distance in km, shortest round trip) of landmarks and points of presence in the client's own region.
    `history`: shortest round trips of earlier checks of this target. `served`: cities that the service is known to be
    served from. `access_ms`: what the first hops cost on any way.
    """
    if given_ms is not None:
        return Baseline(rtt_ms=given_ms, mad_ms=None, source="given", n=1)
    near = [ms for _, ms in sorted(nearby)]
    if len(near) >= _LEAST_LANDMARKS:
        return Baseline(rtt_ms=statistics.median(near), mad_ms=figures.mad(near), source="measured", n=len(near))
    if len(history) >= _LEAST_CHECKS:
        middle = statistics.median(history)
        return Baseline(rtt_ms=middle, mad_ms=figures.mad(history), source="history", n=len(history))
    computed = synthetic_ms(here, served, access_ms)
    return None if computed is None else Baseline(rtt_ms=computed, mad_ms=None, source="synthetic", n=1)


def synthetic_ms(here: Here | None, served: Iterable[Place], access_ms: float) -> float | None:
    """Return twice the time of light in fibre to the nearest of the places and back, access added."""
    if here is None:
        return None
    distances = [distance_km(here.place.point, place.point) for place in served]
    if not distances:
        return None
    way = _TIMES_FIBRE * fibre_ms(2 * (min(distances) + here.radius_km))
    return max(_LEAST_COMPUTED_MS, way + access_ms)
