# SPDX-License-Identifier: Apache-2.0
"""Where the probes were sent from: as given, else near the first router or landmark whose place is known."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence

from netdiag.route import figures
from netdiag.route.gazetteer import gazetteer
from netdiag.route.hints import patterns
from netdiag.route.hops import Path
from netdiag.route.model import Lookup, Measurement
from netdiag.route.physics import FIBRE_KM_PER_MS
from netdiag.route.places import Here

__all__ = ["find_here", "names_of", "point_of"]

_GIVEN_KM = 30.0
_NEAR_MS = 12.0
"""A router that answers sooner is in the client's own part of the world."""


def names_of(measurement: Measurement) -> dict[str, str]:
    """Return address → its first PTR name, foreign text as it came."""
    return {ip: look.answers[0] for look in measurement.lookups if look.answers and (ip := _pointed(look))}


def point_of(ip: str) -> str:
    """Return the name under which an address's PTR record is, without a dot at its end."""
    return ipaddress.ip_address(ip).reverse_pointer


def _pointed(look: Lookup) -> str | None:
    """Return the address that a PTR question asked about."""
    if look.qtype != "PTR":
        return None
    name = look.name.rstrip(".").lower()
    try:
        if name.endswith(".in-addr.arpa"):
            return str(ipaddress.IPv4Address(".".join(reversed(name[: -len(".in-addr.arpa")].split(".")))))
        if name.endswith(".ip6.arpa"):
            return str(ipaddress.IPv6Address(int(name[: -len(".ip6.arpa")].replace(".", "")[::-1], 16)))
        return str(ipaddress.ip_address(name))
    except ValueError:
        return None


def find_here(measurement: Measurement, paths: Sequence[Path], names: Mapping[str, str]) -> Here | None:
    """Return where this client is, and how sure that is; None where nothing tells."""
    given = measurement.vantage
    if given.latitude is not None and given.longitude is not None:
        place = gazetteer().at((given.latitude, given.longitude))
        return Here(place=place, radius_km=_GIVEN_KM, source=given.source or "given")
    candidates = [*_routers(paths, names), *_landmarks(measurement)]
    return min(candidates, key=lambda one: one.radius_km, default=None)


def _routers(paths: Iterable[Path], names: Mapping[str, str]) -> Iterable[Here]:
    for path in paths:
        for ttl, one in path.responders:
            hint = patterns().read(names.get(one.ip))
            if hint is not None and one.min_ms <= _NEAR_MS:
                radius = one.min_ms * FIBRE_KM_PER_MS / 2
                yield Here(place=hint.place, radius_km=radius, source=f"name of hop {ttl}, {one.min_ms:.1f} ms away")


def _landmarks(measurement: Measurement) -> Iterable[Here]:
    for mark in measurement.landmarks:
        times = [ms for _, ms in figures.connect_ms(one for one in measurement.connects if one.landmark == mark.name)]
        if mark.latitude is None or mark.longitude is None or not times or min(times) > _NEAR_MS:
            continue
        place = gazetteer().at((mark.latitude, mark.longitude))
        radius = min(times) * FIBRE_KM_PER_MS / 2
        yield Here(place=place, radius_km=radius, source=f"landmark {mark.name}, {min(times):.1f} ms away")
