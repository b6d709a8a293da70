# SPDX-License-Identifier: Apache-2.0
"""A network as data: who stands on the way, how each one behaves, and what a check of it should say.

One TOML file a network, in `topologies/`; the dataclasses are its members. `lines` holds stretches that ways share.
"""

from __future__ import annotations

import ipaddress
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from netdiag.errors import InputUnreadable

__all__ = ["Place", "Site", "Station", "Topology", "Truth", "Way", "load", "read", "shipped"]

T = TypeVar("T")
FOLDER = Path(__file__).with_name("topologies")
_SIX = ipaddress.ip_network("2001:db8:6464::/96")
"""Where the IPv6 address of a station is that has only an IPv4 one in the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where something stands."""

    city: str
    country: str
    region: str
    """One of the twelve network regions: EU-W, NA-E …"""
    latitude: float
    longitude: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Station:
    """A router on the way, or one of several at the same distance."""

    ip: str
    ms: float
    """Round trip from the client to it and back without jitter."""
    ip6: str | None = None
    name: str | None = None
    """PTR record of its addresses."""
    asn: int | None = None
    place: str | None = None
    """Key of `places`: where it truly stands."""
    database_place: str | None = None
    """Key of `places`: where a database believes it; None: the database does not know."""
    jitter_ms: float = 0.0
    """Mean of the exponential part on top."""
    silent: bool = False
    silent_to: tuple[str, ...] = ()
    """Protocols whose probes it does not answer: tcp, udp, icmp."""
    loss: float = 0.0
    """Share of probes that it does not answer; what it forwards is not touched."""
    drop: float = 0.0
    """Share of packets that it loses, forwarded ones too."""
    limit_per_s: float | None = None
    """Answers a second that it allows itself, after a first burst of `limit_burst`."""
    limit_burst: int = 1
    mpls: tuple[int, ...] = ()
    """Labels, outermost first."""
    nat: str | None = None
    """address: from here on, quotes name `nat_ip` as the source; checksum: they hold another checksum."""
    nat_ip: str = "100.64.0.1"
    third_party: bool = False
    """Its address belongs to another network than the way; only the truth says so."""
    refuse: int | None = None
    """ICMP code of the unreachable message that it sends for what it filters; None: it says nothing."""
    filters: tuple[str, ...] = ()
    """Protocols that do not get past it: tcp, udp, icmp."""
    mtu: int | None = None
    """Bytes of the largest packet that it passes on, in either direction."""
    mtu_told: bool = True
    """Whether it says so when a packet is larger; False: a black hole."""
    meddles: tuple[str, ...] = ()
    """What it does to packets that pass: bleach-ecn (marks in IP headers go), strip-ecn (the offer in SYNs goes),
    drop-ecn (SYNs that offer it vanish), drop-data (SYNs with data vanish)."""
    quote_bytes: int = 548
    """Bytes of a packet that it quotes at most; 28 is what old routers do."""
    hostile: tuple[str, ...] = ()
    """What it sends beside its answer: duplicate, wrong-quote, huge-extension, truncated, wrong-checksum."""
    balance: str = "flow"
    """How packets are spread over it and `also`: flow or packet."""
    also: tuple[Station, ...] = ()

    def address(self, version: int) -> str:
        """Return its address of IP version 4 or 6."""
        if version == 4:
            return self.ip
        return self.ip6 or str(_SIX[int(ipaddress.IPv4Address(self.ip))])


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to a site."""

    hops: tuple[Station, ...]
    ms: float
    """Round trip to the target."""
    share: float = 1.0
    """Of the flows that take it, beside the other ways."""
    jitter_ms: float = 0.0
    loss: float = 0.0
    """Of packets beyond the last station, each direction."""
    protocols: tuple[str, ...] = ()
    """Whose packets alone take it: tcp, udp, icmp; none: all."""
    back_hops: int | None = None
    """Routers on the way back; None: as many as forth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Addresses that are answered by one server."""

    ips: tuple[str, ...]
    ways: tuple[Way, ...]
    name: str = "api.lab.test"
    asn: int | None = None
    place: str | None = None
    database_place: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """Of its HTTP answers."""
    way_headers: tuple[Mapping[str, str], ...] = ()
    """Per way instead: an anycast address that is served from several places."""
    https: str | None = None
    """Content of its HTTPS record, presentation format."""
    role: str = "target"
    """target, or landmark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What a check should say about the first site's first address, from the client's place, with its own tables."""

    verdict: str = "none"
    kind: str | None = None
    """Class of a detour."""
    as_path: tuple[int, ...] = ()
    regions: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    """Codes of findings above info that must be there; no others may be."""
    allowed: tuple[str, ...] = ()
    """Codes that may be there too: they depend on how quiet the machine is."""
    baseline_ms: float | None = None
    """What the user gives as baseline; None: nothing."""
    reached: bool = True
    """Whether the target answers probes by TCP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """One network."""

    title: str
    sites: tuple[Site, ...]
    client_place: str | None = None
    client_ip: str = "198.18.255.2"
    client_ip6: str = "2001:db8:ffff::2"
    truth: Truth = field(default_factory=Truth)
    places: Mapping[str, Place] = field(default_factory=dict)
    networks: Mapping[str, str] = field(default_factory=dict)
    """AS number as text → name."""
    prefixes: Mapping[str, int] = field(default_factory=dict)
    """Block → AS number: the test table of origins."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Further PTR records, address → name."""
    certificate_names: int = 0
    """Further names in the servers' certificate: 150 make an answer of several full packets of it."""

    def stations(self) -> Iterator[Station]:
        """Yield every router, alternatives included, in file order."""
        for site in self.sites:
            for way in site.ways:
                for hop in way.hops:
                    yield hop
                    yield from hop.also

    def site(self, ip: str) -> Site | None:
        """Return whose address that is."""
        return next((site for site in self.sites if ip in site.ips), None)


