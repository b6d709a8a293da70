# SPDX-License-Identifier: Apache-2.0
"""Where the way goes, as a small map of characters: places in order, the north up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from netdiag.text import safe

__all__ = ["draw", "stops", "unwrapped"]

_ROWS, _LEAST_ROWS, _COLUMNS, _MARGIN = 10, 3, 60, 2
_LEAST_DEGREES = 4.0
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def stops(document: Mapping[str, Any], path: int = 0) -> list[dict[str, Any]]:
    """Return the places of a path in order, the client first: city, lat, lon, first TTL, shortest round trip."""
    found: list[dict[str, Any]] = []
    here = document["vantage"]
    if here["latitude"] is not None:
        found.append(
            {"city": here["city"] or "here", "lat": here["latitude"], "lon": here["longitude"], "ttl": 0, "ms": 0.0}
        )
    for hop in document["paths"][path]["hops"] if path < len(document["paths"]) else ():
        for one in hop["responders"][:1]:
            place = one["place"]
            if place is None or place["refuted_by"] is not None or place["confidence"] < 0.6:
                continue
            if found and found[-1]["city"] == place["city"]:
                continue
            shortest = min(one["rtt_ms"], default=None)
            found.append(
                {"city": place["city"], "lat": place["lat"], "lon": place["lon"], "ttl": hop["ttl"], "ms": shortest}
            )
    return found


def unwrapped(places: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return places with longitudes that go on over the date line: no step is longer than half the way around."""
    found: list[dict[str, Any]] = []
    for place in places:
        lon = place["lon"]
        if found:
            lon += 360.0 * round((found[-1]["lon"] - lon) / 360.0)
        found.append({**place, "lon": lon})
    return found


def draw(document: Mapping[str, Any], width: int) -> Iterator[str]:
    """Yield lines of a map with a letter per place, and a legend; nothing where fewer than two places are known.

    It shows what the way crosses and no more. A character is taken as twice as high as wide.
    """
    places = unwrapped(stops(document)[: len(_LETTERS)])
    if len(places) < 2:
        return
    west, north = min(one["lon"] for one in places), max(one["lat"] for one in places)
    wide = max(_LEAST_DEGREES, max(one["lon"] for one in places) - west)
    high = max(1.0, north - min(one["lat"] for one in places))
    columns = min(width - 2 * _MARGIN, _COLUMNS)
    rows = min(_ROWS, max(_LEAST_ROWS, round(columns * high / wide / 2) + 1))
    cells = [
        (
            round((north - one["lat"]) / high * (rows - 1)),
            _MARGIN + round((one["lon"] - west) / wide * (columns - 1)),
        )
        for one in places
    ]
    grid = [[" "] * width for _ in range(rows)]
    for one, other in pairwise(cells):
        _line(grid, one, other)
    for at, (row, column) in enumerate(cells):
        free = next((c for c in range(column, width) if grid[row][c] not in _LETTERS), column)
        grid[row][free] = _LETTERS[at]
    yield from ("".join(line).rstrip() for line in grid)
    line = ""
    for text in _legend(places):
        if line and len(line) + 2 + len(text) > width:
            yield line
            line = ""
        line = f"{line}  {text}" if line else text
    yield line


def _legend(places: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for at, place in enumerate(places):
        where = "" if not place["ttl"] or place["ms"] is None else f" (hop {place['ttl']}, {place['ms']:.0f} ms)"
        yield f"{_LETTERS[at]} {safe(place['city'] or '?')}{where}"


def _line(grid: list[list[str]], start: tuple[int, int], end: tuple[int, int]) -> None:
    steps = max(abs(start[0] - end[0]), abs(start[1] - end[1]))
    for step in range(1, steps):
        row = round(start[0] + (end[0] - start[0]) * step / steps)
        column = round(start[1] + (end[1] - start[1]) * step / steps)
        grid[row][column] = "·"
