# SPDX-License-Identifier: Apache-2.0
"""What a check is to send, and to whom."""

from __future__ import annotations

from dataclasses import dataclass

from netdiag.route.landmarks import Marks
from netdiag.route.model import Protocol

__all__ = ["Plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the user wants to be sent."""

    host: str
    port: int = 443
    protocol: Protocol = Protocol.TCP
    families: tuple[int, ...] = (4, 6)
    rounds: int = 3
    flows: int = 1
    attempts: int = 12
    names: bool = True
    """Ask for the names of routers."""
    resolvers: tuple[str, ...] = ()
    offline: bool = False
    """Neither DNS nor HTTP: the path alone."""
    http: bool = True
    origins: bool = False
    """Ask Team Cymru's zones for networks that the tables do not know."""
    latitude: float | None = None
    longitude: float | None = None
    marks: Marks = ()
    privileged: bool | None = None
    proxy: str | None = None
    """Host and port that programs of this environment use instead of the direct way."""
    inside: bool = False
    """Probe inside a connection of our own, too. Needs root, and sends two HTTPS requests on it."""
    odd: bool = False
    """Send unusual packets to the target, too. Needs root and Scapy."""

    @property
    def server_name(self) -> str:
        """Return the name that TLS and HTTP are to use: DNS alone knows a last dot (RFC 6066)."""
        return self.host.removesuffix(".")
