# SPDX-License-Identifier: Apache-2.0
"""Builds the tables of a long recording part by part, two parts at a time, and keeps what figures need of them.

The rows are those that the tables of the whole would have, packed. Bursts, turns and records are not kept: pictures
are drawn of each part while it is there. Causes are sought in stretches of time (`judge`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netdiag import tables
from netdiag.analysis import Failure, Options
from netdiag.bulk import cut, judge, pack
from netdiag.findings import Finding
from netdiag.recording.reader import Recording
from netdiag.render import activity, cadence
from netdiag.tables.columns import Columns
from netdiag.tables.connections import sockets
from netdiag.tables.model import Loss, Tables

__all__ = ["Progress", "Whole", "build"]

Progress = Callable[[str, int, int], None]
"""Called with what is done, how far, of how much."""

_WORKERS = 2
_DRAWN_STREAMS = 24
"""Streams of each part that may be drawn."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A long recording, worked through."""

    tables: Tables
    """Requests, connections and handshakes are packed (`pack.unpack` gives rows of them); the others are whole."""
    findings: tuple[Finding, ...]
    failures: tuple[Failure, ...]
    stretches: tuple[judge.Stretch, ...]
    """In which causes were sought."""
    activity: Mapping[str, tuple[tuple[str, float, float], ...]]
    arrived: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """What is kept of a part; rows are numbered within it."""

    connections: dict[str, Any]
    requests: dict[str, Any]
    handshakes: dict[str, Any]
    keys: tuple[NDArray[Any], ...]
    """Of connections: when they began and were first seen, the socket."""
    retries: Ints
    """Of requests: the row of the attempt before, -1 = none."""
    troubled: bool
    unobservable: tuple[Mapping[str, Any], ...]
    activity: Mapping[int, tuple[tuple[str, float, float], ...]]
    arrived: Mapping[int, tuple[float, ...]]


_work: cut.Cut
"""What the processes that are forked work on."""


