# SPDX-License-Identifier: Apache-2.0
"""Which packets the user wants to hear of: hosts, ports, a stretch of time."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netdiag.capture.layers import Segments

__all__ = ["Limits", "chosen", "inside", "take"]

Bools = NDArray[np.bool_]

_MAPPED = bytes(10) + b"\xff\xff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is looked at; None: everything."""

    networks: tuple[tuple[int, bytes], ...] | None = None
    """Length in bits and 16 bytes of each address or block; one end of a connection lies in one of them."""
    names: frozenset[str] = frozenset()
    """Names in lower case: those of connections whose ClientHello or whose name resolution block says so stay too."""
    ports: frozenset[int] | None = None
    """One end of a connection has one of them."""
    start_ns: int | None = None
    """Nanoseconds of the file's clock; with `relative`, since its first packet."""
    end_ns: int | None = None
    relative: tuple[bool, bool] = (False, False)
    """Whether start and end count from the first packet."""

    def target(self) -> dict[str, Any]:
        """Return what of them a recording's header says, as that of a live trace does."""
        hosts = sorted(self.names)
        for bits, network in self.networks or ():
            plain = _plain(network)
            length = bits - 8 * (16 - len(plain))
            block = str(ipaddress.ip_network((plain, length)))
            hosts.append(block.partition("/")[0] if length == 8 * len(plain) else block)
        return {"hosts": hosts, "port": sorted(self.ports or ())}

    def since(self, first_ns: int) -> Limits:
        """Return the limits with instants on the file's clock, whose first packet has this stamp."""
        start, end = (
            None if at is None else at + first_ns * relative
            for at, relative in zip((self.start_ns, self.end_ns), self.relative, strict=True)
        )
        return replace(self, start_ns=start, end_ns=end, relative=(False, False))


def _plain(address: bytes) -> bytes:
    return address[12:] if address[:12] == _MAPPED else address


def chosen(segments: Segments, limits: Limits) -> Bools:
    """Tell which segments are wanted."""
    keep = np.ones(len(segments.packet), bool)
    if limits.ports is not None:
        ports = list(limits.ports)
        keep &= np.isin(segments.source, ports) | np.isin(segments.destination, ports)
    if limits.networks is not None and not limits.names:
        keep &= _inside(segments.ends[:, :16], limits.networks) | _inside(segments.ends[:, 16:], limits.networks)
    if limits.start_ns is not None:
        keep &= segments.time_ns >= limits.start_ns
    if limits.end_ns is not None:
        keep &= segments.time_ns <= limits.end_ns
    return keep


def inside(address: bytes, networks: tuple[tuple[int, bytes], ...] | None) -> bool:
    """Tell whether an address of 16 bytes lies in one of the blocks."""
    return bool(_inside(np.frombuffer(address, np.uint8).reshape(1, 16), networks or ())[0])


def _inside(addresses: NDArray[np.uint8], networks: tuple[tuple[int, bytes], ...]) -> Bools:
    found = np.zeros(len(addresses), bool)
    for bits, network in networks:
        mask = int(ipaddress.ip_network((b"\0" * 16, bits)).netmask).to_bytes(16, "big")
        wanted = np.frombuffer(network, np.uint8)
        found |= ((addresses & np.frombuffer(mask, np.uint8)) == wanted).all(axis=1)
    return found


def take(segments: Segments, index: NDArray[np.int64] | Bools) -> Segments:
    """Return the segments at these positions."""
    names = [name for name in Segments.__slots__ if name != "raw"]
    return replace(segments, **{name: getattr(segments, name)[index] for name in names})
