# SPDX-License-Identifier: Apache-2.0
"""A name server that knows one network: `… -m netdiag.route.lab.resolver FILE ADDRESS`, UDP port 53 of that address.

It answers A, AAAA and HTTPS of the sites, PTR of routers, and TXT in the two `origin` zones that tell an address's AS.
Other names do not exist. It prints `ready` and runs until SIGTERM.
"""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import struct
import sys
from pathlib import Path

from netdiag.route.lab.lifeline import end_with_starter
from netdiag.route.lab.topology import Topology, load

__all__ = ["Zone", "main", "respond"]

_TYPES = {1: "A", 12: "PTR", 16: "TXT", 28: "AAAA", 65: "HTTPS"}
_NXDOMAIN = 3
_TTL_S = 60


class Zone:
    """Name and type → answers, from a network's file."""

    def __init__(self, topology: Topology) -> None:
        self.records: dict[tuple[str, str], list[bytes]] = {}
        for site in topology.sites:
            for ip in site.ips:
                address = ipaddress.ip_address(ip)
                self._add(site.name, "A" if address.version == 4 else "AAAA", address.packed)
            if site.https:
                self._add(site.name, "HTTPS", _https(site.https))
        for station in topology.stations():
            if station.name:
                for version in (4, 6):
                    self._pointer(station.address(version), station.name)
        for ip, name in topology.names.items():
            self._pointer(ip, name)
        self._origins(topology)
        self.names = {name for name, _ in self.records}

    def _add(self, name: str, qtype: str, data: bytes) -> None:
        held = self.records.setdefault((name.lower().rstrip("."), qtype), [])
        if data not in held:
            held.append(data)

    def _pointer(self, ip: str, name: str) -> None:
        self._add(ipaddress.ip_address(ip).reverse_pointer, "PTR", _name(name))

    def _origins(self, topology: Topology) -> None:
        asked = {(s.address(v), s.asn) for s in topology.stations() for v in (4, 6)}
        asked |= {(ip, site.asn) for site in topology.sites for ip in site.ips}
        for ip, asn in asked:
            if asn is None:
                continue
            address = ipaddress.ip_address(ip)
            labels = address.reverse_pointer.rsplit(".", 2)[0]
            zone = "origin" if address.version == 4 else "origin6"
            block = ipaddress.ip_network(f"{ip}/{24 if address.version == 4 else 48}", strict=False)
            text = f"{asn} | {block} | ZZ | lab | 2026-01-01".encode()
            self._add(f"{labels}.{zone}.asn.cymru.com", "TXT", bytes([len(text)]) + text)
        for asn_text, name in topology.networks.items():
            text = f"{asn_text} | ZZ | lab | 2026-01-01 | {name}".encode()[:255]
            self._add(f"AS{asn_text}.asn.cymru.com", "TXT", bytes([len(text)]) + text)


def _name(text: str) -> bytes:
    labels = [label.encode("utf-8", "surrogateescape")[:63] for label in text.rstrip(".").split(".")]
    return b"".join(bytes([len(label)]) + label for label in labels if label) + b"\0"


def _https(text: str) -> bytes:
    """Return `1 . alpn=h2,h3` as a record's data: priority, target and the alpn parameter."""
    priority, target, *parameters = text.split()
    data = struct.pack("!H", int(priority)) + _name(target)
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key == "alpn":
            offered = b"".join(bytes([len(item)]) + item.encode() for item in value.split(","))
            data += struct.pack("!HH", 1, len(offered)) + offered
    return data


def _question(data: bytes) -> tuple[str, int, int] | None:
    """Return name, type and the offset behind the question; None where it is none."""
    at, labels = 12, []
    while at < len(data) and data[at]:
        length = data[at]
        if length > 63:
            return None
        labels.append(data[at + 1 : at + 1 + length].decode("utf-8", "replace"))
        at += 1 + length
    if at + 5 > len(data):
        return None
    return ".".join(labels).lower(), struct.unpack("!H", data[at + 1 : at + 3])[0], at + 5


def respond(zone: Zone, data: bytes) -> bytes | None:
    """Return the answer to a query, with its client subnet taken note of (scope /0); None for what is no query."""
    if len(data) < 12 or data[2] & 0x80:
        return None
    asked = _question(data)
    if asked is None:
        return None
    name, qtype, end = asked
    found = zone.records.get((name, _TYPES.get(qtype, "")), [])
    code = 0 if name in zone.names else _NXDOMAIN
    head = data[:2] + struct.pack("!HHHHH", 0x8580 | code, 1, len(found), 0, 0)
    answers = [b"\xc0\x0c" + struct.pack("!HHIH", qtype, 1, _TTL_S, len(item)) + item for item in found]
    return head + data[12:end] + b"".join(answers)


def main() -> None:
    """Answer until the process ends."""
    path, address = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    end_with_starter()
    zone = Zone(load(Path(path)))
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((address, 53))
        print("ready", flush=True)  # noqa: T201 - whoever started it waits for this line
        while True:
            query, client = sock.recvfrom(4096)
            reply = respond(zone, query)
            if reply is not None:
                sock.sendto(reply, client)


if __name__ == "__main__":
    main()
