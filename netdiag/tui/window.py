# SPDX-License-Identifier: Apache-2.0
"""Keeps of a recording what can be examined in the time there is: all of it, or the newest whole connections.

A connection is kept whole or not at all, as if those that are left out had not been traced. Pure but for its memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from netdiag.recording.reader import Recording, Records
from netdiag.tui.columns import Ints

__all__ = ["Window"]

_BY_COOKIE = ("tcp", "tcp_io", "tls_record", "http_request", "tls_call")
_OTHERS = 4000
"""Newest records kept of each stream that belongs to no connection."""


class Window:
    """Takes the parts of a recording as they come."""

    def __init__(self, limit: int) -> None:
        """`limit`: about so many records are examined at once."""
        self._limit = limit
        self._header: dict[str, Any] = {}
        self._whole: Recording | None = None
        self._runs: dict[str, list[Records]] = {}
        self._facts: list[dict[str, Any]] = []
        self._layouts: dict[str, Any] = {}
        self._end: dict[str, Any] | None = None
        self._truncated: tuple[int | None, str | None] = (None, None)
        self._gone: Ints = np.zeros(0, np.int64)
        self._newest = 0
        self.records = 0
        """How many are kept."""
        self.partial = False
        """Something was left out."""

    def add(self, part: Recording) -> None:
        """Take what is new, and let the oldest connections go where it became too much."""
        self._header, self._layouts = part.header, part.layouts
        self._end = part.end or self._end
        self._truncated = (part.truncated_at, part.truncated_why)
        self._facts += part.facts
        for stream, runs in part.runs.items():
            self._runs.setdefault(stream, []).extend(runs)
            self.records += sum(map(len, runs))
            if "time" in (runs[0].dtype.names or ()):
                self._newest = max(self._newest, *(int(run["time"].max()) for run in runs if len(run)), 0)
        if self.records > self._limit:
            self._prune()

    def recording(self) -> Recording:
        """Return what is kept as a recording; of one that grows, as if it ended with its newest record."""
        at, why = self._truncated
        end = self._end
        if end is None and at is None:
            start = int(self._header["clock"]["monotonic_ns"])
            end = {"exit_reason": "live", "at_ns": max(self._newest, start)}
        return Recording(
            header=self._header,
            layouts=self._layouts,
            runs={stream: list(runs) for stream, runs in self._runs.items()},
            facts=list(self._facts),
            end=end,
            truncated_at=at,
            truncated_why=why,
        )

    def _prune(self) -> None:
        self.partial = True
        joined = {stream: np.concatenate(runs) for stream, runs in self._runs.items() if runs}
        owners = self._owners(joined)
        cookies = np.concatenate([owners[stream] for stream in owners] or [np.zeros(0, np.int64)])
        times = np.concatenate(
            [joined[stream]["time"].astype(np.int64) for stream in owners] or [np.zeros(0, np.int64)]
        )
        kept = self._newest_whole(cookies, times)
        self._gone = np.union1d(self._gone, np.setdiff1d(cookies, kept))
        self._runs = {}
        for stream, records in joined.items():
            if stream in owners:
                mask = np.isin(owners[stream], kept)
                self._runs[stream] = [records if mask.all() else _copy(records, mask)]
            else:
                self._runs[stream] = [_copy(records, slice(-_OTHERS, None))]
        self.records = sum(len(run) for runs in self._runs.values() for run in runs)
        gone = set(self._gone.tolist())
        self._facts = [fact for fact in self._facts if fact.get("cookie") not in gone]

    def _owners(self, joined: dict[str, Records]) -> dict[str, Ints]:
        """Return for each stream the cookie of each record."""
        owners = {
            stream: joined[stream]["cookie"].astype(np.int64)
            for stream in _BY_COOKIE
            if stream in joined and "cookie" in (joined[stream].dtype.names or ())
        }
        if "http_chunk" in joined:
            bound = {fact["conversation"]: fact.get("cookie", 0) for fact in self._facts if "conversation" in fact}
            told, where = np.unique(joined["http_chunk"]["conversation"].astype(np.int64), return_inverse=True)
            owners["http_chunk"] = np.array([bound.get(one, 0) or 0 for one in told.tolist()], np.int64)[where]
        return owners

    def _newest_whole(self, cookies: Ints, times: Ints) -> Ints:
        """Return the newest connections whose records together are half of the limit."""
        found, where, counts = np.unique(cookies, return_inverse=True, return_counts=True)
        first = np.full(len(found), np.iinfo(np.int64).max)
        np.minimum.at(first, where, times)
        open_to = ~np.isin(found, self._gone) & (found != 0)
        order = np.argsort(first)[::-1]
        order = order[open_to[order]]
        fits = np.cumsum(counts[order]) <= self._limit // 2
        return np.asarray(found[order[fits]])


def _copy(records: Records, index: Any) -> Records:
    """Return chosen records without keeping the others' memory alive; what lies between members is not copied."""
    return np.array(records[index])
