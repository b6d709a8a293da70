# SPDX-License-Identifier: Apache-2.0
"""Routers that are kernels: a chain of namespaces, joined by pairs of virtual Ethernet devices, IPv4 and IPv6.

What the emulator cannot show: real forwarding, real rate limits of ICMP, real hashing over several next hops, cold
neighbour tables. There is no delay. Needs root.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from netdiag.lab.network import command, inside
from netdiag.route.lab.world import add_namespace, as_user, check_rights, output, set_variables, start

__all__ = ["CLIENT_IPS", "TARGET_IPS", "Chain"]

CLIENT_IPS = ("198.18.255.2", "2001:db8:ffff::2")
TARGET_IPS = ("203.0.113.10", "2001:db8:cb00:7100::10")
_FORWARD = {
    "net.ipv4.ip_forward": "1",
    "net.ipv6.conf.all.forwarding": "1",
    "net.ipv4.conf.all.rp_filter": "0",
    "net.ipv4.conf.default.rp_filter": "0",
    "net.ipv4.fib_multipath_hash_policy": "1",
    "net.ipv6.fib_multipath_hash_policy": "1",
    "net.ipv6.conf.all.accept_dad": "0",
    "net.ipv6.conf.default.accept_dad": "0",
    "net.ipv6.conf.default.dad_transmits": "0",
}
_UNLIMITED = {
    "net.ipv4.icmp_ratelimit": "0",
    "net.ipv6.icmp.ratelimit": "0",
    "net.ipv4.icmp_msgs_per_sec": "1000000",
    "net.ipv4.icmp_msgs_burst": "100000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Link:
    number: int
    left: str
    right: str

    def address(self, side: int, version: int) -> str:
        """Return the address at the left (1) or right (2) end."""
        if version == 4:
            return f"198.18.{self.number}.{side}"
        return f"2001:db8:{self.number:x}::{side}"


class Chain:
    """Stages of routers between a client and a server; a stage of several balances by flow."""

    def __init__(self, widths: Sequence[int] = (1, 1, 1, 1), *, limited: bool = False) -> None:
        self.widths = tuple(widths)
        self.limited = limited
        """Whether routers keep the kernel's own limit of ICMP errors."""
        self._cleanup = ExitStack()
        stem = f"ndroute-{os.getpid()}-{time.monotonic_ns() // 1000 % 1000000}"
        routers = [[f"{stem}-{at}{chr(97 + n)}" for n in range(width)] for at, width in enumerate(self.widths, 1)]
        self.stages = [[f"{stem}-c"], *routers, [f"{stem}-s"]]
        pairs = [
            (left, right)
            for at in range(len(self.stages) - 1)
            for left in self.stages[at]
            for right in self.stages[at + 1]
        ]
        self._links = [_Link(number=number, left=left, right=right) for number, (left, right) in enumerate(pairs, 1)]
        self.folder: Path

    def __enter__(self) -> Self:
        check_rights()
        try:
            self._make()
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._cleanup.close()

    def routers(self, version: int) -> list[set[str]]:
        """Return for each stage the addresses that its routers answer from."""
        return [
            {link.address(2, version) for link in self._links if link.right in stage} for stage in self.stages[1:-1]
        ]

    def run(self, argv: Sequence[str], *, uid: int = 0, timeout_s: float = 60.0) -> str:
        """Return what `argv` prints at the client's end; Unsupported with its own words where it fails."""
        return output(inside(self.stages[0][0], as_user(argv, uid)), timeout_s)

    def _make(self) -> None:
        self.folder = Path(self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="ndroute-")))
        self.folder.chmod(0o755)
        names = [name for stage in self.stages for name in stage]
        for name in names:
            add_namespace(self._cleanup, name)
            set_variables(name, _FORWARD | ({} if self.limited and name in self._inner() else _UNLIMITED))
        for link in self._links:
            self._join(link)
        for name, own in ((names[0], CLIENT_IPS), (names[-1], TARGET_IPS)):
            self._batch(name, [f"addr add {ip} dev lo" for ip in own])
        for at, stage in enumerate(self.stages):
            for name in stage:
                self._batch(name, [*self._routes(name, at, forth=True), *self._routes(name, at, forth=False)])
        path = self.folder / "nothing.json"
        path.write_text(json.dumps({"title": "a chain", "sites": []}))
        start(self._cleanup, names[-1], "netdiag.route.lab.origin", str(path))

    def _inner(self) -> list[str]:
        return [name for stage in self.stages[1:-1] for name in stage]

    def _join(self, link: _Link) -> None:
        left, right = f"r{link.number}", f"l{link.number}"
        command(
            ["ip", "link", "add", left, "netns", link.left, "type", "veth", "peer", "name", right, "netns", link.right]
        )
        for name, device, side in ((link.left, left, 1), (link.right, right, 2)):
            addresses = [f"addr add {link.address(side, 4)}/30 dev {device}"]
            addresses += [f"addr add {link.address(side, 6)}/64 dev {device} nodad"]
            self._batch(name, [*addresses, f"link set {device} up"])

    def _routes(self, name: str, at: int, *, forth: bool) -> list[str]:
        """Return the routes of a node towards the server, or back to the client, over all neighbours there."""
        links = [link for link in self._links if name == (link.left if forth else link.right)]
        if not links:
            return []
        ends = TARGET_IPS if forth else CLIENT_IPS
        lines = []
        for version, ip in zip((4, 6), ends, strict=True):
            bits = 32 if version == 4 else 128
            own = f" src {CLIENT_IPS[version == 6]}" if at == 0 else f" src {TARGET_IPS[version == 6]}"
            source = own if at in (0, len(self.stages) - 1) else ""
            gates = [link.address(2 if forth else 1, version) for link in links]
            hops = f" via {gates[0]}" if len(gates) == 1 else "".join(f" nexthop via {gate}" for gate in gates)
            lines.append(f"route add {ip}/{bits}{source}{hops}")
        return lines

    @staticmethod
    def _batch(namespace: str, lines: Sequence[str]) -> None:
        if lines:
            command(["ip", "-n", namespace, "-batch", "-"], text="\n".join(lines) + "\n")
