# SPDX-License-Identifier: Apache-2.0
"""Look-ups and the connections that follow them: names of servers, and how long a request waited for an address. Pure.

A look-up belongs to a connection of the same process to one of its answers. A request waited for it when its connection
was opened at once afterwards, or as the first one of that look-up, or after attempts at the look-up's other addresses.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

__all__ = ["followed", "name_servers", "wait_for_names"]

_AT_ONCE_NS = 50e6
_LATEST_NS = 1e9
"""A program that waits longer between the answer and the connection waits for something else."""


@dataclass(frozen=True, slots=True)
class _LookUp:
    row: int
    name: str
    started_ns: float
    ended_ns: float
    answers: frozenset[str]


_Index = Mapping[tuple[float, str], list[_LookUp]]


def followed(connections: pd.DataFrame, resolutions: pd.DataFrame) -> list[int | None]:
    """Return for each connection the row of the last look-up of its process that gave its address before it opened.

    None where there is none; a look-up of the C library goes before the questions that it asked.
    """
    return [None if found is None else found.row for found in _followed(connections, _index(resolutions))]


def _index(resolutions: pd.DataFrame) -> _Index:
    found: dict[tuple[float, str], list[_LookUp]] = {}
    cells = zip(
        *(resolutions[name].tolist() for name in ("pid", "name", "started_ns", "duration_ms", "answers", "part_of")),
        strict=True,
    )
    for row, (pid, name, started, took, answers, part_of) in enumerate(cells):
        if not answers or math.isnan(took) or not math.isnan(part_of) or name is None:
            continue
        one = _LookUp(row, name, started, started + took * 1e6, frozenset(answers))
        for address in one.answers:
            found.setdefault((_key(pid), address), []).append(one)
    for lookups in found.values():
        lookups.sort(key=lambda one: one.ended_ns)
    return found


def _key(pid: float) -> float:
    return -1.0 if math.isnan(pid) else pid


def _followed(connections: pd.DataFrame, index: _Index) -> list[_LookUp | None]:
    found: list[_LookUp | None] = []
    columns = (connections[name].tolist() for name in ("pid", "remote_ip", "opened_ns", "role"))
    for pid, address, opened, role in zip(*columns, strict=True):
        lookups = index.get((_key(pid), address), []) if role == "client" else []
        at = bisect_right(lookups, opened, key=lambda one: one.ended_ns) if not math.isnan(opened) else 0
        found.append(lookups[at - 1] if at else None)
    return found


def name_servers(connections: pd.DataFrame, resolutions: pd.DataFrame) -> pd.DataFrame:
    """Return the connections with `remote_name` where only a look-up tells it."""
    if not len(resolutions) or not len(connections):
        return connections
    lookups = _followed(connections, _index(resolutions))
    names = connections["remote_name"].to_numpy(copy=True)
    for row, one in enumerate(lookups):
        if names[row] is None and one is not None:
            names[row] = one.name
    return connections.assign(remote_name=pd.Series(names, dtype=object, index=connections.index))


def wait_for_names(requests: pd.DataFrame, connections: pd.DataFrame, resolutions: pd.DataFrame) -> pd.DataFrame:
    """Return the requests with `dns_ms` of those that opened a connection: they began when the name was asked for.

    Where a process's look-ups are seen but none came before the connection, it waited for none; where none of its
    look-ups was ever seen it is not known. What lies between the answer and the connection stays unattributed.
    """
    if not len(resolutions) or not len(requests):
        return requests
    waits = _waits(connections, _followed(connections, _index(resolutions)))
    heard = {_key(pid) for pid in resolutions["pid"].tolist()}
    row = requests["connection"].to_numpy()
    first = np.isnan(requests["dns_ms"].to_numpy())
    known = np.array([_key(pid) in heard for pid in connections["pid"].tolist()], bool)
    opened = connections["opened_ns"].to_numpy()[row]
    columns = {
        name: requests[name].to_numpy(copy=True) for name in ("dns_ms", "started_ns", "total_ms", "unattributed_ms")
    }
    columns["dns_ms"][first & known[row]] = 0.0
    for at in np.flatnonzero(first & (columns["started_ns"] == opened)):
        one = waits.get(int(row[at]))
        if one is None:
            continue
        before = (opened[at] - one.started_ns) / 1e6
        took = (one.ended_ns - one.started_ns) / 1e6
        columns["dns_ms"][at] = took
        columns["started_ns"][at] = one.started_ns
        columns["total_ms"][at] += before
        columns["unattributed_ms"][at] += before - took
    return requests.assign(**columns)


def _waits(connections: pd.DataFrame, lookups: list[_LookUp | None]) -> dict[int, _LookUp]:
    """Return which connections were opened with an answer that had just come."""
    opened = connections["opened_ns"].tolist()
    ends: list[float] = connections["ended_ns"].tolist()
    outcomes = connections["outcome"].tolist()
    latest: dict[int, float] = {}
    """Look-up → when the last attempt at one of its addresses failed, or it ended."""
    used: set[int] = set()
    found: dict[int, _LookUp] = {}
    for row in sorted((row for row, one in enumerate(lookups) if one is not None), key=lambda row: opened[row]):
        one = lookups[row]
        if one is None:
            continue
        since = latest.setdefault(one.row, one.ended_ns)
        prompt = opened[row] - one.ended_ns <= _AT_ONCE_NS
        if prompt or (one.row not in used and opened[row] - since <= _LATEST_NS):
            found[row] = one
            if outcomes[row] == "established":
                used.add(one.row)
        if outcomes[row] != "established":
            latest[one.row] = max(since, opened[row] if math.isnan(ends[row]) else ends[row])
    return found
