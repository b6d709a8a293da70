# SPDX-License-Identifier: Apache-2.0
"""A route as a page: the verdict, the way on a map, the hops. One file, no script, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from netdiag.render import Options
from netdiag.render.html import page_environment
from netdiag.render.route_map import stops, unwrapped
from netdiag.render.route_table import headline, loss, ms, why

__all__ = ["render"]

_TEMPLATE = "route.html.j2"
_WIDTH, _HEIGHT = 720.0, 360.0
_MARGIN_DEGREES = 12.0


def render(document: Mapping[str, Any], options: Options) -> str:  # noqa: ARG001 - the one signature of renderers
    """Return the whole page."""
    word, sentence, style = headline(document)
    environment = page_environment()
    environment.filters |= {"ms1": ms, "loss": loss}
    environment.globals |= {"why": why}
    verdict = {"word": word, "sentence": sentence, "style": style}
    page: str = environment.get_template(_TEMPLATE).render(document=document, verdict=verdict, map=_map(document))
    return page


def _map(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the picture's marks and lines in pixels; None where fewer than two places are known.

    Plate carrée, cut to what the way crosses, over the date line too.
    """
    places = unwrapped(stops(document))
    if len(places) < 2:
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
