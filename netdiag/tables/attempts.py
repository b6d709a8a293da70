# SPDX-License-Identifier: Apache-2.0
"""Attempts of one call: which requests repeat one that failed. Pure.

A request repeats another of the same process when that had failed before it began and both go to the same host and
path with the same method and size. What they say themselves (`x-stainless-retry-count`) goes before. Nothing of the
contents is compared. Without plaintext only failures without an answer are known as such: whether a small answer was
an error is not, and neither then is which attempt a request was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from netdiag.tables.columns import Floats
from netdiag.tables.schema import objects

__all__ = ["attempts"]

_RETRIED = frozenset({408, 409, 425, 429})
"""And all from 500 on: what clients ask again for."""
_SERVER_ERRORS = 500
_LONGEST_PAUSE_NS = 300e9
"""Nobody waits longer for another attempt, except where the server said so."""
_PAUSE_SLACK_NS = 10e9
_SAME_SIZE = 24
"""Bytes by which attempts differ: a counter in a header field, compression of header fields."""
_PLAINTEXT = "plaintext"
_MOST_WAITING = 256
"""Failed calls of one kind among which a repetition is sought."""


@dataclass(slots=True)
class _Call:
    """A request with what its repetition must have in common with it."""

    row: int
    id: str
    began: float
    ended: float
    size: float
    tid: float
    failed: bool
    told: float
    """Which attempt it says it is, NaN = nothing."""
    exact: bool
    latest: float
    """Until when a repetition may begin."""
    attempt: float = math.nan
    retry_of: str | None = None


@dataclass(slots=True)
class _Key:
    failed: list[_Call] = field(default_factory=list)
    """Calls that failed and were not repeated yet."""


@dataclass(slots=True)
class _Thread:
    """What a thread did last: one that makes one call at a time and made another one has given up on the failed one."""

    key: tuple[Any, ...] | None = None
    began: float = -math.inf
    ended: float = -math.inf
    side_by_side: float = -math.inf
    """When it last had two calls running."""

    def note(self, call: _Call, key: tuple[Any, ...]) -> None:
        if call.began < self.ended:
            self.side_by_side = call.began
        self.key, self.began, self.ended = (
            key,
            call.began,
            max(self.ended, call.began if math.isnan(call.ended) else call.ended),
        )

    def went_on(self, failed: _Call, key: tuple[Any, ...]) -> bool:
        return self.key != key and self.began >= failed.ended and self.side_by_side < failed.began


def attempts(requests: pd.DataFrame, connections: pd.DataFrame) -> pd.DataFrame:
    """Return the requests with `attempt` (from 1) and `retry_of`, the id of the attempt before."""
    if not len(requests):
        return requests
    if _untroubled(requests):
        return _first_ones(requests, connections)
    number = np.full(len(requests), np.nan)
    before: list[str | None] = [None] * len(requests)
    waiting: dict[tuple[Any, ...], _Key] = {}
    threads: dict[tuple[Any, float], _Thread] = {}
    for key, call in _calls(requests, connections):
        thread = threads.setdefault((key[0], call.tid), _Thread())
        place = waiting.setdefault(key, _Key())
        if len(place.failed) > _MOST_WAITING:
            place.failed = [other for other in place.failed if other.latest >= call.began][-_MOST_WAITING:]
        gone_on = [other for other in place.failed if other.tid == call.tid and thread.went_on(other, key)]
        earlier = _repeats([other for other in place.failed if other not in gone_on], call)
        thread.note(call, key)
        if earlier is not None:
            place.failed.remove(earlier)
            call.attempt = call.told if not math.isnan(call.told) else _first(earlier.attempt) + 1
            call.retry_of = before[call.row] = earlier.id
            if math.isnan(number[earlier.row]):
                number[earlier.row] = _first(earlier.attempt)
        elif not math.isnan(call.told):
            call.attempt = call.told
        elif call.exact:
            call.attempt = 1.0
        number[call.row] = call.attempt
        if call.failed:
            place.failed.append(call)
    return requests.assign(attempt=number, retry_of=pd.Series(objects(before), index=requests.index, dtype=object))


def _untroubled(requests: pd.DataFrame) -> bool:
    """Tell whether each request was answered, whole and without an error: then none repeats another."""
    status = requests["status"].to_numpy()
    bad = np.isin(status, list(_RETRIED)) | (status >= _SERVER_ERRORS) | np.isnan(requests["first_byte_ns"].to_numpy())
    bad |= requests["error"].notna().to_numpy() | (requests["complete"] == False).to_numpy()  # noqa: E712 - cells are objects
    return not (bad.any() or (requests["connection"] < 0).any())


def _first_ones(requests: pd.DataFrame, connections: pd.DataFrame) -> pd.DataFrame:
    """Return what the long way would, for requests none of which failed: half a million of them take no minute."""
    told = requests["attempt"].to_numpy(np.float64)
    number = np.where(np.isnan(told) & (requests["source"] == _PLAINTEXT).to_numpy(), 1.0, told)
    serving = (connections["role"] == "server").to_numpy()[requests["connection"].to_numpy()]
    number[serving | np.isnan(requests["began_ns"].to_numpy())] = np.nan
    return requests.assign(
        attempt=number, retry_of=pd.Series([None] * len(requests), index=requests.index, dtype=object)
    )


def _first(attempt: float) -> float:
    return 1.0 if math.isnan(attempt) else attempt


def _repeats(failed: Sequence[_Call], call: _Call) -> _Call | None:
    """Return the failed call that this one repeats: of its thread where that is known, else the oldest."""
    if call.told == 1.0:
        return None
    fitting = [
        other
        for other in failed
        if other.ended <= call.began <= other.latest
        and (math.isnan(other.size) or math.isnan(call.size) or abs(other.size - call.size) <= _SAME_SIZE)
        and (math.isnan(call.told) or _first(other.attempt) == call.told - 1)
    ]
    own = [other for other in fitting if other.tid == call.tid]
    return min(own or fitting, key=lambda other: other.ended, default=None)


# --- calls --------------------------------------------------------------------------------------------------------


def _calls(requests: pd.DataFrame, connections: pd.DataFrame) -> list[tuple[tuple[Any, ...], _Call]]:
    """Return the requests of clients by time, each with what names its logical call."""
    ends = {name: connections[name].tolist() for name in ("role", "pid", "remote_ip", "remote_port", "remote_name")}
    over: Floats = connections[["closing_ns", "ended_ns"]].min(axis=1).to_numpy()
    # a program that leaves bytes unread has left, whoever closed first
    left = (connections["closed_by"] == "local") | ((connections["unread"] > 0) & (connections["close"] != "rst"))
    local = left.to_numpy()
    names = ("id", "connection", "pid", "tid", "method", "host", "path", "status", "headers", "request_bytes",
             "began_ns", "first_byte_ns", "ended_ns", "complete", "error", "source", "attempt")  # fmt: skip
    found: list[tuple[tuple[Any, ...], _Call]] = []
    rows = enumerate(zip(*(requests[name].tolist() for name in names), strict=True))
    for row, (
        ident,
        connection,
        pid,
        tid,
        method,
        host,
        path,
        status,
        headers,
        size,
        began,
        first,
        ended,
        *rest,
    ) in rows:
        complete, error, source, told = rest
        at = int(connection)
        if ends["role"][at] == "server":
            continue
        exact = source == _PLAINTEXT
        server = host or ends["remote_name"][at] or ends["remote_ip"][at]
        last = ended if not math.isnan(ended) else float(over[at])
        answered = not math.isnan(first)
        failed = _failed(status, complete, error, answered=answered, over=not math.isnan(last), exact=exact)
        if failed and bool(local[at]) and answered and not status >= _SERVER_ERRORS and status not in _RETRIED:
            failed = False  # the program left in mid-answer: it had enough, or stopped
        key = (_or_none(pid, ends["pid"][at]), server, ends["remote_port"][at], method, path)
        if math.isnan(began) or (failed and math.isnan(last)):
            continue
        pause = _pause_ns(headers)
        found.append(
            (
                key,
                _Call(
                    row=row,
                    id=ident,
                    began=began,
                    ended=last,
                    size=size,
                    tid=tid,
                    failed=failed,
                    told=told,
                    exact=exact,
                    latest=last + max(_LONGEST_PAUSE_NS, pause + _PAUSE_SLACK_NS),
                ),
            )
        )
    return sorted(found, key=lambda each: (each[1].began, each[1].row))


def _or_none(first: float, second: float) -> float | None:
    known = [value for value in (first, second) if not math.isnan(value)]
    return known[0] if known else None


def _failed(status: float, complete: Any, error: Any, *, answered: bool, over: bool, exact: bool) -> bool:
    """Tell whether a client would ask again: an error that may pass, no answer, or a part of one."""
    if not math.isnan(status):
        return status in _RETRIED or status >= _SERVER_ERRORS or complete is False
    if not answered:
        return over and (complete is False or error is not None)
    return exact and complete is False


def _pause_ns(headers: Any) -> float:
    """Return the pause that the server asked for, 0 where it did not."""
    value = headers.get("retry-after", "") if isinstance(headers, Mapping) else ""
    return float(value) * 1e9 if value.replace(".", "", 1).isdigit() and len(value) < 10 else 0.0
