# SPDX-License-Identifier: Apache-2.0
"""The cities where networks meet, by code, by word and by position, and the twelve regions that they are in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType

from netdiag.assets import data_dir
from netdiag.errors import InputUnreadable
from netdiag.route.physics import Point, distance_km

__all__ = ["REGIONS", "Gazetteer", "Place", "airport", "gazetteer", "is_centroid", "load"]

REGIONS: Mapping[str, str] = MappingProxyType(
    {
        "NA-E": "North America, east",
        "NA-C": "North America, middle",
        "NA-W": "North America, west",
        "SA": "South America",
        "EU-W": "Europe, west",
        "EU-E": "Europe, east",
        "ME": "Middle East",
        "AF": "Africa",
        "S-AS": "South Asia",
        "SE-AS": "South-east Asia",
        "E-AS": "East Asia",
        "OC": "Oceania",
    }
)
_NEAR_KM = 1500.0
"""A position farther than this from every city of the table has no region."""
_SAME_CITY_KM = 60.0
_SURE_REGION_KM = 900.0
"""An airport that is farther from every city of the table has no region: the nearest one may be across a sea."""
_CENTROIDS: tuple[Point, ...] = (
    (37.751, -97.822),
    (51.2993, 9.491),
    (48.8582, 2.3387),
    (52.3824, 4.8995),
    (51.4964, -0.1224),
    (47.1449, 8.1551),
    (59.3247, 18.056),
    (35.69, 139.69),
    (34.7732, 113.722),
    (21.9974, 79.0011),
    (-33.494, 143.2104),
    (43.6319, -79.3716),
    (-22.8305, -43.2192),
    (1.3673, 103.8014),
    (55.7386, 37.6068),
)
"""Where common databases put what they know no more of than the country."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A city, or a position that somebody gave."""

    city: str | None
    country: str | None
    """ISO 3166, two letters."""
    regions: tuple[str, ...]
    """Keys of `REGIONS`; a city at a border has two."""
    latitude: float
    longitude: float
    code: str | None = None
    """Airport code of the city."""

    @property
    def point(self) -> Point:
        """Return the position."""
        return self.latitude, self.longitude

    @property
    def region(self) -> str | None:
        """Return the first region."""
        return self.regions[0] if self.regions else None


@dataclass(frozen=True, slots=True)
class Gazetteer:
    """The table, with its look-ups."""

    codes: Mapping[str, Place]
    """Airport code in capitals → city."""
    words: Mapping[str, Place]
    """City's name or short form as router names have it, in small letters → city."""

    def find(self, text: str) -> Place | None:
        """Return the city that a word or an airport code means."""
        return self.words.get(text.lower()) or self.codes.get(text.upper())

    def nearest(self, point: Point) -> tuple[Place, float] | None:
        """Return the nearest city and the distance in km; None where none is near enough to share its region."""
        place = min(self.codes.values(), key=lambda city: distance_km(point, city.point))
        km = distance_km(point, place.point)
        return (place, km) if km <= _NEAR_KM else None

    def at(self, point: Point, *, city: str | None = None, country: str | None = None) -> Place:
        """Return a position as a place: its regions are those of the nearest city, its name is given or that city's."""
        near = self.nearest(point)
        regions = near[0].regions if near else ()
        close = near[0] if near is not None and near[1] <= _SAME_CITY_KM else None
        return Place(
            city=city or (close.city if close else None),
            country=country or (close.country if close else None),
            regions=regions,
            latitude=point[0],
            longitude=point[1],
            code=close.code if close else None,
        )


def is_centroid(point: Point) -> bool:
    """Tell whether a position only means `somewhere in that country`."""
    return any(abs(point[0] - known[0]) < 0.01 and abs(point[1] - known[1]) < 0.01 for known in _CENTROIDS)


@cache
def gazetteer() -> Gazetteer:
    """Return the shipped table."""
    return load(data_dir("probes") / "routes" / "cities.tsv")


@cache
def airport(code: str) -> Place | None:
    """Return the city that an airport code in capitals stands for, airports of no city of the table included.

    Only for codes that are known to be airports' ones: nearly every second word of three letters is one, too.
    """
    known = gazetteer().codes.get(code)
    if known is not None or len(code) != 3:
        return known
    start = f"{code}\t"
    with (data_dir("probes") / "routes" / "airports.tsv").open(encoding="utf-8") as table:
        line = next((line for line in table if line.startswith(start)), None)
    if line is None:
        return None
    _, country, latitude, longitude, city = line.rstrip("\n").split("\t")
    point = float(latitude), float(longitude)
    near = gazetteer().nearest(point)
    if near is not None and near[1] <= _SAME_CITY_KM:
        return near[0]
    place = replace(gazetteer().at(point, city=city or None, country=country), code=code)
    return place if near is not None and near[1] <= _SURE_REGION_KM else replace(place, regions=())


def load(path: Path) -> Gazetteer:
    """Return the table of a file; InputUnreadable names the line that is wrong."""
    codes: dict[str, Place] = {}
    words: dict[str, Place] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        try:
            code, city, country, regions, latitude, longitude, names, _ = line.split("\t")
            place = Place(
                city=city,
                country=country,
                regions=tuple(regions.split(",")),
                latitude=float(latitude),
                longitude=float(longitude),
                code=code,
            )
        except ValueError as error:
            raise InputUnreadable(f"{path}: line {number}: {error}") from error
        codes[code] = place
        words.update({word: place for word in names.split(",") if word})
    return Gazetteer(codes=MappingProxyType(codes), words=MappingProxyType(words))
