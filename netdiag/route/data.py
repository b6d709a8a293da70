# SPDX-License-Identifier: Apache-2.0
"""From tables to the knowledge of one measurement's addresses; nothing is asked over the network here."""

from __future__ import annotations

import ipaddress
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import Path

from netdiag.assets import data_dir
from netdiag.route.gazetteer import gazetteer
from netdiag.route.knowledge import DatabasePlace, IpFacts, Knowledge, Source
from netdiag.route.mmdb import AsnFile, PlaceFile
from netdiag.route.model import Lookup, Measurement
from netdiag.route.origins import Origin, shipped

__all__ = ["Tables", "addresses_in", "cymru_origins", "exchange_of", "is_anycast", "stale"]

STALE_DAYS = 180
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Tables:
    """The tables that a check uses: the shipped ones, and files of the user."""

    def __init__(self, asn_file: Path | None = None, place_files: Sequence[Path] = ()) -> None:
        self._asn = AsnFile(asn_file) if asn_file else None
        self._places = [PlaceFile(path) for path in place_files]

    def origin(self, ip: str) -> tuple[Origin, str] | None:
        """Return who announces a public address, and which table says so; the user's own file is asked first."""
        if self._asn is not None and (found := self._asn.find(ip)) is not None:
            return found, self._asn.source.source
        if not ipaddress.ip_address(ip).is_global:
            return None
        found = shipped().find(ip)
        return None if found is None else (found, shipped().source.source)

    def places(self, ip: str) -> tuple[DatabasePlace, ...]:
        """Return what each place database says of an address."""
        return tuple(place for file in self._places if (place := file.find(ip)) is not None)

    @property
    def sources(self) -> tuple[Source, ...]:
        """Return the tables, for whoever wants to know how old they are."""
        own = [self._asn.source] if self._asn else []
        hand = Source(
            source=f"cities, router names and exchanges of netdiag ({len(gazetteer().codes)} cities)",
            date=None,
            licence="Apache-2.0",
        )
        return (*own, shipped().source, *(file.source for file in self._places), hand)

    def knowledge(self, measurement: Measurement) -> Knowledge:
        """Return what the tables say about every address of a measurement."""
        asked = cymru_origins(measurement.lookups)
        facts = {ip: self._facts(ip, asked.get(ip)) for ip in addresses_in(measurement)}
        return Knowledge(ips=facts, sources=self.sources)

    def _facts(self, ip: str, asked: Origin | None) -> IpFacts:
        found = self.origin(ip)
        origin, said = found if found is not None else (asked, "Team Cymru, DNS" if asked else None)
        name, city = exchange_of(ip) or (None, None)
        return IpFacts(
            asn=origin.asn if origin else None,
            as_name=origin.name if origin else None,
            origin_source=said,
            exchange=name,
            exchange_city=city,
            anycast=is_anycast(ip, origin.asn if origin else None),
            databases=self.places(ip),
        )


def addresses_in(measurement: Measurement) -> list[str]:
    """Return every address that was probed or that answered, once."""
    found = [trace.ip for trace in measurement.traces] + [connect.ip for connect in measurement.connects]
    found += [probe.reply.ip for trace in measurement.traces for probe in trace.probes if probe.reply is not None]
    return list(dict.fromkeys(found))


@cache
def _exchanges() -> tuple[tuple[_Network, str, str], ...]:
    rows = []
    for line in (data_dir("probes") / "routes" / "exchanges.tsv").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            block, name, city = line.split("\t")
            rows.append((ipaddress.ip_network(block), name, city))
    return tuple(rows)


def exchange_of(ip: str) -> tuple[str, str] | None:
    """Return name and city code of the exchange whose peering LAN holds an address."""
    address = ipaddress.ip_address(ip)
    for block, name, city in _exchanges():
        if block.version == address.version and address in block:
            return name, city
    return None


@cache
def _anycast() -> tuple[frozenset[int], tuple[_Network, ...]]:
    table = tomllib.loads((data_dir("probes") / "routes" / "networks.toml").read_text(encoding="utf-8"))
    return frozenset(table["anycast_asns"]), tuple(ipaddress.ip_network(block) for block in table["anycast_blocks"])


def is_anycast(ip: str, asn: int | None) -> bool:
    """Tell whether an address is announced from many places, so that a database's city for it means nothing."""
    numbers, blocks = _anycast()
    address = ipaddress.ip_address(ip)
    return asn in numbers or any(block.version == address.version and address in block for block in blocks)


def cymru_origins(lookups: Iterable[Lookup]) -> Mapping[str, Origin]:
    """Return address → origin from answers of Team Cymru's zones, where they were asked."""
    names: dict[int, str] = {}
    numbers: dict[str, int] = {}
    for look in lookups:
        zone, answer = look.name.rstrip(".").lower(), look.answers[0] if look.answers else ""
        fields = [field.strip() for field in answer.strip('"').split("|")]
        if look.qtype != "TXT" or not answer:
            continue
        if zone.endswith(".asn.cymru.com") and zone.startswith("as") and zone[2:].partition(".")[0].isdigit():
            names[int(zone[2:].partition(".")[0])] = fields[-1][:100]
        elif zone.endswith((".origin.asn.cymru.com", ".origin6.asn.cymru.com")):
            first = fields[0].split(" ")[0]
            ip = _from_zone(zone)
            if ip is not None and first.isascii() and first.isdigit() and len(first) <= 10:
                numbers[ip] = int(first)
    return {ip: Origin(asn=asn, name=names.get(asn)) for ip, asn in numbers.items()}


def _from_zone(zone: str) -> str | None:
    labels = zone.split(".")[:-4]
    try:
        if len(labels) == 4:
            return str(ipaddress.IPv4Address(".".join(reversed(labels))))
        return str(ipaddress.IPv6Address(int("".join(reversed(labels)), 16)))
    except ValueError:
        return None


def stale(sources: Iterable[Source], today: date) -> list[str]:
    """Return a sentence for each table that is older than 180 days."""
    old = []
    for source in sources:
        try:
            age = (today - date.fromisoformat(source.date or "")).days
        except ValueError:
            continue
        if age > STALE_DAYS:
            old.append(f"{source.source} is {age} days old: networks may have moved (--asn-db, --geo-db: newer files)")
    return old
