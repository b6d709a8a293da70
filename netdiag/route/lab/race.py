# SPDX-License-Identifier: Apache-2.0
"""Our engine beside other tools on one emulated way: `sudo python -m netdiag.route.lab.race [NETWORK]`.

Each tool is started as its users start it, the quickest sensible options beside the defaults; one that is not installed
is left out. What is counted are distances at which it shows an address, and the seconds until it ends.
"""

from __future__ import annotations

import re
import shutil
import sys
import time
from dataclasses import dataclass

from netdiag.errors import Unsupported
from netdiag.route.lab.topology import shipped
from netdiag.route.lab.world import NOBODY, World

__all__ = ["Run", "distances", "main", "race", "table"]

_OURS = """
import json, sys
from netdiag.route.engine.live import LiveProber
from netdiag.route.prober import TraceRequest
trace = LiveProber().trace(TraceRequest(ip=sys.argv[1], privileged=bool(int(sys.argv[2])), rounds=int(sys.argv[3])))
asked = [probe for probe in trace.probes if probe.reply and not probe.far]
end = min(probe.ttl for probe in asked if probe.reply.kind == "syn-ack" or probe.reply.kind == "rst")
for probe in asked:
    if probe.ttl <= end:
        print(probe.ttl, probe.reply.ip)
print("took", trace.duration_ms / 1000)
"""
_SCAPY = """
import sys
from scapy.all import conf, traceroute
conf.verb = 0
answered, _ = traceroute(sys.argv[1], dport=443, maxttl=30, timeout=2)
for sent, reply in answered:
    print(sent.ttl, reply.src)
"""
_TOOLS = (
    ("mtr -r -c 1", ("mtr", "-n", "-r", "-c", "1", "{ip}")),
    ("mtr -r -c 1 -i 0.1", ("mtr", "-n", "-r", "-c", "1", "-i", "0.1", "{ip}")),
    ("traceroute -T", ("traceroute", "-n", "-T", "-p", "443", "{ip}")),
    ("traceroute -T -q 1 -N 30", ("traceroute", "-n", "-T", "-p", "443", "-q", "1", "-N", "30", "{ip}")),
    ("scamper -P icmp-paris -q 1 -w 1", ("scamper", "-c", "trace -P icmp-paris -q 1 -w 1", "-i", "{ip}")),
    ("tcptraceroute -q 1", ("tcptraceroute", "-n", "-q", "1", "{ip}", "443")),
)
_LINE = re.compile(r"^\s*(\d{1,2})[.|\s-]+(?:.*?\s)?((?:\d{1,3}\.){3}\d{1,3})(?:\s|$)")
_SLOWEST_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One tool on the way."""

    tool: str
    seconds: float
    """Until its process ended."""
    inside_s: float | None
    """What it says itself, without starting up; None: it does not."""
    found: int
    """Distances with an address, the target's included."""


def distances(text: str) -> int:
    """Return at how many distances a tool's output shows an address."""
    return len({int(match[1]) for line in text.splitlines() if (match := _LINE.match(line))})


def race(network: str = "thirty-hops", *, scapy: str | None = None) -> list[Run]:
    """Return our runs and those of the tools that are installed; `scapy` names a Python that has it."""
    with World(shipped()[network]) as world:
        ip = world.topology.sites[0].ips[0]
        runs = [
            _run(world, f"netdiag engine, {name}", [sys.executable, "-c", _OURS, ip, raw, rounds], uid)
            for name, raw, rounds, uid in (
                ("any user", "0", "1", NOBODY),
                ("root", "1", "1", 0),
                ("root, 3 rounds", "1", "3", 0),
            )
        ]
        for tool, argv in _TOOLS:
            program = shutil.which(argv[0]) or shutil.which(argv[0], path="/usr/sbin:/sbin")
            if program is not None:
                runs.append(_run(world, tool, [program, *(part.format(ip=ip) for part in argv[1:])], 0))
        if scapy is not None:
            runs.append(_run(world, "scapy traceroute()", [scapy, "-c", _SCAPY, ip], 0))
    return runs


def _run(world: World, tool: str, argv: list[str], uid: int) -> Run:
    began = time.monotonic()
    try:
        text = world.run(argv, uid=uid, timeout_s=_SLOWEST_S)
    except Unsupported as error:
        text = f"0 {error.message}"
    seconds = time.monotonic() - began
    said = re.search(r"^took ([\d.]+)$", text, re.MULTILINE)
    return Run(tool=tool, seconds=seconds, inside_s=float(said[1]) if said else None, found=distances(text))


def table(runs: list[Run]) -> str:
    """Return the runs as lines for a person."""
    lines = [f"{'tool':<32} {'seconds':>8} {'itself':>8} {'hops':>5}"]
    for run in runs:
        inside = "" if run.inside_s is None else f"{run.inside_s:.3f}"
        lines.append(f"{run.tool:<32} {run.seconds:>8.2f} {inside:>8} {run.found:>5}")
    return "\n".join(lines)


def main() -> None:
    """Run the race; a second argument names a Python that has scapy."""
    network = sys.argv[1] if len(sys.argv) > 1 else "thirty-hops"
    print(table(race(network, scapy=sys.argv[2] if len(sys.argv) > 2 else None)))  # noqa: T201 - its output


if __name__ == "__main__":
    main()
