# SPDX-License-Identifier: Apache-2.0
"""The whole command on the shipped networks, compared with what is true there: `python -m netdiag.route.lab.trials`.

`--times N` repeats all of them, `--root` runs them as root instead of as a user without any right. It prints a line for
every trial that was not right, and how many there were.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from netdiag.errors import NetdiagError
from netdiag.route.lab.topology import Station, Topology, Way, shipped
from netdiag.route.lab.world import NOBODY, World

__all__ = ["check", "differences", "main"]


def check(world: World, *words: str, uid: int = NOBODY) -> dict[str, Any]:
    """Return the document of a check at the client's end, with the network's own tables and its true place."""
    topology = world.topology
    here = topology.places[topology.client_place or ""]
    argv = [sys.executable, "-m", "netdiag", "route-check", topology.sites[0].name, "--format", "json", "--no-keep"]
    argv += ["--asn-db", str(world.asn_db), "--geo-db", str(world.geo_db), "--rounds", "2"]
    argv += ["--vantage", f"{here.latitude},{here.longitude}", "--baseline-ms", str(topology.truth.baseline_ms), *words]
    found: dict[str, Any] = json.loads(world.run(argv, uid=uid))
    return found


def differences(topology: Topology, found: Mapping[str, Any], *, root: bool) -> list[str]:
    """Return what a document says otherwise than it is, or beyond what may be claimed; nothing: it is right."""
    truth, detour, path = topology.truth, found["detour"], found["paths"][0]
    claimed = {one["code"] for one in found["findings"] if one["severity"] != "info"}
    pairs = {
        "verdict": (detour["verdict"], truth.verdict),
        "class": (detour["class"], truth.kind),
        "AS path": ([step["asn"] for step in path["as_path"]], list(truth.as_path)),
        "regions": (sorted(detour["regions"]), sorted(truth.regions)),
        "missing findings": (sorted({*truth.findings} - claimed), []),
        "over-claimed": (sorted(claimed - {*truth.findings, *truth.allowed}), []),
        "privileged": (path["privileged"], root),
        "reached": (path["reached"], truth.reached),
    }
    wrong = [f"{name}: {seen}, truly {right}" for name, (seen, right) in pairs.items() if seen != right]
    return [*wrong, *_hops(topology, path)]


def _hops(topology: Topology, path: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong about the routers: each must stand where one of the ways has it, and none may be missing.

    A router that is silent, loses, or limits its answers may be missing.
    """
    site = topology.site(path["ip"])
    if site is None:
        yield f"{path['ip']} is no address of the target"
        return
    version = 6 if ":" in path["ip"] else 4
    for hop in path["hops"]:
        seen = {one["ip"] for one in hop["responders"]}
        stages = [way.hops[hop["ttl"] - 1] for way in site.ways if hop["ttl"] <= len(way.hops)]
        true = {station.address(version) for stage in stages for station in (stage, *stage.also)}
        ends = {path["ip"]} if any(len(way.hops) < hop["ttl"] for way in site.ways) else set()
        if strange := seen - true - ends:
            yield f"hop {hop['ttl']}: {sorted(strange)} is not there"
        unheard = not path["privileged"] and any(
            one.nat == "address" for way in site.ways for one in way.hops[: hop["ttl"]]
        )  # the kernel finds no socket of ours by a quote with another source
        if not seen and stages and not unheard and not any(map(_reticent, stages)):
            yield f"hop {hop['ttl']}: nobody, truly {sorted(true)}"
    lengths = sorted({_length(way) for way in site.ways})
    if path["flow"] == "multi":
        lengths = list(range(lengths[0], lengths[-1] + 1))  # each distance was asked over a way of its own
    if len(path["hops"]) not in lengths:
        yield f"{len(path['hops'])} hops, truly {lengths}"


def _reticent(station: Station) -> bool:
    return station.silent or station.loss > 0 or station.limit_per_s is not None or station.drop > 0


def _length(way: Way) -> int:
    """Return at which distance TCP probes end: at the router that refuses them, or at the target."""
    stops = (at for at, hop in enumerate(way.hops, 1) if "tcp" in hop.filters and hop.refuse is not None)
    return next(stops, len(way.hops) + 1)


def main() -> None:
    """Try every network so often, and end with status 1 where one was not right."""
    parser = argparse.ArgumentParser(description="Check every shipped network with the whole command.")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--root", action="store_true")
    parser.add_argument("names", nargs="*", help="which networks; default: all")
    given = parser.parse_args()
    names = given.names or list(shipped())
    wrong = count = 0
    for number in range(1, given.times + 1):
        for name in names:
            count += 1
            if lines := _trial(name, root=given.root):
                wrong += 1
                print(f"round {number} {name}: {'; '.join(lines)}", flush=True)  # noqa: T201 - its output
        print(f"round {number}: {wrong} of {count} trials wrong so far", flush=True)  # noqa: T201
    sys.exit(1 if wrong else 0)


def _trial(name: str, *, root: bool) -> list[str]:
    try:
        with World(shipped()[name], seed=0) as world:
            return differences(world.topology, check(world, uid=0 if root else NOBODY), root=root)
    except NetdiagError as error:
        return [error.message]


if __name__ == "__main__":
    main()
