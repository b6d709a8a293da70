# SPDX-License-Identifier: Apache-2.0
"""How many flows rule out one more way (the multipath stopping rule), and which probes are wanted for that. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cache

from netdiag.route.model import Kind, Probe

__all__ = ["Router", "Wanted", "flows_needed", "routers", "wanting"]

_MOST = 16
"""Ways at one router that are looked for."""
_FUTILE = 2
"""A router's next hop that left this many times the needed probes unanswered is not asked further."""


@dataclass(slots=True, kw_only=True)
class Router:
    """What is known of one address at one distance; distance 0 are we ourselves."""

    ttl: int
    onward: dict[int, str | None] = field(default_factory=dict)
    """Flow that passes it → who answered one hop further; None: nobody."""
    waiting: set[int] = field(default_factory=set)
    """Flows that pass it and were not asked one hop further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to send so that the rule may hold."""

    pairs: tuple[tuple[int, int], ...]
    """(flow, TTL) of flows that are known to pass where more must be known."""
    new: Mapping[int, int]
    """Distance → how many new flows are to be asked there and one hop before."""

    def __bool__(self) -> bool:
        return bool(self.pairs or self.new)


@cache
def flows_needed(found: int, confidence: float) -> int:
    """Return how many flows must have met only `found` next hops to exclude one more, at this confidence.

    Where one more existed and all took equal shares, the chance that n flows miss at least one of K = found + 1 is the
    alternating sum over i of C(K, i) (1 - i/K)^n.
    """
    ways = min(max(found, 1), _MOST) + 1
    flows = ways
    while _miss(ways, flows) > 1 - confidence:
        flows += 1
    return flows


def _miss(ways: int, flows: int) -> float:
    return sum(math.comb(ways, i) * (1.0 - i / ways) ** flows * (1.0 if i % 2 else -1.0) for i in range(1, ways))


def routers(probes: Iterable[Probe]) -> dict[tuple[int, str], Router]:
    """Return what each router sends on where. A flow that met several addresses at one distance stands for none."""
    met: dict[tuple[int, int], set[str]] = {}
    for probe in probes:
        if not probe.warm_up and not probe.far:
            names = met.setdefault((probe.flow, probe.ttl), set())
            if probe.reply is not None:
                names.add(probe.reply.ip if probe.reply.kind is Kind.TTL_EXCEEDED else "")
    found: dict[tuple[int, str], Router] = {(0, ""): Router(ttl=0)}
    for (flow, ttl), names in met.items():
        if len(names) == 1 and "" not in names:
            router = found.setdefault((ttl, min(names)), Router(ttl=ttl))
            _note(router, flow, met.get((flow, ttl + 1)))
        if ttl == 1:
            _note(found[0, ""], flow, names)
    return found


def _note(router: Router, flow: int, names: AbstractSet[str] | None) -> None:
    if names is None:
        router.waiting.add(flow)
    elif len(names) <= 1:
        router.onward[flow] = min(names, default=None)


def wanting(
    known: Mapping[tuple[int, str], Router], *, confidence: float, skip: AbstractSet[int] = frozenset()
) -> Wanted:
    """Return which probes are wanted, so that the rule holds for each router.

    `skip` holds distances at which balancing is per packet: the rule does not apply.
    """
    at: dict[int, int] = {}
    for router in known.values():
        at[router.ttl] = at.get(router.ttl, 0) + len(router.onward) + len(router.waiting)
    pairs: set[tuple[int, int]] = set()
    new: dict[int, int] = {}
    for router in known.values():
        missing = 0 if {router.ttl, router.ttl + 1} & set(skip) else _missing(router, confidence)
        ready = sorted(router.waiting)[:missing]
        pairs |= {(flow, router.ttl + 1) for flow in ready}
        if missing > len(ready):
            share = (len(router.onward) + len(router.waiting)) / at[router.ttl]
            wanted = math.ceil((missing - len(ready)) / share)
            new[router.ttl + 1] = max(new.get(router.ttl + 1, 0), wanted)
    return Wanted(pairs=tuple(sorted(pairs)), new=new)


def _missing(router: Router, confidence: float) -> int:
    answers = [name for name in router.onward.values() if name is not None]
    needed = flows_needed(len(set(answers)), confidence)
    if len(router.onward) >= (_FUTILE if answers else 1) * needed:
        return 0
    return max(0, needed - (len(answers) if answers else len(router.onward)))
