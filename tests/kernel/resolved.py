# SPDX-License-Identifier: Apache-2.0
"""systemd-resolved in a namespace of its own: no bus, no service manager; the machine asks as it did before."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from netdiag.lab.network import PrivateNetwork

__all__ = ["STUB", "program", "running"]

STUB = "127.0.0.53"
PROGRAM = Path(__file__).resolve().parents[2] / ".cache" / "resolved" / "lib" / "systemd" / "systemd-resolved"
_START = """
for file in passwd group; do cp /etc/$file "$0/$file"; done
echo systemd-resolve:x:998:998::/:/usr/sbin/nologin >> "$0/passwd"; echo systemd-resolve:x:998: >> "$0/group"
for file in passwd group; do mount --bind "$0/$file" /etc/$file; done
mkdir -p /etc/systemd /run/systemd
mount -t tmpfs -o mode=755 none /etc/systemd && mount -t tmpfs -o mode=755 none /run/systemd
printf '[Resolve]\\nDNS=127.0.0.1\\nDomains=~.\\nDNSSEC=no\\nLLMNR=no\\nMulticastDNS=no\\n' > /etc/systemd/resolved.conf
mkdir /run/systemd/resolve && chown 998:998 /run/systemd/resolve
SYSTEMD_LOG_TARGET=console exec "$1"
"""


def program() -> str:
    """Return the path of systemd-resolved, of the machine or unpacked by setup; skip where there is none that runs."""
    for path in (PROGRAM, Path("/lib/systemd/systemd-resolved")):
        if path.exists():
            needs = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=False).stdout
            if "not found" not in needs:
                return str(path)
    pytest.skip("systemd-resolved is not there, or not that of this systemd: scripts/setup unpacks it")


@contextlib.contextmanager
def running(network: PrivateNetwork, folder: Path) -> Iterator[None]:
    """Run it in front of the network's name server; look-ups of the network's client go to its stub."""
    assert network.resolver is not None
    links = (
        ["link", "add", "lab1", "type", "veth", "peer", "name", "lab2"],
        ["link", "set", "lab2", "up"],
        ["address", "add", "10.78.0.1/24", "dev", "lab1"],
        ["link", "set", "lab1", "up"],
    )  # it answers nothing where no link leads anywhere
    for link in links:
        subprocess.run(network.for_server(["ip", *link]), check=True)
    folder.chmod(0o755)
    argv = network.for_server(["unshare", "--mount", "sh", "-ec", _START, str(folder), program()])
    log = folder / "resolved.log"
    with log.open("w") as errors, subprocess.Popen(argv, stderr=errors, env={"PATH": os.environ["PATH"]}) as process:
        try:
            _await(network, process, log)
            network.resolver.write_text(f"nameserver {STUB}\noptions edns0 trust-ad\n")
            yield
        finally:
            process.terminate()


def _await(network: PrivateNetwork, process: subprocess.Popen[bytes], log: Path) -> None:
    listening = network.for_server(["ss", "-Hlun", "src", STUB])
    for _ in range(100):
        if subprocess.run(listening, capture_output=True, check=True).stdout:
            return
        assert process.poll() is None, log.read_text()
        time.sleep(0.1)
    raise AssertionError(log.read_text())
