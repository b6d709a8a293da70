# SPDX-License-Identifier: Apache-2.0
"""Our engine and the whole check beside other tools on one emulated way: `sudo python -m netdiag.route.lab.race`.

Each tool is started as its users start it, the quickest sensible options beside the defaults; one that is not installed
is left out. What is counted are distances at which it shows an address, and the seconds until it ends: the least of
several runs, all tools in turn. `--network` names another way, `--times` how often, `--markdown` prints a table for it.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from netdiag.errors import Unsupported
from netdiag.route.lab.chain import TARGET_IPS, Chain
from netdiag.route.lab.topology import shipped
from netdiag.route.lab.world import NOBODY, World

__all__ = ["Run", "distances", "main", "markdown", "race", "rate", "table"]

_OURS = """
import json, sys
from netdiag.route.engine.live import LiveProber
from netdiag.route.engine.__main__ import peak_mb
from netdiag.route.prober import TraceRequest
trace = LiveProber().trace(TraceRequest(ip=sys.argv[1], privileged=bool(int(sys.argv[2])), rounds=int(sys.argv[3])))
asked = [probe for probe in trace.probes if probe.reply and not probe.far]
end = min(probe.ttl for probe in asked if probe.reply.kind == "syn-ack" or probe.reply.kind == "rst")
for probe in asked:
    if probe.ttl <= end:
        print(probe.ttl, probe.reply.ip)
print("took", trace.duration_ms / 1000)
print("peak", peak_mb())
"""
_CHECK = """
import atexit, sys
from netdiag.route.engine.__main__ import peak_mb
atexit.register(lambda: print("\\npeak", peak_mb()))
from netdiag.cli.main import main
sys.argv[0] = "netdiag"
main()
"""
_RATE = """
import random, sys, time
from netdiag.route.engine.channel import Shot, source_address
from netdiag.route.engine.raw import Raw
from netdiag.route.model import Protocol
ip, wanted = sys.argv[1], int(sys.argv[2])
raw = Raw(ip, 443, Protocol.UDP, source=source_address(ip), chance=random.Random(1))
began, answered, sent = time.monotonic(), 0, 0
while sent < wanted:
    raw.send([Shot(number=sent + at, flow=0, ttl=1 + at % 4) for at in range(64)])
    sent += 64
    answered += len(raw.receive(0))
end = time.monotonic() + 0.5
took = time.monotonic() - began
while answered < sent and time.monotonic() < end:
    more = len(raw.receive(0.05))
    answered += more
    took = time.monotonic() - began if more else took
print(sent, answered, took)
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
_RATE_PROBES = 20_480


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
    peak_mb: float | None = None
    """Most memory that it held; None: not known."""


def distances(text: str) -> int:
    """Return at how many distances a tool's output shows an address."""
    return len({int(match[1]) for line in text.splitlines() if (match := _LINE.match(line))})


def race(network: str = "thirty-hops", *, times: int = 3) -> list[Run]:
    """Return our runs and those of the tools that are installed, of each the quickest of so many."""
    with World(shipped()[network]) as world:
        ip = world.topology.sites[0].ips[0]
        name = world.topology.sites[0].name
        plans: list[tuple[str, list[str], int]] = [
            (f"netdiag engine, {who}", [sys.executable, "-c", _OURS, ip, raw, rounds], uid)
            for who, raw, rounds, uid in (
                ("any user", "0", "1", NOBODY),
                ("root", "1", "1", 0),
                ("root, 3 rounds", "1", "3", 0),
            )
        ]
        checks: tuple[tuple[list[str], int], ...] = (
            ([ip, "--offline", "--rounds", "1"], NOBODY),
            ([name, "-4"], NOBODY),
            ([name, "-4"], 0),
        )
        for words, uid in checks:
            shown = " ".join(words).replace(ip, "IP").replace(name, "HOST")
            argv = [sys.executable, "-c", _CHECK, "route-check", *words, "--no-keep"]
            plans.append((f"netdiag route-check {shown}, {'root' if uid == 0 else 'any user'}", argv, uid))
        for tool, given in _TOOLS:
            program = shutil.which(given[0]) or shutil.which(given[0], path="/usr/sbin:/sbin")
            if program is not None:
                plans.append((tool, [program, *(part.format(ip=ip) for part in given[1:])], 0))
        if importlib.util.find_spec("scapy") is not None:
            plans.append(("scapy traceroute()", [sys.executable, "-c", _SCAPY, ip], 0))
        runs = [[_run(world, tool, argv, uid) for tool, argv, uid in plans] for _ in range(times)]
    return [min(same, key=lambda run: run.seconds) for same in zip(*runs, strict=True)]


def rate(*, times: int = 3) -> tuple[float, int, int]:
    """Return the most probes a second that the raw engine sends and matches, how many of how many were answered.

    The routers are kernels without a limit: an emulator would be what is measured.
    """
    best = (0.0, 0, 0)
    with Chain((1, 1, 1, 1)) as chain:
        for _ in range(times):
            text = chain.run([sys.executable, "-c", _RATE, TARGET_IPS[0], str(_RATE_PROBES)])
            sent, answered, took = text.split()
            best = max(best, (int(answered) / float(took), int(answered), int(sent)))
    return best


def _run(world: World, tool: str, argv: list[str], uid: int) -> Run:
    began = time.monotonic()
    try:
        text = world.run(argv, uid=uid, timeout_s=_SLOWEST_S)
    except Unsupported as error:
        text = f"0 {error.message}"
    seconds = time.monotonic() - began
    said = {word: float(value) for word, value in re.findall(r"^(took|peak) ([\d.]+)$", text, re.MULTILINE)}
    return Run(tool=tool, seconds=seconds, inside_s=said.get("took"), found=distances(text), peak_mb=said.get("peak"))


def _cells(run: Run) -> tuple[str, str, str, str, str]:
    inside = "" if run.inside_s is None else f"{run.inside_s:.3f}"
    peak = "" if run.peak_mb is None else f"{run.peak_mb:.0f}"
    return run.tool, f"{run.seconds:.2f}", inside, str(run.found), peak


_HEAD = ("tool", "seconds", "itself", "hops", "MB")


def table(runs: Sequence[Run]) -> str:
    """Return the runs as lines for a person."""
    rows = [_HEAD, *map(_cells, runs)]
    width = max(len(row[0]) for row in rows)
    return "\n".join(f"{row[0]:<{width}} {row[1]:>8} {row[2]:>7} {row[3]:>5} {row[4]:>4}" for row in rows)


def markdown(runs: Sequence[Run]) -> str:
    """Return the runs as a table for a document."""
    rows = [_HEAD, *map(_cells, runs)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEAD))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def main() -> None:
    """Run the race and print it."""
    parser = argparse.ArgumentParser(description="Our engine beside other tools on one emulated way.")
    parser.add_argument("--network", default="thirty-hops")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--markdown", action="store_true")
    given = parser.parse_args()
    runs = race(given.network, times=given.times)
    each, answered, sent = rate(times=given.times)
    print((markdown if given.markdown else table)(runs))  # noqa: T201 - its output
    print(f"\nengine, raw: {each:,.0f} probes/s answered, {answered:,} of {sent:,}")  # noqa: T201


if __name__ == "__main__":
    main()
