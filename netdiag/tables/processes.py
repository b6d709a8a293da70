# SPDX-License-Identifier: Apache-2.0
"""One row per process that was met, from the kernel's records and from what user space looked up. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from netdiag.tables.codes import ProcessKind
from netdiag.tables.columns import Columns
from netdiag.tables.schema import frame

__all__ = ["processes"]

_NAN = float("nan")


@dataclass(slots=True, eq=False)
class _Life:
    """A process from its start to its end; a pid may have more than one."""

    pid: int
    row: dict[str, Any] = field(default_factory=dict)
    parent: _Life | None = None
    """Whose program it goes on running: neither has run another one since the fork."""
    forked: list[_Life] = field(default_factory=list)


def processes(events: Columns | None, facts: Iterable[Mapping[str, Any]], start_ns: int) -> pd.DataFrame:
    """Return the processes in order of their start; what was looked up wins over what the kernel cut short."""
    lives = _lives(events) if events is not None else []
    by_pid: dict[int, list[_Life]] = {}
    for life in lives:
        by_pid.setdefault(life.pid, []).append(life)
    for pid, told in _told(facts).items():
        known = by_pid.setdefault(pid, [])
        while len(known) < 1:
            known.append(_Life(pid))
            lives.append(known[-1])
        # The facts of one life repeat its start; of several lives, the last facts belong to the last ones.
        for life, fact in zip(known[-len(told) :], told[-len(known) :], strict=True):
            forked = {"started_ns": life.row["started_ns"]} if "started_ns" in life.row else {}  # /proc counts in 10 ms
            life.row |= {
                name: value for name, value in _looked_up(fact, start_ns).items() if value is not None
            } | forked
    for life in lives:  # parents stand before their children
        _inherit(life)
    lives.sort(key=lambda life: (life.row.get("started_ns", -np.inf), life.pid))
    names = {name for life in lives for name in life.row}
    columns = {name: [life.row.get(name, _missing(name)) for life in lives] for name in names}
    return frame("processes", len(lives), {"pid": [life.pid for life in lives], **columns})


def _inherit(life: _Life) -> None:
    """Give a process that ran no program of its own what its parent was at the fork."""
    if life.parent is not None:
        for name in ("exe", "argv", "libraries"):
            if life.row.get(name) is None:
                life.row[name] = life.parent.row.get(name)


def _missing(name: str) -> Any:
    return _NAN if name in {"ppid", "started_ns", "ended_ns", "exit_code"} else None


def _lives(events: Columns) -> list[_Life]:
    """Follow each pid through fork, exec and exit."""
    open_lives: dict[int, _Life] = {}
    lives: list[_Life] = []
    time = events.instant("time")
    rows = zip(
        events.integers("tgid").tolist(),
        events.integers("kind").tolist(),
        time.tolist(),
        events.integers("parent").tolist(),
        events.integers("exit_code").tolist(),
        events.text("comm"),
        events.text("filename"),
        strict=True,
    )
    for _, (pid, kind, at, parent, code, comm, filename) in sorted(
        zip(time, rows, strict=True), key=lambda pair: pair[0]
    ):
        if kind > ProcessKind.EXIT:
            continue  # it stands still or goes on: nothing that it is changes
        if kind == ProcessKind.FORK or pid not in open_lives:
            open_lives[pid] = _Life(pid)
            lives.append(open_lives[pid])
            if kind == ProcessKind.FORK and parent in open_lives:
                open_lives[pid].parent = open_lives[parent]
                open_lives[parent].forked.append(open_lives[pid])
        row = open_lives[pid].row
        row["comm"] = comm or row.get("comm")
        if parent:
            row["ppid"] = float(parent)
        if filename:
            row["exe"] = filename
        if kind == ProcessKind.EXEC:
            _ran(open_lives[pid])
        if kind == ProcessKind.FORK:
            row["started_ns"] = at
        elif kind == ProcessKind.EXIT:
            row["ended_ns"] = at
            row["exit_code"] = float(128 + (code & 0x7F) if code & 0x7F else code >> 8 & 0xFF)
            del open_lives[pid]
    return lives


def _ran(life: _Life) -> None:
    """Part a process that runs another program from its parent, and its children from what it becomes."""
    for child in life.forked:
        child.parent = None
    life.parent, life.forked = None, []


def _told(facts: Iterable[Mapping[str, Any]]) -> dict[int, list[Mapping[str, Any]]]:
    """Return the facts of each pid: one for each start that was told, a later one completing the earlier."""
    told: dict[int, list[Mapping[str, Any]]] = {}
    for fact in facts:
        pid = fact.get("pid")
        if not isinstance(pid, int) or isinstance(pid, bool):
            continue
        known = told.setdefault(pid, [])
        if known and known[-1].get("started_ns") == fact.get("started_ns"):
            known[-1] = {**known[-1], **{name: value for name, value in fact.items() if value is not None}}
        else:
            known.append(fact)
    return told


def _looked_up(fact: Mapping[str, Any], start_ns: int) -> dict[str, Any]:
    """Return a fact's members as cells; None for what it does not say or says in a wrong type."""
    row: dict[str, Any] = {name: _text(fact.get(name)) for name in ("exe", "comm", "cgroup", "container", "pod")}
    started, ppid = fact.get("started_ns"), fact.get("ppid")
    row["ppid"] = float(ppid) if isinstance(ppid, int) else None
    row["started_ns"] = float(started - start_ns) if isinstance(started, int) else None
    row["argv"] = _list(fact.get("argv"), str)
    row["libraries"] = _list(fact.get("libraries"), dict)
    return row


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _list(value: object, kind: type) -> Sequence[Any] | None:
    return value if isinstance(value, list) and all(isinstance(item, kind) for item in value) else None
