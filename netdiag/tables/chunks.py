# SPDX-License-Identifier: Apache-2.0
"""Streamed answers in plaintext: when each chunk arrived and was read, what it says, and the figures of the stream.

Pure. The definitions are those of `netdiag explain first_token_ms` and its like.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from netdiag.tables.binding import Bound
from netdiag.tables.columns import Floats
from netdiag.tables.schema import frame, objects
from netdiag.tables.spoken import Spoken

__all__ = ["chunks_of", "nothing", "streams_of"]

_KINDS = {
    1: "other", 2: "heartbeat", 3: "role", 4: "usage", 5: "done", 6: "reasoning", 7: "content", 8: "error",
}  # fmt: skip
_STREAMS = {1: "sse", 2: "chunked", 3: "chunked"}
_FINISHED, _CODED = 2048, 256
_NOT_FOLLOWED, _OPEN = 6, 7


def chunks_of(said: Spoken, bound: Bound, rows: Mapping[tuple[int, int], int]) -> pd.DataFrame:
    """Return the table of chunks; `rows` are the rows of requests by conversation and number of the exchange."""
    raw = said.chunks
    keys = list(zip(raw["conversation"].tolist(), raw["exchange"].tolist(), strict=True))
    request = np.array([rows.get(key, -1) for key in keys], np.int64)
    keep = request >= 0
    raw, request = raw[keep].reset_index(drop=True), request[keep]
    arrived, token = _arrivals(raw, said, bound)
    order = np.lexsort((raw["offset"], request))
    numbers = _numbers_within(request[order])
    kinds = objects([_KINDS.get(kind, "other") for kind in raw["kind"].tolist()])
    columns = {
        "request": request[order],
        "number": numbers,
        "at_ns": arrived[order],
        "read_ns": _reads(raw, said)[order],
        "bytes": raw["length"].to_numpy(np.float64)[order],
        "kind": kinds[order],
        "tokens": raw["tokens"].to_numpy(np.float64)[order],
        "events": raw["events"].to_numpy(np.float64)[order],
        "token_ns": token[order],
    }
    return frame("chunks", len(order), columns)


def _arrivals(raw: pd.DataFrame, said: Spoken, bound: Bound) -> tuple[Floats, Floats]:
    """Return when each chunk arrived at the socket, and the first event with content in it; NaN = not known."""
    time = raw["time"].to_numpy()
    arrived, token = np.full(len(raw), np.nan), np.full(len(raw), np.nan)
    has = raw["token"].to_numpy() > 0
    conversation = raw["conversation"].to_numpy()
    for number in np.unique(conversation).tolist():
        mine = np.flatnonzero(conversation == number)
        fact, clocks = said.conversations.get(number), bound.clocks.get(number)
        if clocks is not None:
            arrived[mine] = clocks[1].at(raw["offset"].to_numpy()[mine])
            token[mine] = clocks[1].at(raw["token"].to_numpy()[mine] - 1)
        elif fact is not None and fact.by_packet:
            arrived[mine] = token[mine] = time[mine]
    return arrived, np.where(has, token, np.nan)


def _reads(raw: pd.DataFrame, said: Spoken) -> Floats:
    """Return when the program had each chunk; NaN where only packets were seen."""
    by_packet = [n for n, fact in said.conversations.items() if fact.by_packet]
    return np.where(raw["conversation"].isin(by_packet), np.nan, raw["time"])


def _numbers_within(request: Any) -> Any:
    starts = np.flatnonzero(np.diff(request, prepend=-1)) if len(request) else np.zeros(0, np.int64)
    return np.arange(len(request)) - np.repeat(starts, np.diff(np.append(starts, len(request)))) + 1


def streams_of(requests: pd.DataFrame, chunks: pd.DataFrame, told: pd.DataFrame) -> dict[int, dict[str, Any]]:
    """Return the facts of each stream by row of requests.

    `told` has `stream_kind`, `flags`, `result` and `read_ns` of the exchanges, by row of requests.
    """
    found: dict[int, dict[str, Any]] = {}
    request = chunks["request"].to_numpy()
    parts = {row: chunks[request == row] for row in np.unique(request).tolist()}
    for row, kind, flags, result in zip(
        told.index.tolist(),
        told["stream_kind"].tolist(),
        told["flags"].astype(int).tolist(),  # beside exchanges that were inferred the column is one of floats
        told["result"].tolist(),
        strict=True,
    ):
        if kind in _STREAMS:
            part = parts.get(row)
            stream = _figures(requests, row, part) if part is not None else nothing()
            stream["kind"] = _STREAMS[kind]
            stream["finished"] = (
                True if flags & _FINISHED else None if result in (_NOT_FOLLOWED, _OPEN) or flags & _CODED else False
            )
            output = float(requests["output_tokens"].iloc[row])
            stream["tokens"] = None if np.isnan(output) else int(output)
            found[row] = stream
    return found


def nothing() -> dict[str, Any]:
    """Return the members of a stream's facts, all of them unknown."""
    names = (
        "first_chunk_ms",
        "first_token_ms",
        "first_reasoning_ms",
        "ttft_ms",
        "gap_p50_ms",
        "gap_p95_ms",
        "gap_max_ms",
    )
    return {"kind": None, "chunks": 0, **dict.fromkeys(names), "tokens": None, "finished": None, "stalls": []}


def _figures(requests: pd.DataFrame, row: int, part: pd.DataFrame) -> dict[str, Any]:
    sent, started = float(requests["sent_ns"].iloc[row]), float(requests["started_ns"].iloc[row])
    kind = part["kind"].to_numpy()
    at = part["at_ns"].to_numpy()
    at = np.where(np.isnan(at), part["read_ns"].to_numpy(), at)
    token = part["token_ns"].to_numpy()
    token = np.where(np.isnan(token) & (kind == "content"), at, token)
    stream = nothing()
    stream["chunks"] = len(part)
    stream["first_chunk_ms"] = _ms(at.min() - sent)
    first = np.fmin.reduce(token) if len(token) else np.nan
    stream["first_token_ms"], stream["ttft_ms"] = _ms(first - sent), _ms(first - started)
    thoughts = at[kind == "reasoning"]
    stream["first_reasoning_ms"] = _ms(thoughts.min() - sent) if len(thoughts) else None
    gaps = np.diff(np.sort(_steps(kind, at))) / 1e6
    if len(gaps):
        stream["gap_p50_ms"] = float(np.percentile(gaps, 50))
        stream["gap_p95_ms"] = float(np.percentile(gaps, 95))
        stream["gap_max_ms"] = float(gaps.max())
    return stream


def _steps(kind: Any, at: Floats) -> Floats:
    """Return the arrivals whose gaps count: of content and reasoning; where there is none, of all but heartbeats."""
    spoken = np.isin(kind, ("content", "reasoning"))
    return at[spoken] if spoken.any() else at[~np.isin(kind, ("heartbeat", "done"))]


def _ms(span_ns: float) -> float | None:
    # an answer may begin before the request has ended
    return None if np.isnan(span_ns) else max(float(span_ns), 0.0) / 1e6
