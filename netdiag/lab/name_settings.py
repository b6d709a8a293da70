# SPDX-License-Identifier: Apache-2.0
"""What the lab's name server can be told to do; every key of a scenario's `network.names` is a field here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from netdiag.lab.settings import checked

__all__ = ["NameSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NameSettings:
    """What the name server does. Times in seconds."""

    bind: tuple[str, ...] = ("127.0.0.1",)
    hosts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Name → its addresses of both families; other names do not exist."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Name → the name that it stands for."""
    errors: Mapping[str, str] = field(default_factory=dict)
    """Name → SERVFAIL, NXDOMAIN or REFUSED."""
    ttl_s: int = 60
    wait_s: float = 0.0
    """Before every answer."""
    wait_aaaa_s: float = 0.0
    """Further, before answers about IPv6 addresses."""
    lose: int = 0
    """So many first questions of each name and type get no answer."""
    lose_all: bool = False
    truncate: bool = False
    """Answers over UDP are empty and say that they are cut: the client asks again over TCP."""
    rotate: bool = False
    """Each answer begins with another address."""
    search: tuple[str, ...] = ()
    """For resolv.conf: domains that are tried behind a name with few dots."""
    options: str = ""
    """For resolv.conf, such as `ndots:5 timeout:1`."""

    @classmethod
    def read(cls, table: Mapping[str, Any]) -> NameSettings:
        """Return the settings of a table; unknown keys raise UsageError."""
        values = checked(cls, table)
        values["hosts"] = {name: tuple(ips) for name, ips in values.get("hosts", {}).items()}
        return cls(**values)

    def resolv_conf(self) -> str:
        """Return the file that leads a program to this server."""
        lines = [f"nameserver {address}" for address in self.bind]
        if self.search:
            lines.append("search " + " ".join(self.search))
        if self.options:
            lines.append(f"options {self.options}")
        return "\n".join(lines) + "\n"
