# SPDX-License-Identifier: Apache-2.0
"""How many flows rule out one more way (the multipath stopping rule), and where more are wanted. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import cache

from netdiag.route.model import Kind, Probe

__all__ = ["flows_needed", "next_hops", "wanting"]

_MOST = 16
"""Ways at one router that are looked for."""


@cache
def flows_needed(found: int, confidence: float) -> int:
    """Return how many flows must have met only `found` next hops to exclude one more, at this confidence.

    Where one more existed and all took equal shares, the chance that n flows miss at least one of K = found + 1 is the
    alternating sum over i of C(K, i) (1 - i/K)^n.
    """
    ways = min(found, _MOST) + 1
    flows = ways
    while _miss(ways, flows) > 1 - confidence:
        flows += 1
    return flows


def _miss(ways: int, flows: int) -> float:
    return sum(math.comb(ways, i) * (1.0 - i / ways) ** flows * (1.0 if i % 2 else -1.0) for i in range(1, ways))


def next_hops(probes: Iterable[Probe]) -> dict[tuple[int, str], dict[int, str]]:
    """Return for each router (distance, address) which of its flows went on to which address one hop further.

    Distance 0 with an empty address is ourselves. A flow that met several addresses at one distance stands for none.
    """
    met: dict[tuple[int, int], set[str]] = {}
    for probe in probes:
        if probe.reply is not None and not probe.warm_up:
            name = probe.reply.ip if probe.reply.kind is Kind.TTL_EXCEEDED else ""
            met.setdefault((probe.flow, probe.ttl), set()).add(name)
    onward: dict[tuple[int, str], dict[int, str]] = {}
    for (flow, ttl), names in met.items():
        before = {""} if ttl == 1 else met.get((flow, ttl - 1), set())
        if len(names) == 1 and len(before) == 1:
            onward.setdefault((ttl - 1, min(before)), {})[flow] = min(names)
    return onward


def wanting(
    onward: Mapping[tuple[int, str], Mapping[int, str]],
    *,
    confidence: float,
    skip: AbstractSet[int] = frozenset(),
) -> dict[int, int]:
    """Return distance → how many more flows its probes need, so that the rule holds for each router before it.

    `skip` holds distances at which balancing is per packet: the rule does not apply.
    """
    flows_at: dict[int, int] = {}
    for (ttl, _), went in onward.items():
        flows_at[ttl] = flows_at.get(ttl, 0) + len(went)
    more: dict[int, int] = {}
    for (ttl, _), went in onward.items():
        if ttl + 1 in skip or ttl in skip:
            continue
        missing = flows_needed(len(set(went.values())), confidence) - len(went)
        if missing > 0:
            share = len(went) / flows_at[ttl]
            more[ttl + 1] = max(more.get(ttl + 1, 0), math.ceil(missing / share))
    return more
