# SPDX-License-Identifier: Apache-2.0
"""The networks on the way. What is certain is told from what an address alone suggests.

An address at a border may belong to either side; one of an exchange belongs to none of them; a network that shows at
one hop between two hops of another is a third party's address and no part of the way.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from netdiag.assets import data_dir
from netdiag.route.hops import Hop
from netdiag.route.knowledge import Knowledge

__all__ = ["Step", "as_path", "served_from", "siblings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One network on the way."""

    asn: int
    name: str | None
    first_ttl: int
    last_ttl: int
    certain: bool
    """False: one address alone says so, and the networks beside it may own that address."""


@cache
def _networks() -> Mapping[str, object]:
    return tomllib.loads((data_dir("probes") / "routes" / "networks.toml").read_text(encoding="utf-8"))


@cache
def siblings() -> Mapping[int, int]:
    """Return AS number → the first number of the organisation's list."""
    groups = _networks()["siblings"]
    assert isinstance(groups, list)  # noqa: S101 - shipped data
    return {asn: group[0] for group in groups for asn in group}


@cache
def served_from(asn: int) -> tuple[str, ...]:
    """Return airport codes of cities that an operator says it serves from; none where none are known."""
    table = _networks()["served_from"]
    assert isinstance(table, Mapping)  # noqa: S101 - shipped data
    return tuple(table.get(str(siblings().get(asn, asn)), ()))


def as_path(hops: Sequence[Hop], knowledge: Knowledge, target: str, *, reached: bool) -> tuple[Step, ...]:
    """Return the networks in order of the way, the target's own last (known from its address, reached or not)."""
    seen = [(hop.ttl, asn) for hop in hops if (asn := _asn(hop, knowledge)) is not None]
    goal = knowledge.of(target).asn
    if goal is not None and (not seen or not _same(seen[-1][1], goal) or not reached):
        seen.append(((hops[-1].ttl if reached else hops[-1].ttl + 1) if hops else 1, goal))
    runs = _without_visitors(_runs(seen))
    names = _names(hops, knowledge, target)
    return tuple(
        Step(
            asn=numbers[0],
            name=names.get(numbers[0]),
            first_ttl=ttls[0],
            last_ttl=ttls[-1],
            certain=_certain(at, len(runs), ttls, goal, numbers[0]),
        )
        for at, (numbers, ttls) in enumerate(runs)
    )


def _asn(hop: Hop, knowledge: Knowledge) -> int | None:
    """Return the hop's network; None where it is silent, private, at an exchange, or its addresses disagree."""
    found: set[int] = set()
    for one in hop.responders:
        facts = knowledge.of(one.ip)
        if facts.asn is not None and facts.exchange is None:
            found.add(facts.asn)
    groups = {siblings().get(asn, asn) for asn in found}
    return min(found) if len(groups) == 1 else None


def _same(one: int, other: int) -> bool:
    return siblings().get(one, one) == siblings().get(other, other)


def _runs(seen: Iterable[tuple[int, int]]) -> list[tuple[list[int], list[int]]]:
    runs: list[tuple[list[int], list[int]]] = []
    for ttl, asn in seen:
        if runs and _same(runs[-1][0][0], asn):
            runs[-1][0].append(asn)
            runs[-1][1].append(ttl)
        else:
            runs.append(([asn], [ttl]))
    return runs


def _without_visitors(runs: list[tuple[list[int], list[int]]]) -> list[tuple[list[int], list[int]]]:
    """Drop a network of one hop between two hops of one other network, and join those."""
    at = 1
    while at < len(runs) - 1:
        before, here, behind = runs[at - 1 : at + 2]
        if len(here[1]) == 1 and _same(before[0][0], behind[0][0]):
            runs[at - 1 : at + 2] = [(before[0] + behind[0], before[1] + behind[1])]
            at = max(1, at - 1)
        else:
            at += 1
    return runs


def _certain(at: int, runs: int, ttls: Sequence[int], goal: int | None, asn: int) -> bool:
    if at == runs - 1 and goal is not None and _same(asn, goal):
        return True
    return len(ttls) > 1


def _names(hops: Sequence[Hop], knowledge: Knowledge, target: str) -> dict[int, str]:
    named: dict[int, str] = {}
    for ip in (target, *(one.ip for hop in hops for one in hop.responders)):
        facts = knowledge.of(ip)
        if facts.asn is not None and facts.as_name:
            named.setdefault(facts.asn, facts.as_name)
    return named
