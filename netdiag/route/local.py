# SPDX-License-Identifier: Apache-2.0
"""What this machine knows of its own addresses, without a packet."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable

__all__ = ["public_address", "source_towards"]

_SOMEWHERE = {4: "192.0.2.1", 6: "2001:db8::1"}


def source_towards(ip: str) -> str | None:
    """Return the address that the system would send from; None without a way. A connected UDP socket sends nothing."""
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((ip, 9))
            return str(sock.getsockname()[0])
    except OSError:
        return None


def public_address(families: Iterable[int]) -> str | None:
    """Return an address of this machine that is valid on the internet; None behind a translator."""
    for version in families:
        source = source_towards(_SOMEWHERE[version])
        if source is not None and ipaddress.ip_address(source).is_global:
            return source
    return None
