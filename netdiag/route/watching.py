# SPDX-License-Identifier: Apache-2.0
"""What changed between two checks, a sentence each: verdicts, ways, places, actions. A pure function of documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["changes"]

_RTT_SHARE, _RTT_MS = 0.25, 10.0


def changes(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a person who watches wants to know; of the first check its verdict."""
    at = now["started"][11:19]
    detour = now["detour"]
    if before is None:
        yield f"{at} {detour['verdict']}: {detour['says']}"
        return
    old = before["detour"]
    if (old["verdict"], old["class"]) != (detour["verdict"], detour["class"]):
        yield f"{at} {old['verdict']} → {detour['verdict']}: {detour['says']}"
    yield from (f"{at} {text}" for text in _ways(before, now))
    yield from (f"{at} {text}" for text in _addresses(before, now))
    yield from (f"{at} {text}" for text in _actions(before, now))


def _ways(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    old = {(path["ip"], path["protocol"]): path for path in before["paths"]}
    for path in now["paths"]:
        known = old.get((path["ip"], path["protocol"]))
        if known is None:
            continue
        ways = [[step["asn"] for step in one["as_path"]] for one in (known, path)]
        if ways[0] != ways[1]:
            yield f"{path['ip']}: AS path {_arrow(ways[0])} became {_arrow(ways[1])}"
        if known["regions"] != path["regions"]:
            yield f"{path['ip']}: regions {_arrow(known['regions'])} became {_arrow(path['regions'])}"
        if known["reached"] != path["reached"]:
            yield f"{path['ip']}: the target {'answers' if path['reached'] else 'no longer answers'}"


def _arrow(items: list[Any]) -> str:
    return " → ".join(map(str, items)) or "nothing"


def _addresses(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    old = {one["ip"]: one for one in before["addresses"]}
    for gone in [ip for ip in old if ip not in {one["ip"] for one in now["addresses"]}]:
        yield f"{gone} is no longer an address of the host"
    for one in now["addresses"]:
        known = old.get(one["ip"])
        if known is None:
            yield f"{one['ip']} is a new address of the host"
            continue
        if known["pop"] != one["pop"]:
            yield f"{one['ip']}: served from {one['pop'] or 'nobody says where'}, before {known['pop'] or 'unknown'}"
        yield from _round_trip(one["ip"], known["connect_ms"]["median"], one["connect_ms"]["median"])


def _round_trip(ip: str, before: float | None, now: float | None) -> Iterator[str]:
    if before is None or now is None:
        return
    if abs(now - before) > max(_RTT_MS, _RTT_SHARE * before):
        yield f"{ip}: median {before:.1f} → {now:.1f} ms"


def _actions(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    old = {row["ip"]: row["action"] for row in before["pops"]}
    for row in now["pops"]:
        if row["ip"] in old and old[row["ip"]] != row["action"]:
            yield f"{row['ip']}: {old[row['ip']]} → {row['action']} ({row['why']})"
