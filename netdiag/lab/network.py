# SPDX-License-Identifier: Apache-2.0
"""Private network namespaces in which a lab run may lose, delay and refuse packets; no real address is touched.

`[network]` of a scenario: `rtt_ms` puts client and server into two namespaces with a router that holds packets back;
without it both share one namespace and its loopback. `rules` are nftables statements for the input hook (`PORT` stands
for the server's port), `sysctl` sets kernel variables of the client's namespace, `names` are the settings of a name
server that the client asks. `every_s` with `outage_s` or `hold_s` loses or keeps all packets for that long, again and
again; `rate_kbit` narrows the line. Needs root.
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
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from netdiag.errors import NotPermitted, Unsupported
from netdiag.lab.name_settings import NameSettings

__all__ = ["HostNetwork", "Network", "PrivateNetwork", "of"]

TROUBLES = ("every_s", "outage_s", "hold_s", "rate_kbit")
"""Settings that the router takes: see `netdiag.lab.router.Troubles`."""
CLIENT_IP, SERVER_IP = "10.77.0.1", "10.77.1.1"
WITH_RESOLVER = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'


class HostNetwork:
    """The machine's own loopback: nothing to set up."""

    address = "127.0.0.1"
    questions: Path | None = None
    """There is no name server."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        return None

    def for_client(self, argv: Sequence[str]) -> list[str]:
        """Return the command as it is."""
        return list(argv)

    def for_server(self, argv: Sequence[str]) -> list[str]:
        """Return the command as it is."""
        return list(argv)

    def armed(self, port: int) -> None:
        """Nothing to do once the server listens."""


class PrivateNetwork:
    """One or two namespaces, made on entry and removed on exit."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings
        self.rtt_ms = float(settings.get("rtt_ms", 0.0))
        stem = f"ndlab-{os.getpid() % 100000}-{time.monotonic_ns() // 1000 % 1000000}"
        self.client = f"{stem}-c"
        self.server = f"{stem}-s" if self.rtt_ms else self.client
        self.address = SERVER_IP if self.rtt_ms else "127.0.0.1"
        self.resolver: Path | None = None
        """The resolv.conf that leads to the lab's name server."""
        self.questions: Path | None = None
        """What that was asked: a line of JSON each."""
        self._cleanup = ExitStack()

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

    def for_client(self, argv: Sequence[str]) -> list[str]:
        """Return the command that runs `argv` in the client's namespace, with the lab's name server if there is one."""
        if self.resolver is not None:
            argv = ["unshare", "--mount", "sh", "-c", WITH_RESOLVER, str(self.resolver), *argv]
        return inside(self.client, argv)

    def for_server(self, argv: Sequence[str]) -> list[str]:
        """Return the command that runs `argv` in the server's namespace."""
        return inside(self.server, argv)

    def armed(self, port: int) -> None:
        """Install the packet rules, now that the server's port is known."""
        rules = [str(rule).replace("PORT", str(port)) for rule in self.settings.get("rules", [])]
        if rules:
            lines = ["table inet lab {", "chain arriving {", "type filter hook input priority 0;", *rules, "}", "}"]
            command(inside(self.server, ["nft", "-f", "-"]), text="\n".join(lines) + "\n")

    def _make(self) -> None:
        for name in dict.fromkeys((self.client, self.server)):
            command(["ip", "netns", "add", name])
            self._cleanup.callback(command, ["ip", "netns", "del", name])
            command(["ip", "-n", name, "link", "set", "lo", "up"])
        if self.rtt_ms:
            self._route()
        for name, value in self.settings.get("sysctl", {}).items():
            command(inside(self.client, ["sysctl", "-qw", f"{name}={value}"]))
        if "names" in self.settings:
            self._names()

    def _names(self) -> None:
        settings = NameSettings.read(self.settings["names"])
        folder = Path(self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="netdiag-names-")))
        folder.chmod(0o755)
        self.resolver, self.questions, table = folder / "resolv.conf", folder / "facts.jsonl", folder / "names.json"
        self.resolver.write_text(settings.resolv_conf())
        table.write_text(json.dumps(self.settings["names"]))
        argv = [sys.executable, "-m", "netdiag.lab.names", str(table), str(self.questions)]
        self._helper(inside(self.client, argv), "name server")

    def _helper(self, argv: Sequence[str], what: str, hint: str | None = None) -> None:
        """Start a process that says `ready`, and end it at the exit."""
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        if process.stdout is not None:
            self._cleanup.callback(process.stdout.close)
        self._cleanup.callback(process.wait)
        self._cleanup.callback(process.terminate)
        if process.stdout is None or process.stdout.readline().strip() != "ready":
            raise Unsupported(f"the lab's {what} did not start", hint=hint)

    def _route(self) -> None:
        loss = str(self.settings.get("loss", 0.0))
        argv = [sys.executable, "-m", "netdiag.lab.router", self.client, self.server, str(self.rtt_ms / 2), loss]
        troubles = json.dumps({name: self.settings[name] for name in TROUBLES if name in self.settings})
        self._helper([*argv, str(self.settings.get("seed", 0)), troubles], "router", "it needs /dev/net/tun")
        for name, own, peer in ((self.client, CLIENT_IP, SERVER_IP), (self.server, SERVER_IP, CLIENT_IP)):
            command(["ip", "-n", name, "addr", "add", f"{own}/32", "dev", "lab0"])
            command(["ip", "-n", name, "link", "set", "lab0", "mtu", "1500", "up"])
            command(["ip", "-n", name, "route", "add", f"{peer}/32", "dev", "lab0", "src", own])


Network = HostNetwork | PrivateNetwork


def of(settings: Mapping[str, Any]) -> Network:
    """Return the network that a scenario's `[network]` table asks for."""
    return PrivateNetwork(settings) if settings else HostNetwork()


def inside(namespace: str, argv: Sequence[str]) -> list[str]:
    """Return the command that runs `argv` in a namespace, with the mounts of the machine."""
    return ["nsenter", f"--net=/run/netns/{namespace}", "--", *argv]


def check_rights() -> None:
    """Raise NotPermitted or Unsupported where namespaces can't be made."""
    if os.geteuid() != 0:
        raise NotPermitted("this scenario makes private network namespaces", hint="start it with sudo")
    missing = [name for name in ("ip", "nft", "nsenter", "sysctl") if shutil.which(name) is None]
    if missing or not Path("/dev/net/tun").exists():
        raise Unsupported(f"missing: {missing or '/dev/net/tun'}", hint="apt install iproute2 nftables procps")


def command(argv: Sequence[str], *, text: str | None = None) -> None:
    """Run one set-up command; its own words are the error's."""
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unsupported(f"{' '.join(argv)}: {done.stderr.strip()[-200:]}")