def shipped() -> dict[str, Path]:
    """Return name → file of the networks that come with netdiag."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.toml"))}


def load(path: Path) -> Topology:
    """Return the network of a TOML or JSON file; InputUnreadable says what is wrong."""
    text = path.read_text()
    try:
        return read(json.loads(text) if path.suffix == ".json" else tomllib.loads(text))
    except ValueError as error:
        raise InputUnreadable(f"{path.name}: {error}") from error


def read(table: Mapping[str, Any]) -> Topology:
    """Return the network that a parsed TOML table describes."""
    given = dict(table)
    lines = given.pop("lines", {})
    given["sites"] = tuple(_site(site, lines) for site in given.get("sites", []))
    given["places"] = {key: _make(Place, value) for key, value in given.get("places", {}).items()}
    given["truth"] = _make(Truth, given.get("truth", {}))
    return _make(Topology, given)


def _site(table: Mapping[str, Any], lines: Mapping[str, Any]) -> Site:
    given = dict(table)
    given["ways"] = tuple(_way(way, lines) for way in given.get("ways", []))
    for ip in given.get("ips", []):
        _check_address(ip)
    return _make(Site, given)


def _way(table: Mapping[str, Any], lines: Mapping[str, Any]) -> Way:
    given = dict(table)
    hops: list[Any] = []
    for hop in given.get("hops", []):
        hops += lines[hop] if isinstance(hop, str) else [hop]  # a name stands for a stretch that ways share
    given["hops"] = tuple(_station(hop) for hop in hops)
    return _make(Way, given)


def _station(table: Mapping[str, Any]) -> Station:
    given = dict(table)
    common = {name: value for name, value in given.items() if name not in ("also", "ip6", "name")}
    if "ip" in given:
        _check_address(given["ip"])
    given["also"] = tuple(_station({**common, **other}) for other in given.get("also", []))
    return _make(Station, given)


def _check_address(ip: Any) -> None:
    try:
        ipaddress.ip_address(ip)
    except ValueError as error:
        raise InputUnreadable(str(error)) from error


def _make(kind: type[T], table: Mapping[str, Any]) -> T:
    known = {member.name for member in fields(kind)}  # type: ignore[arg-type]  # the dataclasses above
    strange = sorted(set(table) - known)
    if strange:
        raise InputUnreadable(f"{kind.__name__}: unknown {', '.join(strange)}")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in table.items()}
    try:
        return kind(**values)
    except TypeError as error:
        raise InputUnreadable(f"{kind.__name__}: {str(error).partition(' ')[2]}") from error
