# SPDX-License-Identifier: Apache-2.0
"""Where the way goes, as a small map of characters: places in order, on a grid of latitude and longitude."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from netdiag.text import safe

__all__ = ["draw", "stops"]

_ROWS = 12
_TOP, _BOTTOM = 72.0, -56.0
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


def draw(document: Mapping[str, Any], width: int) -> Iterator[str]:
    """Yield lines of a map with a letter per place and a legend; nothing where fewer than two places are known."""
    places = stops(document)[: len(_LETTERS)]
    if len(places) < 2:
        return
    grid = [[" "] * width for _ in range(_ROWS)]
    for at, place in enumerate(places):
        row, column = _cell(place["lat"], place["lon"], width)
        grid[row][column] = _LETTERS[at]
    for one, other in pairwise(places):
        _line(grid, _cell(one["lat"], one["lon"], width), _cell(other["lat"], other["lon"], width))
    used = [row for row, line in enumerate(grid) if any(letter != " " for letter in line)]
    for line in grid[min(used) : max(used) + 1]:
        yield "".join(line).rstrip()
    yield "  ".join(f"{_LETTERS[at]} {safe(place['city'] or '?')}" for at, place in enumerate(places))


def _cell(lat: float, lon: float, width: int) -> tuple[int, int]:
    row = round((_TOP - min(_TOP, max(_BOTTOM, lat))) / (_TOP - _BOTTOM) * (_ROWS - 1))
    return row, min(width - 1, max(0, round((lon + 180) / 360 * (width - 1))))


def _line(grid: list[list[str]], start: tuple[int, int], end: tuple[int, int]) -> None:
    steps = max(abs(start[0] - end[0]), abs(start[1] - end[1]))
    for step in range(1, steps):
        row = round(start[0] + (end[0] - start[0]) * step / steps)
        column = round(start[1] + (end[1] - start[1]) * step / steps)
        if grid[row][column] == " ":
            grid[row][column] = "·"
