# SPDX-License-Identifier: Apache-2.0
"""Keeps of a recording what can be examined in the time there is: all of it, or the newest whole connections.

A connection is kept whole or not at all, as if those that are left out had not been traced. Where not one fits, for
they carry too much, the newest stretch of time is kept instead, as if the trace had begun then. Pure but for its
memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from netdiag.bulk import cut
from netdiag.recording.reader import Recording, Records
from netdiag.tables.codes import RecordType
from netdiag.tui.columns import Ints

__all__ = ["Window"]

_BY_COOKIE = ("tcp", "tcp_io", "tls_record", "http_request", "tls_call")
_MOST_KNOWN = 20_000
_NEEDED = {"tcp": "time", "tls_record": "type"}
"""Streams that tell something of each connection that stays, and a member that it takes."""
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
        self._from: int | None = None
        """Where a stretch of time is kept: its begin, CLOCK_MONOTONIC nanoseconds."""
        self._unseen: dict[str, list[Records]] = {}
        """What has come since `_known` was brought up to date."""
        self._known: dict[str, Records] = {}
        """Newest word on each connection, and what each speaks: a stretch needs those of connections that go on."""

    def add(self, part: Recording) -> None:
        """Take what is new, and let the oldest connections go where it became too much."""
        self._header, self._layouts = part.header, part.layouts
        self._end = part.end or self._end
        self._truncated = (part.truncated_at, part.truncated_why)
        self._facts += part.facts
        for stream, runs in part.runs.items():
            self._runs.setdefault(stream, []).extend(runs)
            self.records += sum(map(len, runs))
            if runs and {"cookie", _NEEDED.get(stream, "")} <= set(runs[0].dtype.names or ()):
                self._unseen.setdefault(stream, []).extend(runs)
            if "time" in (runs[0].dtype.names or ()):
                self._newest = max(self._newest, *(int(run["time"].max()) for run in runs if len(run)), 0)
        if self.records > self._limit:
            self._prune()

    @property
    def since_ms(self) -> float | None:
        """Where the stretch of time that is kept begins; None where connections are kept whole."""
        if self._from is None:
            return None
        return max(self._from - int(self._header["clock"]["monotonic_ns"]), 0) / 1e6

    def recording(self) -> Recording:
        """Return what is kept as a recording; of one that grows, as if it ended with its newest record."""
        at, why = self._truncated
        end = self._end
        if end is None and at is None:
            start = int(self._header["clock"]["monotonic_ns"])
            end = {"exit_reason": "live", "at_ns": max(self._newest, start)}
        whole = Recording(
            header=self._header,
            layouts=self._layouts,
            runs={stream: list(runs) for stream, runs in self._runs.items()},
            facts=list(self._facts),
            end=end,
            truncated_at=at,
            truncated_why=why,
        )
        if self._from is None:
            return whole
        for stream, records in self._known.items():
            whole.runs.setdefault(stream, []).insert(0, records)
        return cut.stretch(whole, self._from, self._newest + 1)

    def _prune(self) -> None:
        self.partial = True
        joined = {stream: np.concatenate(runs) for stream, runs in self._runs.items() if runs}
        owners = self._owners(joined)
        cookies = np.concatenate([owners[stream] for stream in owners] or [np.zeros(0, np.int64)])
        times = np.concatenate(
            [joined[stream]["time"].astype(np.int64) for stream in owners] or [np.zeros(0, np.int64)]
        )
        self._remember()
        kept = self._newest_whole(cookies, times)
        if self._from is not None or not len(kept):
            self._keep_newest(joined, owners)
            return
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

    def _remember(self) -> None:
        """Keep the newest record of each connection, and of each what it speaks."""
        for stream, runs in self._unseen.items():
            new = np.concatenate(runs)
            if stream == "tls_record":
                new = new[new["type"] == RecordType.CLASS]
            if len(new):
                self._known[stream] = _newest_each(self._known.get(stream), new)
        self._unseen = {}

    def _keep_newest(self, joined: dict[str, Records], owners: dict[str, Ints]) -> None:
        """Keep the newest records of all connections, half of the limit."""
        moving = [joined[stream]["time"].astype(np.int64) for stream in owners if stream != "tcp"]
        times = np.concatenate([np.zeros(0, np.int64), *moving])
        most = self._limit // 2
        since = int(np.partition(times, len(times) - most)[len(times) - most]) if len(times) > most else 0
        self._from = max(since, self._from or 0)
        self._runs = {}
        for stream, records in joined.items():
            if stream == "tcp":
                continue  # the newest word on each is remembered
            kept = records["time"].astype(np.int64) >= self._from if stream in owners else slice(-_OTHERS, None)
            self._runs[stream] = [_copy(records, kept)]
        self.records = sum(len(run) for runs in self._runs.values() for run in runs)

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


def _newest_each(before: Records | None, now: Records) -> Records:
    """Return the newest record of each connection; of too many, those that were heard of last."""
    both = now if before is None else np.concatenate([before, now])
    both = both[np.argsort(both["time"], kind="stable")]
    _, last = np.unique(both["cookie"][::-1], return_index=True)
    return _copy(both, np.sort(len(both) - 1 - last)[-_MOST_KNOWN:])


def _copy(records: Records, index: Any) -> Records:
    """Return chosen records without keeping the others' memory alive; what lies between members is not copied."""
    return np.array(records[index])
