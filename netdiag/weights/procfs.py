# SPDX-License-Identifier: Apache-2.0
"""The tier without rights: starts the process that looks (`watching`), and makes a `Load` of what it saw."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from netdiag.weights.aside import Aside
from netdiag.weights.model import File, Load, Point, Residents, Thread

__all__ = ["Child", "cost_of_rows", "load_of_rows", "memory_of_rows"]

_ARMED_S = 2.0
_STOP_S = 2.0
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_WAITS = ("fault", "read", "populate", "ioctl", "other", "unknown")


class Child(Aside):
    """The process that looks. Started before anything that it watches."""

    def __init__(self, paths: Sequence[str] = ()) -> None:
        self._answers, answers = os.pipe()
        super().__init__("netdiag.weights.watching", str(answers), *paths, stop_s=_STOP_S, keep=(answers,))
        os.close(answers)

    def watch(self, pid: int) -> None:
        """Have a process watched, and wait until it is."""
        if self.tell(f"pid {pid}") and select.select([self._answers], [], [], _ARMED_S)[0]:
            os.read(self._answers, 1)

    def stop(self) -> list[dict[str, Any]]:
        """End it and return its rows."""
        rows = super().stop()
        os.close(self._answers)
        return rows


def load_of_rows(rows: Sequence[Mapping[str, Any]], start_ns: int, end_ns: int) -> Load:
    """Return the load that the rows show; what /proc does not tell is None."""
    threads = sorted(_threads(rows, start_ns), key=_brings, reverse=True)
    cost = cost_of_rows(rows)
    return Load(
        threads=tuple(threads),
        files=tuple(sorted(_files(rows, start_ns), key=lambda file: file.size, reverse=True)),
        span_ms=(end_ns - start_ns) / 1e6,
        points=tuple(
            Point(
                at_ms=(row["at_ns"] - start_ns) / 1e6,
                device_bytes=row["device_bytes"],
                read_bytes=row["read_bytes"],
                faults=row["faults"],
            )
            for row in rows
            if row["kind"] == "point"
        ),
        lost={},
        recorder_ms=cost,
        looks_ms=cost,
        tier="procfs",
        made_of=memory_of_rows(rows),
    )


def cost_of_rows(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the time on a processor that looking took, ms; None where the rows do not say."""
    return next((row["cpu_ns"] / 1e6 for row in rows if row["kind"] == "cost"), None)


def memory_of_rows(rows: Sequence[Mapping[str, Any]]) -> tuple[Residents, ...]:
    """Return what the memory of processes was made of at its largest."""
    return tuple(
        Residents(
            pid=row["pid"],
            anonymous=row["anonymous"],
            anonymous_huge=row["anonymous_huge"],
            file_huge=row["file_huge"],
            nodes={int(node): size for node, size in row["nodes"].items()} if "nodes" in row else None,
            node=row.get("node"),
        )
        for row in rows
        if row["kind"] == "memory"
    )


_LEAST_LOOKS = 5
"""Looks that found a thread waiting; what fewer of them saw says nothing of where its time went."""


def _brings(thread: Thread) -> float:
    return thread.read_bytes + 4096 * (thread.minor_faults + thread.major_faults)


def _threads(rows: Sequence[Mapping[str, Any]], start_ns: int) -> Iterator[Thread]:
    for row in rows:
        if row["kind"] != "thread":
            continue
        wall = row["ended_ns"] - row["began_ns"]
        ready = row["ready"] or 0
        run = row["user"] + row["system"] if row["run"] is None else row["run"]  # ticks, where schedstat is missing
        seen = sum(row["off"].values()) if row["looks"] >= _LEAST_LOOKS else 0
        off = max(0, wall - run - ready) if seen else 0  # where too few looks found it waiting, that stays the rest
        blocked = {name: off * row["off"].get(name, 0) / seen / 1e6 if seen else 0.0 for name in _WAITS}
        yield Thread(
            pid=row["pid"],
            tid=row["tid"],
            comm=row["comm"],
            began_ms=(row["began_ns"] - start_ns) / 1e6,
            ended_ms=(row["ended_ns"] - start_ns) / 1e6,
            run_ms=run / 1e6,
            ready_ms=ready / 1e6,
            blocked_ms=blocked,
            copying_ms=0.0,
            slept_ms=off * row["off"].get("asleep", 0) / seen / 1e6 if seen else 0.0,
            samples={"user": row["user"] // _TICK_NS, "system": row["system"] // _TICK_NS},
            looks=row["looks"],
            read_bytes=row["rchar"] or 0,
            device_bytes=row["read_bytes"] or 0,
            reads=row["syscr"] or 0,
            minor_faults=row["minor"] or 0,
            major_faults=row["major"] or 0,
            waits_fault=0,
            waits_read=0,
        )


def _files(rows: Sequence[Mapping[str, Any]], start_ns: int) -> Iterator[File]:
    for row in rows:
        if row["kind"] != "file":
            continue
        unseen: dict[str, Any] = dict.fromkeys(
            (
                "faults", "forward", "backward", "near", "around", "around_bytes", "around_forward",
                "around_backward", "around_near", "readahead_waited", "readahead_ahead", "readahead_backward",
                "readahead_window", "gets", "get_bytes", "gets_backward", "thread_changes", "samples",
            ),
            0,
        )  # fmt: skip
        yield File(
            pid=row["pid"],
            device=row["device"],
            inode=row["inode"],
            path=row["path"],
            whole_path=True,
            size=row["size"],
            began_ms=(row["began_ns"] - start_ns) / 1e6,
            ended_ms=(row["ended_ns"] - start_ns) / 1e6,
            cached_before=row["cached_first"],
            cached_after=row["cached_last"],
            evicted=row["evicted"],
            watched=False,
            mapped=row["mapped"],
            came=(row["forward"], row["backward"], row["near"]),
            **unseen,
        )
