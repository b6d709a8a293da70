# SPDX-License-Identifier: Apache-2.0
"""What tables say about addresses: origin AS, exchange, a database's place. Facts only, stored beside the probes.

A verdict follows from a measurement and the knowledge of that time, so it does not change when a table does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from netdiag.errors import InputUnreadable
from netdiag.route.store import plain, restore

__all__ = ["DatabasePlace", "IpFacts", "Knowledge", "Source", "from_json", "to_json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabasePlace:
    """Where a database believes an address: a weak prior, wrong for most routers."""

    database: str
    latitude: float
    longitude: float
    city: str | None = None
    country: str | None = None
    radius_km: float | None = None
    """Accuracy that the database claims; None: it claims none."""
    named: bool = False
    """Whether the user named the database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IpFacts:
    """What is known of one address."""

    asn: int | None = None
    as_name: str | None = None
    origin_source: str | None = None
    """Which table says so."""
    exchange: str | None = None
    """The internet exchange whose peering LAN holds it."""
    exchange_city: str | None = None
    """Its airport code."""
    anycast: bool = False
    """Announced from many places: a database's city for it means nothing."""
    databases: tuple[DatabasePlace, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A table that was used."""

    source: str
    date: str | None
    """YYYY-MM-DD; None: it does not say."""
    licence: str | None
    attribution: str | None = None


_NOTHING = IpFacts()


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """Facts of the addresses of one measurement."""

    ips: Mapping[str, IpFacts] = field(default_factory=lambda: MappingProxyType({}))
    sources: tuple[Source, ...] = ()

    def of(self, ip: str) -> IpFacts:
        """Return what is known of an address; an empty record where nothing is."""
        return self.ips.get(ip, _NOTHING)


def to_json(knowledge: Knowledge) -> dict[str, Any]:
    """Return plain JSON values."""
    return {
        "ips": {ip: plain(facts) for ip, facts in sorted(knowledge.ips.items())},
        "sources": plain(knowledge.sources),
    }


def from_json(document: object) -> Knowledge:
    """Return what `to_json` gave; InputUnreadable says which member is wrong."""
    if not isinstance(document, Mapping) or not isinstance(document.get("ips", {}), Mapping):
        raise InputUnreadable("knowledge: expected an object")
    sources = document.get("sources", [])
    if not isinstance(sources, list):
        raise InputUnreadable("knowledge.sources: expected a list")
    return Knowledge(
        ips={str(ip): restore(IpFacts, facts, f"knowledge.ips.{ip}") for ip, facts in document.get("ips", {}).items()},
        sources=tuple(restore(Source, item, f"knowledge.sources[{at}]") for at, item in enumerate(sources)),
    )
