# SPDX-License-Identifier: Apache-2.0
"""Two private namespaces with an emulated network between them: client and name server here, HTTPS servers there.

No packet leaves them. Needs root; the programs that measure in there may run as any user.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

from netdiag.errors import NotPermitted, Unsupported
from netdiag.lab.network import command, inside
from netdiag.route.lab import databases
from netdiag.route.lab.lifeline import orphans
from netdiag.route.lab.topology import Topology, load
from netdiag.route.lab.wire import DEVICES

__all__ = [
    "NOBODY",
    "RESOLVER",
    "World",
    "add_namespace",
    "as_user",
    "check_rights",
    "output",
    "set_variables",
    "start",
]

NOBODY = 65534
RESOLVER = "127.0.0.53"
"""The name server of the client's namespace."""

_SERVER_SYSCTLS = {
    "net.ipv4.icmp_ratelimit": "0",
    "net.ipv6.icmp.ratelimit": "0",
    "net.ipv4.icmp_msgs_per_sec": "100000",
}
_CLIENT_SYSCTLS = {"net.ipv4.ping_group_range": "1 0", "net.ipv4.tcp_syn_retries": "2"}


class World:
    """A network from a file or a table, alive between entry and exit."""

    def __init__(self, source: Path | Mapping[str, Any], *, seed: int = 1, ping: bool = False) -> None:
        self._cleanup = ExitStack()
        self._source = source
        self._seed = seed
        self._ping = ping
        """Whether every user may open ICMP sockets."""
        stem = f"ndroute-{os.getpid()}-{time.monotonic_ns() // 1000 % 1000000}"
        self.client, self.server = f"{stem}-c", f"{stem}-s"
        self.topology: Topology

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

    def command(self, argv: Sequence[str], *, uid: int = 0) -> list[str]:
        """Return the command that runs `argv` at the client's end, with the lab's resolver; `uid` drops all rights."""
        bind = f'mount --bind {self.folder}/resolv.conf /etc/resolv.conf && exec "$@"'
        return inside(self.client, ["unshare", "--mount", "--", "sh", "-c", bind, "sh", *as_user(argv, uid)])

    def run(self, argv: Sequence[str], *, uid: int = 0, timeout_s: float = 180.0) -> str:
        """Return what `argv` prints at the client's end; Unsupported with its own words where it fails."""
        return output(self.command(argv, uid=uid), timeout_s)

    def _make(self) -> None:
        self.folder = Path(self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="ndroute-")))
        self.folder.chmod(0o755)
        (self.folder / "resolv.conf").write_text(f"nameserver {RESOLVER}\n")
        self.path = self._source if isinstance(self._source, Path) else self.folder / "topology.json"
        if not isinstance(self._source, Path):
            self.path.write_text(json.dumps(self._source))
        self.topology = load(self.path)
        self.asn_db, self.geo_db = databases.write_all(self.topology, self.folder)
        for name in (self.client, self.server):
            add_namespace(self._cleanup, name)
        set_variables(
            self.client, _CLIENT_SYSCTLS | ({"net.ipv4.ping_group_range": "0 2147483647"} if self._ping else {})
        )
        set_variables(self.server, _SERVER_SYSCTLS)
        self._program(self.client, "netdiag.route.lab.wire", str(self.path), str(self._seed))
        command(["ip", "-n", self.client, "link", "set", DEVICES[1], "netns", self.server])
        self._configure()
        self._program(self.server, "netdiag.route.lab.origin", str(self.path))
        self._program(self.client, "netdiag.route.lab.resolver", str(self.path), RESOLVER)

    def _configure(self) -> None:
        client, server = self.client, self.server
        own = [self.topology.client_ip, self.topology.client_ip6]
        lines = [(client, DEVICES[0], own), (server, DEVICES[1], [ip for s in self.topology.sites for ip in s.ips])]
        for namespace, device, addresses in lines:
            batch = [f"link set {device} mtu 1500 up"]
            batch += [f"addr add {ip} dev {device} {'nodad' if ':' in ip else ''}" for ip in addresses]
            batch += [f"route add {block} dev {device}" for block in ("0.0.0.0/0", "::/0")]
            command(["ip", "-n", namespace, "-batch", "-"], text="\n".join(batch) + "\n")

    def _program(self, namespace: str, module: str, *arguments: str) -> None:
        start(self._cleanup, namespace, module, *arguments)


def as_user(argv: Sequence[str], uid: int) -> list[str]:
    """Return the command that runs `argv` as a user without any capability; 0: as it is."""
    if not uid:
        return list(argv)
    drop = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]
    return [*drop, "--", *argv]


def output(argv: Sequence[str], timeout_s: float) -> str:
    """Return what a command prints; Unsupported with its own words where it fails, or when it takes too long."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=timeout_s, cwd=_code())
    except subprocess.TimeoutExpired as error:
        raise Unsupported(f"{' '.join(argv)[-200:]}: not over after {timeout_s:.0f} s") from error
    if done.returncode:
        raise Unsupported(f"{' '.join(argv)[-200:]}: exit {done.returncode}: {done.stderr.strip()[-400:]}")
    return done.stdout


def start(cleanup: ExitStack, namespace: str, module: str, *arguments: str) -> None:
    """Run one of the lab's programs in a namespace until `cleanup` ends; return when it says that it is ready."""
    argv = inside(namespace, [sys.executable, "-m", module, *arguments])
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_code())
    cleanup.callback(process.wait)
    cleanup.callback(process.terminate)
    if process.stdin is None or process.stdout is None:
        raise Unsupported(f"{module} has no pipes")
    cleanup.callback(process.stdin.close)
    cleanup.callback(process.stdout.close)
    if process.stdout.readline().strip() != "ready":
        raise Unsupported(f"{module} did not start", hint="it needs /dev/net/tun")


def add_namespace(cleanup: ExitStack, name: str) -> None:
    """Make a network namespace with its loopback up, until `cleanup` ends."""
    command(["ip", "netns", "add", name])
    cleanup.callback(command, ["ip", "netns", "del", name])
    command(["ip", "-n", name, "link", "set", "lo", "up"])


def set_variables(namespace: str, values: Mapping[str, str]) -> None:
    """Set kernel variables of a namespace; those that an older kernel lacks are left."""
    for name, value in values.items():
        with suppress(Unsupported):
            command(inside(namespace, ["sysctl", "-qw", f"{name}={value}"]))


def _code() -> Path:
    """Return the folder that holds the package: `-m` finds it there where netdiag is not installed."""
    return Path(__file__).parents[3]


def check_rights() -> None:
    """Raise NotPermitted or Unsupported where networks can't be made; remove those whose maker was killed."""
    if os.geteuid() != 0:
        raise NotPermitted("the lab makes private network namespaces", hint="start it with sudo")
    missing = [name for name in ("ip", "nsenter", "unshare", "setpriv", "sysctl") if shutil.which(name) is None]
    if missing or not Path("/dev/net/tun").exists():
        raise Unsupported(f"missing: {missing or '/dev/net/tun'}", hint="apt install iproute2 util-linux procps")
    for name in orphans(path.name for path in Path("/run/netns").glob("ndroute-*")):
        with suppress(Unsupported):  # another lab found it at the same time
            command(["ip", "netns", "del", name])
