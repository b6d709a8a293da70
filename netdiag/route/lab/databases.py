# SPDX-License-Identifier: Apache-2.0
"""Tables of origins and places for one emulated network, as MMDB files: what `--asn-db` and `--geo-db` are given."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from netdiag.route.lab.topology import Place, Topology

__all__ = ["encode", "origins", "places", "write", "write_all"]

_BUILT = 1_767_225_600
"""2026-01-01: the tables say the same whenever they are written."""
_MARK = b"\xab\xcd\xefMaxMind.com"
_GAP = 16
"""Zero bytes between tree and data."""
_POINTER_FREE = {"map": 7, "text": 2, "double": 3, "uint16": 5, "uint32": 6, "uint64": 9, "array": 11}
Tree = list[list[Any]]


def write_all(topology: Topology, folder: Path) -> tuple[Path, Path]:
    """Write `asn.mmdb` and `geo.mmdb` of a network into a folder and return both paths."""
    asn, geo = folder / "asn.mmdb", folder / "geo.mmdb"
    write(asn, "netdiag-lab-ASN", origins(topology))
    write(geo, "netdiag-lab-City", places(topology))
    return asn, geo


def origins(topology: Topology) -> dict[str, dict[str, Any]]:
    """Return block → record of who announces it: the file's prefixes, then each router's and site's own AS."""
    found = dict(topology.prefixes)
    for station in topology.stations():
        if station.asn is not None:
            found |= {_block(station.address(version)): station.asn for version in (4, 6)}
    for site in topology.sites:
        if site.asn is not None:
            found |= {_block(ip): site.asn for ip in site.ips}
    names = topology.networks
    return {
        block: {"autonomous_system_number": asn, "autonomous_system_organization": names.get(str(asn), f"AS{asn}")}
        for block, asn in found.items()
    }


def places(topology: Topology) -> dict[str, dict[str, Any]]:
    """Return block → record of where the database believes it."""
    found = {
        _block(station.address(version)): station.database_place
        for station in topology.stations()
        for version in (4, 6)
    }
    found |= {_block(ip): site.database_place for site in topology.sites for ip in site.ips}
    return {block: _record(topology.places[key]) for block, key in found.items() if key is not None}


def _block(ip: str) -> str:
    return f"{ip}/{128 if ':' in ip else 32}"


def _record(place: Place) -> dict[str, Any]:
    return {
        "city": {"names": {"en": place.city}},
        "country": {"iso_code": place.country},
        "location": {"latitude": place.latitude, "longitude": place.longitude, "accuracy_radius": 20},
    }


def write(path: Path, kind: str, records: Mapping[str, Mapping[str, Any]]) -> None:
    """Write a database of blocks, longer ones over shorter ones; IPv4 stands below ::/96 as readers expect."""
    data = bytearray()
    tree: Tree = [[None, None]]
    for block, record in sorted(records.items(), key=lambda item: ipaddress.ip_network(item[0]).prefixlen):
        at = len(data)
        data += encode(record)
        _insert(tree, *_bits(block), at)
    nodes = b"".join(_node(left, right, len(tree)) for left, right in tree)
    about = {
        "binary_format_major_version": ("uint16", 2),
        "binary_format_minor_version": ("uint16", 0),
        "build_epoch": ("uint64", _BUILT),
        "database_type": kind,
        "description": {"en": "addresses that nobody has"},
        "ip_version": ("uint16", 6),
        "languages": ["en"],
        "node_count": ("uint32", len(tree)),
        "record_size": ("uint16", 32),
    }
    path.write_bytes(nodes + bytes(_GAP) + bytes(data) + _MARK + encode(about))


def _bits(block: str) -> tuple[int, int]:
    """Return the first bits of a block as a number, and how many."""
    network = ipaddress.ip_network(block)
    length = network.prefixlen + (96 if network.version == 4 else 0)
    return int(network.network_address) >> (128 - length), length


def _insert(tree: Tree, bits: int, length: int, at: int) -> None:
    """Put the data at offset `at` below a prefix; what a shorter prefix said is handed down where it is split."""
    node = 0
    for depth in range(length - 1, 0, -1):
        side = bits >> depth & 1
        below = tree[node][side]
        if not isinstance(below, list):
            tree.append([below, below])
            below = [len(tree) - 1]
            tree[node][side] = below
        node = below[0]
    tree[node][bits & 1] = at


def _node(left: Any, right: Any, count: int) -> bytes:
    def value(side: Any) -> int:
        if side is None:
            return count
        return int(side[0]) if isinstance(side, list) else count + _GAP + int(side)

    return struct.pack("!II", value(left), value(right))


def encode(value: Any) -> bytes:
    """Return a value as the data section writes it; a number may be given as (type, value)."""
    if isinstance(value, Mapping):
        inner = b"".join(encode(name) + encode(item) for name, item in value.items())
        return _control("map", len(value)) + inner
    if isinstance(value, list):
        return _control("array", len(value)) + b"".join(map(encode, value))
    if isinstance(value, str):
        text = value.encode()
        return _control("text", len(text)) + text
    if isinstance(value, float):
        return _control("double", 8) + struct.pack("!d", value)
    kind, number = value if isinstance(value, tuple) else ("uint32", value)
    raw = int(number).to_bytes((int(number).bit_length() + 7) // 8, "big")
    return _control(kind, len(raw)) + raw


def _control(kind: str, size: int) -> bytes:
    number = _POINTER_FREE[kind]
    extended = bytes([number - 7]) if number > 7 else b""
    first = 0 if number > 7 else number << 5
    if size < 29:
        return bytes([first | size]) + extended
    if size < 285:
        return bytes([first | 29]) + extended + bytes([size - 29])
    return bytes([first | 30]) + extended + struct.pack("!H", size - 285)
