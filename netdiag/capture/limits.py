# SPDX-License-Identifier: Apache-2.0
"""Which packets the user wants to hear of: hosts, ports, a stretch of time."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from netdiag.capture.layers import Segments

__all__ = ["Limits", "chosen", "take"]

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is looked at; None: everything."""

    networks: tuple[tuple[int, bytes], ...] | None = None
    """Length in bits and 16 bytes of each address or block; one end of a connection lies in one of them."""
    port: int | None = None
    start_ns: int | None = None
    """Instant on the file's clock, nanoseconds."""
    end_ns: int | None = None


def chosen(segments: Segments, limits: Limits) -> Bools:
    """Tell which segments are wanted."""
    keep = np.ones(len(segments.packet), bool)
    if limits.port is not None:
        keep &= (segments.source == limits.port) | (segments.destination == limits.port)
    if limits.networks is not None:
        keep &= _inside(segments.ends[:, :16], limits.networks) | _inside(segments.ends[:, 16:], limits.networks)
    if limits.start_ns is not None:
        keep &= segments.time_ns >= limits.start_ns
    if limits.end_ns is not None:
        keep &= segments.time_ns <= limits.end_ns
    return keep


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
