# SPDX-License-Identifier: Apache-2.0
"""The user's own MMDB files of origins and places, flat and nested schemas. Their content is foreign and checked."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import maxminddb

from netdiag.errors import InputUnreadable
from netdiag.route.knowledge import DatabasePlace, Source
from netdiag.route.origins import Origin

__all__ = ["AsnFile", "PlaceFile"]

_MOST_TEXT = 100


class _File:
    """An open database."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._reader = maxminddb.open_database(str(path), maxminddb.MODE_AUTO)
            about = self._reader.metadata()
            self.kind, built = str(about.database_type)[:_MOST_TEXT], int(about.build_epoch)
        except (OSError, maxminddb.InvalidDatabaseError, ValueError, TypeError, OverflowError) as error:
            raise InputUnreadable(f"{path}: no MMDB file: {error}") from error
        date = time.strftime("%Y-%m-%d", time.gmtime(built)) if 0 < built < 1 << 40 else None
        self.source = Source(source=f"{path.name} ({self.kind})", date=date, licence=None)

    def record(self, ip: str) -> Mapping[str, Any]:
        """Return the record of an address, empty where there is none; InputUnreadable where the file is broken."""
        try:
            found = self._reader.get(ip)
        except (maxminddb.InvalidDatabaseError, UnicodeDecodeError, IndexError, RecursionError) as error:
            raise InputUnreadable(f"{self.path}: broken at the record of {ip}: {error}") from error
        except ValueError:  # an IPv6 address in a file of IPv4 ones
            return {}
        return found if isinstance(found, Mapping) else {}


class AsnFile(_File):
    """A database of origins."""

    def find(self, ip: str) -> Origin | None:
        """Return who announces an address."""
        row = self.record(ip)
        number = _first(row, "autonomous_system_number", "asn", "as_number", "number")
        nested = row.get("asn") or row.get("as")
        if isinstance(nested, Mapping):
            number = _first(nested, "asn", "number", "autonomous_system_number")
            row = nested
        asn = _asn(number)
        name = _first(
            row, "autonomous_system_organization", "as_name", "name", "organization", "as_organization", "org"
        )
        return None if asn is None else Origin(asn=asn, name=_text(name))


class PlaceFile(_File):
    """A database of places."""

    def find(self, ip: str) -> DatabasePlace | None:
        """Return where the file believes an address; None where it gives no position."""
        row = self.record(ip)
        location = row.get("location")
        inner = location if isinstance(location, Mapping) else row
        latitude, longitude = (
            _number(_first(inner, "latitude", "lat")),
            _number(_first(inner, "longitude", "lng", "lon")),
        )
        if latitude is None or longitude is None or abs(latitude) > 90 or abs(longitude) > 180:
            return None
        if latitude == 0 and longitude == 0:  # what several tables write for unknown
            return None
        country = row.get("country")
        return DatabasePlace(
            database=self.kind,
            latitude=latitude,
            longitude=longitude,
            city=_named(row.get("city")),
            country=_code(country) or _code(row.get("country_code")),
            radius_km=_number(_first(inner, "accuracy_radius", "radius")),
            named=True,
        )


def _first(row: Mapping[str, Any], *names: str) -> Any:
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def _asn(value: object) -> int | None:
    if isinstance(value, str):
        digits = value.upper().removeprefix("AS")
        value = int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 10 else None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 1 << 32:
        return None
    return value


def _number(value: object) -> float | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _text(value: object) -> str | None:
    return value[:_MOST_TEXT] if isinstance(value, str) and value else None


def _named(value: object) -> str | None:
    """Return a city's name: a text, or English of a table of names."""
    if isinstance(value, Mapping):
        names = value.get("names")
        return _text(names.get("en")) if isinstance(names, Mapping) else _text(value.get("name"))
    return _text(value)


def _code(value: object) -> str | None:
    if isinstance(value, Mapping):
        value = value.get("iso_code") or value.get("code")
    return value.upper() if isinstance(value, str) and len(value) == 2 and value.isalpha() else None
