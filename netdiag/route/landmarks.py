# SPDX-License-Identifier: Apache-2.0
"""Places that the user allows to ask, to learn what is normal here: a shipped list, or a file of one's own.

A file has a line per landmark: name, address, port, latitude, longitude, separated by blanks; `#` starts a comment.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from netdiag.assets import data_dir
from netdiag.errors import InputUnreadable
from netdiag.route.gazetteer import gazetteer
from netdiag.route.model import Landmark
from netdiag.route.physics import distance_km

__all__ = ["Marks", "chosen", "load", "nearest", "resolved"]

Marks: TypeAlias = tuple[Landmark, ...]
_MOST = 200
_NEAREST = 6


def chosen(word: str) -> Marks:
    """Return the landmarks that `none`, `cloud` or a file's name stand for."""
    if word == "none":
        return ()
    return load(data_dir("probes") / "routes" / "landmarks.txt" if word == "cloud" else Path(word))


def load(path: Path) -> Marks:
    """Return the landmarks of a file; InputUnreadable names the line that is wrong."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputUnreadable(f"{path}: {error}") from error
    marks = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if words:
            marks.append(_mark(words, f"{path}: line {number}"))
    if len(marks) > _MOST:
        raise InputUnreadable(f"{path}: {len(marks)} landmarks are too many: {_MOST} at most")
    return tuple(marks)


def _mark(words: list[str], where: str) -> Landmark:
    try:
        name, host, port, latitude, longitude = words
        mark = Landmark(name=name, host=host, port=int(port), latitude=float(latitude), longitude=float(longitude))
    except ValueError as error:
        raise InputUnreadable(
            f"{where}: expected name, address, port, latitude and longitude with spaces between"
        ) from error
    if not (0 < mark.port < 65536 and abs(float(latitude)) <= 90 and abs(float(longitude)) <= 180):
        raise InputUnreadable(f"{where}: port or position is out of range")
    return mark


def nearest(marks: Marks, latitude: float | None, longitude: float | None) -> Marks:
    """Return the landmarks nearest to a position, six at most; without a position one of each region."""
    if latitude is not None and longitude is not None:
        here = (latitude, longitude)
        ordered = sorted(marks, key=lambda mark: distance_km(here, (mark.latitude or 0.0, mark.longitude or 0.0)))
        return tuple(ordered[:_NEAREST])
    found: dict[str | None, Landmark] = {}
    for mark in marks:
        place = gazetteer().at((mark.latitude or 0.0, mark.longitude or 0.0))
        found.setdefault(place.region, mark)
    return tuple(found.values())


def resolved(marks: Marks, resolve: Callable[[str], list[str]]) -> Marks:
    """Return the landmarks with addresses in place of names; those without an address are left out."""
    found = []
    for mark in marks:
        try:
            ips = [str(ipaddress.ip_address(mark.host))]
        except ValueError:
            ips = resolve(mark.host)
        if ips:
            found.append(replace(mark, host=ips[0]))
    return tuple(found)
