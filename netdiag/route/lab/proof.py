# SPDX-License-Identifier: Apache-2.0
"""Measures in an emulated network and compares with what is true there: addresses, distances, round trips.

`prove` is the self-test of routes on the user's own machine. It needs root, for the namespaces; the measuring program
runs once as an ordinary user without any capability and once as root.
"""

from __future__ import annotations

import ipaddress
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from typing import Protocol as Interface

from netdiag.route.lab.topology import Way, shipped
from netdiag.route.lab.world import NOBODY, World
from netdiag.route.model import Connect, Method, Trace
from netdiag.route.replies import from_target
from netdiag.route.store import restore

__all__ = ["Bench", "Check", "Proof", "compare", "connects", "prove", "traces"]

_TRIES = 4
TOLERANCE_MS = 2.0
"""Of the smallest of several round trips; the emulator itself is late by some tenths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was compared."""

    what: str
    right: bool
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The result of a self-test."""

    topology: str
    checks: tuple[Check, ...]
    largest_error_ms: float | None
    """Of any hop's smallest round trip, against the truth."""

    @property
    def right(self) -> bool:
        """Whether everything was as it is."""
        return all(check.right for check in self.checks)


class Bench(Interface):
    """A network with a client's end in which programs can run."""

    folder: Path
    """Readable by everyone."""

    def run(self, argv: Sequence[str], *, uid: int = 0, timeout_s: float = 60.0) -> str:
        """Return what `argv` prints at the client's end, as that user."""
        ...


def traces(world: Bench, requests: Sequence[Mapping[str, Any]], *, uid: int = 0) -> list[Trace]:
    """Return what the engine traces at the client's end of a network, as that user; members as of `TraceRequest`.

    Unsupported where the engine cannot run there.
    """
    return [restore(Trace, result) for result in _measure(world, requests, uid)]


def connects(world: Bench, requests: Sequence[Mapping[str, Any]], *, uid: int = 0) -> list[Connect]:
    """Return the connections that the engine opens there; members as of `ConnectRequest`."""
    marked = [{**request, "connect": True} for request in requests]
    return [restore(Connect, result) for result in _measure(world, marked, uid)]


def _measure(world: Bench, requests: Sequence[Mapping[str, Any]], uid: int) -> list[Any]:
    path = world.folder / "requests.json"
    path.write_text(json.dumps(list(requests)))
    shown = json.loads(world.run([sys.executable, "-m", "netdiag.route.engine", str(path)], uid=uid))
    return list(shown["results"])


def compare(trace: Trace, way: Way) -> tuple[list[Check], float | None]:
    """Return whether a trace shows a way as it is, and the largest error of a round trip, milliseconds.

    The way must be the only one to its site; what silent routers keep to themselves is not asked for.
    """
    version = ipaddress.ip_address(trace.ip).version
    name = f"{trace.protocol} to {trace.ip} ({trace.method})"
    wrong, errors = [], []
    for ttl, stage in enumerate(way.hops, 1):
        stations = (stage, *stage.also)
        met = _met(trace, ttl)
        true = {station.address(version): station for station in stations}
        silent = all(station.silent for station in stations)
        if not set(met) <= set(true) or bool(met) is silent:
            wrong.append(f"hop {ttl}: {', '.join(met) or 'nobody'}")
        errors += [rtt_ms - true[ip].ms for ip, rtt_ms in met.items() if ip in true]
    checks = [Check(what=f"{name}: routers", right=not wrong, note="; ".join(wrong) or f"{len(way.hops)} as they are")]
    distance = _distance(trace)
    right = distance == len(way.hops) + 1
    checks.append(Check(what=f"{name}: distance", right=right, note=f"{distance} of {len(way.hops) + 1}"))
    largest = max(errors, key=abs, default=None)
    near = largest is not None and abs(largest) <= TOLERANCE_MS
    note = "nothing measured" if largest is None else f"largest error {largest:+.2f} ms"
    return [*checks, Check(what=f"{name}: round trips", right=near, note=note)], largest


def _met(trace: Trace, ttl: int) -> dict[str, float]:
    """Return who answered at a distance, each with its smallest round trip."""
    met: dict[str, float] = {}
    for one in trace.probes:
        if one.ttl == ttl and one.reply is not None and not one.warm_up:
            met[one.reply.ip] = min(one.reply.rtt_ms, met.get(one.reply.ip, one.reply.rtt_ms))
    return met


def _distance(trace: Trace) -> int | None:
    answered = [
        one.ttl
        for one in trace.probes
        if one.reply is not None and not one.far and from_target(one.reply, ip=trace.ip, protocol=trace.protocol)
    ]
    return min(answered, default=None)


def prove(path: Path | None = None, *, rounds: int = 2) -> Proof:
    """Build one network, measure it as root and as an ordinary user, compare. NotPermitted without root."""
    source = shipped()["plain"] if path is None else path
    checks: list[Check] = []
    errors: list[float] = []
    with World(source) as world:
        site = world.topology.sites[0]
        for uid in (int(os.environ.get("SUDO_UID", NOBODY)) or NOBODY, 0):
            requests = [{"ip": ip, "protocol": name, "rounds": rounds} for ip in site.ips for name in ("tcp", "udp")]
            for request in requests:
                found, error, trace = _best(world, request, uid, site.ways[0])
                checks += [*found, _privilege(trace, uid)]
                errors += [] if error is None else [error]
        checks += [_connected(one, site.ways[0]) for one in connects(world, [{"ip": ip} for ip in site.ips])]
    return Proof(topology=source.stem, checks=tuple(checks), largest_error_ms=max(errors, key=abs, default=None))


def _best(world: World, request: Mapping[str, Any], uid: int, way: Way) -> tuple[list[Check], float | None, Trace]:
    """Return the first of some traces that shows the way as it is, or the last one: a busy machine is late at times."""
    for _ in range(_TRIES):
        (trace,) = traces(world, [request], uid=uid)
        found, error = compare(trace, way)
        if all(check.right for check in found):
            break
    return found, error, trace


def _privilege(trace: Trace, uid: int) -> Check:
    """Tell whether the method was the one for that user."""
    plain = trace.method in (Method.TCP_CONNECT, Method.UDP_SOCKET, Method.ICMP_SOCKET)
    return Check(
        what=f"{trace.method} as uid {uid}", right=plain is bool(uid), note="without raw sockets" if uid else "raw"
    )


def _connected(result: Connect, way: Way) -> Check:
    times = [attempt.connect_ms for attempt in result.attempts if attempt.connect_ms is not None]
    error = min(times) - way.ms if times else None
    right = error is not None and abs(error) <= TOLERANCE_MS
    note = "no connection" if error is None else f"{len(times)} of {len(result.attempts)}, {error:+.2f} ms"
    return Check(what=f"connects to {result.ip}", right=right, note=note)