def build(recording: Recording, options: Options, progress: Progress) -> Whole:
    """Return the whole of a long recording; `progress` hears of parts.

    The recording's records are used up: they are let go as soon as nothing needs them any more.
    """
    global _work  # noqa: PLW0603 - forked processes take it with them, where an argument would be copied
    _work = cut.parts_of(recording)
    count = _work.count
    made: list[_Made] = []
    for one in _each(_make, range(count), _WORKERS):
        made.append(one)
        progress("parts of the recording", len(made), count)
    base = replace(tables.build(cut.rest_of(recording)), span_ms=_span_ms(recording), losses=_losses(recording))
    chosen = judge.choose([one.requests for one in made], base.span_ms)
    pieces = [judge.cut_out(recording, one, [part.connections for part in made]) for one in chosen]
    del _work
    recording.runs.clear()
    built, maps = _joined(base, made)

    def each(work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        return _each(work, items, 1)  # objects of two stretches at once would be the most that there is in memory

    seen = judge.judge(pieces, chosen, built, options, each=each, progress=progress)
    return Whole(
        tables=built,
        findings=seen.findings,
        failures=seen.failures,
        stretches=seen.stretches,
        activity=_named("c", made, [own for own, _ in maps], "activity"),
        arrived=_named("r", made, [own for _, own in maps], "arrived"),
    )


def _each(work: Callable[[Any], Any], items: Sequence[Any], workers: int) -> Iterator[Any]:
    """Yield the results in order, made by so many processes, not more than there are processors.

    Other processes also because what they needed is given back when they end; where none can be forked, in this one.
    """
    if sys.platform != "linux":  # libraries of other systems do not allow for it
        yield from map(work, items)
        return
    import multiprocessing  # nobody waits for it who has a small recording

    workers = max(1, min(workers, len(os.sched_getaffinity(0)), len(items)))
    with multiprocessing.get_context("fork").Pool(workers, maxtasksperchild=8) as pool:
        yield from pool.imap(work, items)


# --- a part -----------------------------------------------------------------------------------------------------------


def _make(number: int) -> _Made:
    """Return what is kept of a part; runs in a process of its own."""
    recording = cut.part(_work, number)
    built = tables.build(recording)
    found = sockets(Columns(_tcp(recording), recording.start_ns))
    seen = found.last.instant("time") if not len(found.cookies) else _first_seen(recording, found.cookies)
    requests = built.requests.reset_index(drop=True)
    ids = {name: row for row, name in enumerate(requests["id"].tolist())}
    retries = np.array([ids.get(name, -1) if name else -1 for name in requests["retry_of"].tolist()], np.int64)
    requests = requests.assign(retry_of=None)
    limit = max(activity.MAX_PIECES // max(_work.count, 1), 1)
    rows = {name: row for row, name in enumerate(built.connections["id"].tolist())}
    return _Made(
        connections=pack.pack("connections", built.connections.assign(handshake=None)),
        requests=pack.pack("requests", requests),
        handshakes=pack.pack("handshakes", built.handshakes),
        keys=(found.begin, seen, found.cookies),
        retries=retries,
        troubled=bool((retries >= 0).any()) or _failures(requests),
        unobservable=built.unobservable,
        activity={rows[name]: told for name, told in activity.activity(built, limit).items()},
        arrived={ids[name]: told for name, told in cadence.pieces(_drawn(built)).items()},
    )


def _tcp(recording: Recording) -> Any:
    return recording.records("tcp")


def _first_seen(recording: Recording, cookies: Ints) -> NDArray[np.float64]:
    """Return when each socket was first heard of: what orders connections that began at the same time."""
    records = _tcp(recording)
    found = np.full(len(cookies), np.inf)
    order = np.argsort(cookies, kind="stable")
    place = order[np.searchsorted(cookies[order], records["cookie"].astype(np.int64)).clip(0, len(order) - 1)]
    mine = cookies[place] == records["cookie"].astype(np.int64)
    np.minimum.at(found, place[mine], records["time"][mine].astype(np.float64) - recording.start_ns)
    return found


def _failures(requests: pd.DataFrame) -> bool:
    """Tell whether a request failed as far as it shows: then another may repeat it."""
    status = requests["status"].to_numpy(np.float64)
    return bool((status >= 400).any() or requests["error"].notna().any() or requests["first_byte_ns"].isna().any())


def _drawn(built: Tables) -> Tables:
    """Return the tables with only those streams' pieces that may be drawn: the longest."""
    requests, chunks = built.requests, built.chunks
    if not len(chunks):
        return built
    rows = np.unique(chunks["request"].to_numpy(np.int64))
    took = requests["total_ms"].to_numpy(np.float64)[rows]
    longest = rows[np.argsort(np.nan_to_num(took))[-_DRAWN_STREAMS:]]
    return replace(built, chunks=chunks[np.isin(chunks["request"].to_numpy(np.int64), longest)])


# --- the whole --------------------------------------------------------------------------------------------------------


def _joined(base: Tables, made: Sequence[_Made]) -> tuple[Tables, list[tuple[Ints, Ints]]]:
    """Return the tables, and for each part the rows of its connections and requests in them."""
    ends = _ranks([one.keys for one in made], lambda keys: np.lexsort(keys[::-1]))
    for one, rows in zip(made, ends.of_parts, strict=True):
        for table in (one.requests, one.handshakes):
            local = table["connection"].astype(np.int64)
            known = local >= 0
            table["connection"] = np.where(known, rows[np.where(known, local, 0)] if len(rows) else -1, -1).astype(
                np.int32
            )
    calls = _ranks(
        [(one.requests["began_ns"].astype(np.float64), one.requests["connection"]) for one in made],
        lambda keys: np.lexsort((keys[1], keys[0])),
    )
    shakes = _ranks(
        [(one.handshakes["started_ns"].astype(np.float64), one.handshakes["connection"]) for one in made],
        lambda keys: np.lexsort((keys[1], keys[0])),
    )
    connections = pack.joined([one.connections for one in made], ends.order)
    handshakes = pack.joined([one.handshakes for one in made], shakes.order)
    connections["handshake"] = _shaken(handshakes["connection"].to_numpy(np.int64), len(connections))
    requests = pack.joined([one.requests for one in made], calls.order)
    requests["retry_of"] = _retried([one.retries for one in made], calls)
    lines = [*base.unobservable, *(line for one in made for line in one.unobservable if line not in base.unobservable)]
    if len(made) > 1 and any(one.troubled for one in made):
        why = "this recording is long: an attempt is joined with those on other connections of its part alone"
        lines.append({"pid": None, "what": "some repeated requests", "why": why})
    whole = replace(
        base,
        connections=connections,
        requests=requests,
        handshakes=handshakes,
        unobservable=tuple(lines),
    )
    return whole, list(zip(ends.of_parts, calls.of_parts, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranks:
    order: Ints
    """Of rows of all parts one after the other, as they stand in the whole."""
    of_parts: tuple[Ints, ...]
    """For each part the rows in the whole."""


def _ranks(keys: Sequence[tuple[Any, ...]], sort: Callable[[tuple[Any, ...]], Any]) -> _Ranks:
    together = tuple(np.concatenate(each) for each in zip(*keys, strict=True))
    order = sort(together)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    ends = np.cumsum([len(one[0]) for one in keys])[:-1]
    return _Ranks(order=order, of_parts=tuple(np.split(rank, ends)))


def _shaken(rows: Ints, length: int) -> pd.Categorical:
    """Return for each connection the id of its last handshake."""
    codes = np.full(length, -1, np.int64)
    codes[rows] = np.arange(len(rows))
    return pd.Categorical.from_codes(
        codes, categories=pd.Index([f"h{row + 1}" for row in range(len(rows))], dtype=object)
    )


def _retried(parts: Sequence[Ints], calls: _Ranks) -> pd.Categorical:
    before = np.concatenate(
        [
            np.where(local >= 0, rows[local] if len(rows) else -1, -1)
            for local, rows in zip(parts, calls.of_parts, strict=True)
        ]
    )[calls.order]
    told, codes = np.unique(before[before >= 0], return_inverse=True)
    full = np.full(len(before), -1, np.int64)
    full[before >= 0] = codes
    return pd.Categorical.from_codes(full, categories=pd.Index([f"r{row + 1}" for row in told.tolist()], dtype=object))


def _losses(recording: Recording) -> tuple[Loss, ...]:
    return tables.build(replace(recording, runs={}, facts=recording.facts_of("loss"))).losses or tuple(
        Loss(probe=name, seen=sum(map(len, recording.runs.get(name, ()))), lost=None)
        for name in sorted(recording.layouts)
    )


def _span_ms(recording: Recording) -> float:
    end = recording.end_ns
    if end is None:
        runs = [
            run for mine in recording.runs.values() for run in mine if len(run) and "time" in (run.dtype.names or ())
        ]
        end = max((int(run["time"].max()) for run in runs), default=recording.start_ns)
    return max(end - recording.start_ns, 0) / 1e6


def _named(letter: str, made: Sequence[_Made], maps: Sequence[Ints], member: str) -> dict[str, Any]:
    return {
        f"{letter}{rows[local] + 1}": told
        for one, rows in zip(made, maps, strict=True)
        for local, told in getattr(one, member).items()
    }
