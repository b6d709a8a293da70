# SPDX-License-Identifier: Apache-2.0
"""When processes stood still: stopped by a signal, frozen with their cgroup, or asleep with the whole machine. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from netdiag.tables.codes import ProcessKind
from netdiag.tables.columns import Columns
from netdiag.tables.schema import frame

__all__ = ["stops"]

_NAN = float("nan")
_SUSPEND_NS = 1_000_000_000
"""By so much the clock that counts sleep has to move against the one that does not."""
_MOST_NS = 1 << 62


def stops(
    events: Columns | None, clocks: Iterable[Mapping[str, Any]], start_ns: int, *, of: Mapping[str, Any] | None = None
) -> pd.DataFrame:
    """Return the stops by time. `of` is the clock of the header, `clocks` are the facts `clock`.

    `pid` is NaN where all processes stood still; `ended_ns` is NaN of those that had not gone on. The machine's sleep
    takes no time on the clock that is used here: it begins when it ends, `lasted_ms` is what others saw of it.
    """
    rows = _slept(clocks, start_ns, of or {})
    if events is not None:
        rows += _stopped(events)
    rows.sort(key=lambda row: (row["began_ns"], row["pid"] if row["pid"] == row["pid"] else -1.0))
    return frame("stops", len(rows), {name: [row[name] for row in rows] for name in rows[0]} if rows else {})


def _row(pid: float, began: float, ended: float, how: str) -> dict[str, Any]:
    return {"pid": pid, "began_ns": began, "ended_ns": ended, "lasted_ms": (ended - began) / 1e6, "how": how}


def _stopped(events: Columns) -> list[dict[str, Any]]:
    """Pair what stops a process with what lets it go on; whoever exits stands still no longer."""
    cells = (events.integers("tgid"), events.integers("kind"), events.integers("cgroup"), events.instant("time"))
    order = np.argsort(cells[3], kind="stable")
    home: dict[int, int] = {}
    pairs = _Pairs()
    for pid, kind, cgroup, at in zip(*(column[order].tolist() for column in cells), strict=True):
        if kind in (ProcessKind.FROZEN, ProcessKind.THAWED):
            for member in [one for one, its in home.items() if its == cgroup]:
                pairs.tell(member, "freezer", at, stands=kind == ProcessKind.FROZEN)
            continue
        home[pid] = cgroup
        if kind in (ProcessKind.STOPPED, ProcessKind.CONTINUED):
            pairs.tell(pid, "signal", at, stands=kind == ProcessKind.STOPPED)
        elif kind == ProcessKind.EXIT:
            pairs.leave(pid, at)
            del home[pid]
    return pairs.rows()


class _Pairs:
    """Stops that have ended, and those that last."""

    def __init__(self) -> None:
        self._since: dict[tuple[int, str], float] = {}
        self._over: list[dict[str, Any]] = []

    def tell(self, pid: int, how: str, at: float, *, stands: bool) -> None:
        if stands:
            self._since.setdefault((pid, how), at)
        elif (pid, how) in self._since:
            self._over.append(_row(float(pid), self._since.pop((pid, how)), at, how))

    def leave(self, pid: int, at: float) -> None:
        for how in ("signal", "freezer"):
            self.tell(pid, how, at, stands=False)

    def rows(self) -> list[dict[str, Any]]:
        return self._over + [_row(float(pid), at, _NAN, how) for (pid, how), at in self._since.items()]


def _slept(clocks: Iterable[Mapping[str, Any]], start_ns: int, first: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the times that the machine slept: the clock that goes on then is further ahead than before."""
    rows = []
    before = _ahead(first)
    for clock in clocks:
        now = _ahead(clock)
        if before is not None and now is not None and now - before > _SUSPEND_NS:
            at = float(clock["monotonic_ns"] - start_ns)
            rows.append(_row(_NAN, at, at, "sleep") | {"lasted_ms": (now - before) / 1e6})
        before = before if now is None else now
    return rows


def _ahead(clock: Mapping[str, Any]) -> int | None:
    values = [clock.get(name) for name in ("boottime_ns", "monotonic_ns")]
    sound = [value for value in values if type(value) is int and 0 <= value < _MOST_NS]
    return sound[0] - sound[1] if len(sound) == len(values) else None
