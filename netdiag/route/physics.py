# SPDX-License-Identifier: Apache-2.0
"""What light allows: great circles, the shortest round trips over them, and places that a round trip refutes.

Distances in kilometres, times in milliseconds for the whole round trip, places as (latitude, longitude) in degrees.
"""

from __future__ import annotations

import math
from typing import TypeAlias

__all__ = [
    "FIBRE_KM_PER_MS",
    "VACUUM_KM_PER_MS",
    "Point",
    "distance_km",
    "fibre_ms",
    "loop_km",
    "reach_km",
    "vacuum_ms",
]

Point: TypeAlias = tuple[float, float]
"""Latitude and longitude in degrees."""

VACUUM_KM_PER_MS = 299.792458
"""Nothing is faster: no satellite, no microwave link, no hollow fibre."""
FIBRE_KM_PER_MS = VACUUM_KM_PER_MS / 1.468
"""Group index of common single-mode fibre at 1550 nm."""
_EARTH_KM = 6371.0088
"""Mean radius."""
_SPHERE = 0.994
"""The earth is no sphere: a great circle errs by at most 0.6 %, which is taken off where a place is to be refuted."""


def distance_km(one: Point, other: Point) -> float:
    """Return the great circle between two points."""
    lat1, lon1, lat2, lon2 = map(math.radians, (*one, *other))
    half = math.sin((lat2 - lat1) / 2) ** 2 + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    return 2 * _EARTH_KM * math.asin(min(1.0, math.sqrt(half)))


def loop_km(start: Point, middle: Point, end: Point) -> float:
    """Return the way from the start over a middle to the end and straight back."""
    return distance_km(start, middle) + distance_km(middle, end) + distance_km(end, start)


def vacuum_ms(km: float) -> float:
    """Return the least time that anything needs for that many kilometres in all, way back included."""
    return km * _SPHERE / VACUUM_KM_PER_MS


def fibre_ms(km: float) -> float:
    """Return the time that light in fibre needs for that many kilometres in all, way back included."""
    return km / FIBRE_KM_PER_MS


def reach_km(rtt_ms: float) -> float:
    """Return how far away, at most, something is that answers within a round trip of that many milliseconds."""
    return rtt_ms * VACUUM_KM_PER_MS / _SPHERE / 2
