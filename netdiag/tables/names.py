# SPDX-License-Identifier: Apache-2.0
"""Look-ups and the connections that follow them: names of servers, and how long a request waited for an address. Pure.

A look-up belongs to a connection of the same process to one of its answers. A request waited for it when its connection
was opened at once afterwards, or as the first one of that look-up, or after attempts at the look-up's other addresses.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from netdiag.tables.lookups import LookUp

__all__ = ["followed", "name_servers", "wait_for_names"]

_AT_ONCE_NS = 50e6
_LATEST_NS = 1e9
"""A program that waits longer between the answer and the connection waits for something else."""
_GIVEN_UP_NS = 60e9
"""So long a resolver may wait for an answer that never comes."""

_Index = Mapping[tuple[float, str], list[LookUp]]


def followed(connections: pd.DataFrame, lookups: Sequence[LookUp]) -> list[LookUp | None]:
    """Return for each connection the last look-up of its process that gave its address before it opened, or None."""
    index = _index(lookups)
    found: list[LookUp | None] = []
    columns = (connections[name].tolist() for name in ("pid", "remote_ip", "opened_ns", "role"))
    for pid, address, opened, role in zip(*columns, strict=True):
        there = index.get((_key(pid), address), []) if role == "client" else []
        at = bisect_right(there, opened, key=_end) if not math.isnan(opened) else 0
        found.append(there[at - 1] if at else None)
    return found


def _index(lookups: Sequence[LookUp]) -> _Index:
    found: dict[tuple[float, str], list[LookUp]] = {}
    for one in lookups:
        for address in one.answers:
            found.setdefault((_key(one.pid), address), []).append(one)
    for there in found.values():
        there.sort(key=_end)
    return found


def _key(pid: float) -> float:
    return -1.0 if math.isnan(pid) else pid


def _end(one: LookUp) -> float:
    """Return when the program could go on: with the last answer, where one never came with the last that did."""
    ends = [question.ended_ns for question in one.questions if not math.isnan(question.ended_ns)]
    return max(ends, default=one.started_ns) if math.isnan(one.ended_ns) else one.ended_ns


def name_servers(connections: pd.DataFrame, lookups: Sequence[LookUp]) -> pd.DataFrame:
    """Return the connections with `remote_name` where only a look-up tells it."""
    if not lookups or not len(connections):
        return connections
    names = connections["remote_name"].to_numpy(copy=True)
    for row, one in enumerate(followed(connections, lookups)):
        if names[row] is None and one is not None:
            names[row] = one.name
    return connections.assign(remote_name=pd.Series(names, dtype=object, index=connections.index))


def wait_for_names(requests: pd.DataFrame, connections: pd.DataFrame, lookups: Sequence[LookUp]) -> pd.DataFrame:
    """Return the requests with `dns_ms` of those that opened a connection: they began when the name was asked for.

    Where a process's look-ups are seen but none came before the connection, it waited for none; where none of its
    look-ups was ever seen it is not known. What lies between the answer and the connection stays unattributed.
    """
    if not lookups or not len(requests):
        return requests
    waits = _waits(connections, followed(connections, lookups))
    heard = {_key(one.pid) for one in lookups}
    row = requests["connection"].to_numpy()
    first = np.isnan(requests["dns_ms"].to_numpy()) & (row >= 0)
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
        took = before if math.isnan(one.ended_ns) else one.duration_ms
        columns["dns_ms"][at] = took
        columns["started_ns"][at] = one.started_ns
        columns["total_ms"][at] += before
        columns["unattributed_ms"][at] += before - took
    return requests.assign(**columns)


def _waits(connections: pd.DataFrame, lookups: Sequence[LookUp | None]) -> dict[int, LookUp]:
    """Return which connections were opened with an answer that had just come."""
    opened: list[float] = connections["opened_ns"].tolist()
    ends: list[float] = connections["ended_ns"].tolist()
    outcomes = connections["outcome"].tolist()
    latest: dict[int, float] = {}
    """Look-up → when it ended, or the last attempt at one of its addresses failed."""
    used: set[int] = set()
    found: dict[int, LookUp] = {}
    order = [(opened[row], row, one) for row, one in enumerate(lookups) if one is not None]
    for at, row, one in sorted(order, key=lambda each: each[:2]):
        since = latest.setdefault(one.row, _end(one))
        patience = _GIVEN_UP_NS if math.isnan(one.ended_ns) else _LATEST_NS
        if at - _end(one) <= _AT_ONCE_NS or (one.row not in used and at - since <= patience):
            found[row] = one
            if outcomes[row] == "established":
                used.add(one.row)
        if outcomes[row] != "established":
            latest[one.row] = max(since, at if math.isnan(ends[row]) else ends[row])
    return found
