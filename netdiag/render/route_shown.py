# SPDX-License-Identifier: Apache-2.0
"""A stored check of a route as a part of something else: its verdict, its places in order, and where they lie. Pure.

Of the hops nothing but places, networks and round trips: who reads a report need not know this machine's routers.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from netdiag.render.route_map import stops, unwrapped
from netdiag.render.route_table import headline
from netdiag.text import safe

__all__ = ["network", "picture", "place", "shown"]

_WIDTH, _HEIGHT = 720.0, 360.0
_MARGIN_DEGREES = 12.0
_FEWEST = 2
_BELIEVED = 0.3


def shown(host: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a report tells of the way to a host."""
    word, sentence, style = headline(document)
    path = next((one for one in document["paths"] if one["reached"]), (document["paths"] or [None])[0])
    number = document["paths"].index(path) if path else 0
    steps = path["as_path"] if path else []
    return {
        "host": host,
        "at": document["started"],
        "word": word,
        "sentence": sentence,
        "style": style,
        "reached": bool(path and path["reached"]),
        "hops": len(path["hops"]) if path else 0,
        "stops": stops(document, number),
        "as_path": [f"{step['asn']} {step['name'] or ''}".strip() + ("" if step["certain"] else "?") for step in steps],
        "map": picture(document, number),
    }


def picture(document: Mapping[str, Any], path: int = 0) -> dict[str, Any] | None:
    """Return the picture's marks and lines in pixels; None where fewer than two places are known.

    Plate carrée, cut to what the way crosses, over the date line too.
    """
    places = unwrapped(stops(document, path))
    if len(places) < _FEWEST:
        return None
    west, east = min(one["lon"] for one in places), max(one["lon"] for one in places)
    south, north = min(one["lat"] for one in places), max(one["lat"] for one in places)
    west, east, south, north = (
        west - _MARGIN_DEGREES,
        east + _MARGIN_DEGREES,
        max(-90.0, south - _MARGIN_DEGREES),
        min(90.0, north + _MARGIN_DEGREES),
    )
    scale = min(_WIDTH / (east - west), _HEIGHT / (north - south))
    marks = [
        {**one, "number": at, "x": round((one["lon"] - west) * scale, 1), "y": round((north - one["lat"]) * scale, 1)}
        for at, one in enumerate(places, 1)
    ]
    lines = [{"x1": a["x"], "y1": a["y"], "x2": b["x"], "y2": b["y"]} for a, b in pairwise(marks)]
    return {
        "width": round((east - west) * scale, 1),
        "height": round((north - south) * scale, 1),
        "marks": marks,
        "lines": lines,
        "meridians": [round((degree - west) * scale, 1) for degree in range(-540, 541, 30) if west < degree < east],
        "parallels": [round((north - degree) * scale, 1) for degree in range(-60, 90, 30) if south < degree < north],
    }


def network(one: Mapping[str, Any]) -> str:
    """Return whose network a router is in; nothing where no table knows it."""
    if one["ixp"]:
        return f"IX {safe(one['ixp'])}"
    return "" if one["asn"] is None else f"AS{one['asn']} {safe(one['as_name'] or '')}".rstrip()


def place(one: Mapping[str, Any]) -> str:
    """Return where a router is, as far as that is believed."""
    told = one["place"]
    if told is None:
        return ""
    if told["refuted_by"] is not None or told["confidence"] < _BELIEVED:
        return "unknown"
    return " ".join(filter(None, (safe(told["city"] or "?"), safe(told["region"] or ""))))
