# SPDX-License-Identifier: Apache-2.0
"""Addresses and endpoints as records hold them (16 bytes, IPv4 as IPv4-mapped IPv6) and as people write them."""

from __future__ import annotations

import ipaddress

__all__ = ["endpoint", "from_text", "is_loopback", "prefix", "to_text"]

_MAPPED = bytes(10) + b"\xff\xff"


def to_text(raw: bytes) -> str | None:
    """Return 16 bytes as text, IPv4-mapped as plain IPv4; None for the unspecified address, which means not known."""
    if raw[:12] == _MAPPED:
        raw = raw[12:]
    return str(ipaddress.ip_address(raw)) if any(raw) else None


def from_text(text: str) -> bytes:
    """Return an address as the 16 bytes of a record; ValueError when it is none."""
    packed = ipaddress.ip_address(text.strip("[]")).packed
    return packed if len(packed) == 16 else _MAPPED + packed


def endpoint(ip: str | None, port: int | None) -> str | None:
    """Return `192.0.2.1:443` or `[2001:db8::1]:443`; the address alone without port; None without address."""
    if ip is None or port is None:
        return ip
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def prefix(text: str) -> tuple[int, bytes]:
    """Return an address or CIDR block as length in bits (of 128) and the 16 bytes; ValueError when it is neither."""
    network = ipaddress.ip_network(text, strict=False)
    return network.prefixlen + (96 if network.version == 4 else 0), from_text(str(network.network_address))


def is_loopback(ip: str) -> bool:
    """Tell whether an address is of this machine's loopback."""
    return ipaddress.ip_address(ip).is_loopback
