# SPDX-License-Identifier: Apache-2.0
"""Exchanges of plaintext as those of records and sockets are, with what only plaintext tells. Pure.

When bytes passed the socket comes from the TLS records that hold them, or from the packets; when the program had them,
from its calls.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd

from netdiag.tables.binding import Bound
from netdiag.tables.columns import Floats, Ints
from netdiag.tables.exchanges import with_calls
from netdiag.tables.schema import objects
from netdiag.tables.spoken import Spoken

__all__ = ["HTTP2", "KEY", "exchanges_of", "replaced", "reported_ms"]

KEY = ("conversation", "number")
"""What names an exchange."""
HTTP2 = 3
_TOKENS = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
_PROTOCOLS = {1: "http/1.0", 2: "http/1.1", HTTP2: "h2"}
_FORMATS = {1: "text", 2: "json_object", 3: "json_schema"}
_COMPLETE, _CUT, _CLIENT_RESET, _SERVER_RESET, _REFUSED, _NOT_FOLLOWED, _OPEN = range(1, 8)
_STREAM_ASKED, _STREAM_NOT_ASKED, _FINISHED, _REQUEST_PART, _RESPONSE_PART = 64, 128, 2048, 8192, 16384
_RETRY_COUNT = "x-stainless-retry-count"
_DURATION = re.compile(r"([^;,]*);dur=([0-9.]+)")
_WHOLE_METRICS = frozenset({"total", "app", "origin", "server", "request", "backend", "upstream"})


def exchanges_of(said: Spoken, bound: Bound, connections: pd.DataFrame, bursts: pd.DataFrame) -> pd.DataFrame:
    """Return the exchanges by connection and time.

    Columns are those of every source of exchanges, those that only plaintext tells, and `KEY`. A conversation whose
    connection is not known has a row of its own behind the end of `connections`. Exchanges whose binding is
    contradicted are left out, and those whose beginning was not seen.
    """
    raw = said.exchanges
    keep = raw["began"].notna().to_numpy() & ~np.isin(raw["conversation"].to_numpy(), list(bound.contradicted))
    raw = raw[keep].reset_index(drop=True)
    strange = sorted(set(raw["conversation"].tolist()) - set(bound.rows))
    places = {**bound.rows, **{number: len(connections) + at for at, number in enumerate(strange)}}
    row = np.array([places[number] for number in raw["conversation"].tolist()], np.int64)
    table = pd.DataFrame({"connection": row, **_instants(raw, bound)})
    flags = raw["flags"].to_numpy()
    table["sent_bytes"] = np.where(flags & _REQUEST_PART, np.nan, raw["request_bytes"].to_numpy(np.float64))
    table["received_bytes"] = np.where(flags & _RESPONSE_PART, np.nan, raw["response_bytes"].to_numpy(np.float64))
    table["pid"] = np.where(raw["tgid"] > 0, raw["tgid"], np.nan)
    table["tid"] = np.where(raw["tid"] > 0, raw["tid"], np.nan)
    table["lag_ms"] = table["last_lag_ms"] = np.nan
    table["source"] = pd.Series(["plaintext"] * len(raw), dtype=object)
    table["read_ns"] = raw["ended"].to_numpy()
    for name, values in _told(raw).items():
        table[name] = values
    for name in (*KEY, "flags", "stream_kind", "result"):
        table[name] = raw[name].to_numpy()
    table["by_packet"] = np.array([_by_packet(said, number) for number in raw["conversation"].tolist()], bool)
    return _read(table, said, bound, connections, bursts)


def _by_packet(said: Spoken, number: int) -> bool:
    fact = said.conversations.get(number)
    return fact is not None and fact.by_packet


def _instants(raw: pd.DataFrame, bound: Bound) -> dict[str, Floats]:
    """Return when messages began and ended at the socket; where that is unknown, in the program's calls."""
    times = {
        "began_ns": raw["began"].to_numpy(copy=True),
        "sent_ns": raw["sent"].to_numpy(copy=True),
        "first_byte_ns": raw["first_byte"].to_numpy(copy=True),
        "last_byte_ns": np.where(raw["first_byte"].isna(), np.nan, raw["ended"]),
    }
    places = {
        "began_ns": (0, raw["request_first"].to_numpy()),
        "sent_ns": (0, raw["request_end"].to_numpy() - 1),
        "first_byte_ns": (1, raw["response_first"].to_numpy()),
        "last_byte_ns": (1, raw["response_end"].to_numpy() - 1),
    }
    conversation = raw["conversation"].to_numpy()
    for number, clocks in bound.clocks.items():
        mine = np.flatnonzero(conversation == number)
        for name, (side, offsets) in places.items():
            passed = clocks[side].at(offsets[mine])
            known = ~np.isnan(times[name][mine]) & ~np.isnan(passed)
            times[name][mine[known]] = passed[known]
    times["sent_ns"] = np.fmax(times["sent_ns"], times["began_ns"])
    times["last_byte_ns"] = np.where(
        np.isnan(times["first_byte_ns"]), np.nan, np.fmax(times["last_byte_ns"], times["first_byte_ns"])
    )
    return times


def _read(
    table: pd.DataFrame, said: Spoken, bound: Bound, connections: pd.DataFrame, bursts: pd.DataFrame
) -> pd.DataFrame:
    """Add when the program had read the answer and how late it was, and put the exchanges in order."""
    order = np.lexsort((table["began_ns"], table["connection"]))
    table = table.iloc[order].reset_index(drop=True)
    clocked = table["conversation"].isin(list(bound.clocks)).to_numpy()
    http1 = (table["protocol"] != "h2").to_numpy() & (table["connection"] < len(connections)).to_numpy()
    by_calls = http1 & (clocked | table["by_packet"].to_numpy())
    if by_calls.any():
        chosen = table[by_calls].reset_index(drop=True)
        seen = with_calls(connections, bursts, chosen[["connection", "began_ns", "last_byte_ns"]].copy())
        place = np.flatnonzero(by_calls)
        for name in ("last_byte_ns", "lag_ms", "last_lag_ms", "pid", "tid"):
            column = table[name].to_numpy(np.float64, copy=True)
            column[place] = seen[name].to_numpy()
            table[name] = column
    lag = _lag_of_calls(table, said, bound, clocked & ~by_calls)
    table["lag_ms"] = np.where(clocked & ~by_calls, lag, table["lag_ms"])
    read = table["read_ns"].to_numpy()
    late = clocked & ~by_calls & ~np.isnan(read)
    table["last_lag_ms"] = np.where(late, (read - table["last_byte_ns"]) / 1e6, table["last_lag_ms"])
    table["last_byte_ns"] = np.where(late, np.fmax(table["last_byte_ns"], read), table["last_byte_ns"])
    return table


def _lag_of_calls(table: pd.DataFrame, said: Spoken, bound: Bound, chosen: Any) -> Floats:
    """Return for how long bytes of each answer lay in the socket: each nanosecond once, however many bytes waited."""
    lag = np.full(len(table), np.nan)
    raw = said.exchanges.set_index(list(KEY))["first_byte"]
    chunks = dict(iter(said.chunks.groupby(["conversation", "exchange"], sort=False)))
    for place in np.flatnonzero(chosen).tolist():
        key = (int(table["conversation"].iloc[place]), int(table["number"].iloc[place]))
        clock = bound.clocks[key[0]][1]
        first, last = float(table["first_byte_ns"].iloc[place]), float(table["last_byte_ns"].iloc[place])
        arrived, read = [first, last], [float(raw.get(key, np.nan)), float(table["read_ns"].iloc[place])]
        part = chunks.get(key)
        if part is not None:
            arrived += clock.at(part["offset"].to_numpy()).tolist()
            read += part["time"].tolist()
        lag[place] = covered_ns(np.array(arrived), np.array(read)) / 1e6
    return lag


def covered_ns(start: Floats, end: Floats) -> float:
    """Return the length of the union of intervals; those that are not known, or empty, count for nothing."""
    known = end > start
    if not known.any():
        return 0.0
    start, end = start[known], end[known]
    order = np.argsort(start)
    start, end = start[order], np.maximum.accumulate(end[order])
    before = np.concatenate(([-np.inf], end[:-1]))
    return float(np.maximum(end - np.maximum(start, before), 0.0).sum())


def replaced(inferred: pd.DataFrame, told: pd.DataFrame, late: Collection[int], bound: Bound) -> pd.DataFrame:
    """Return the inferred exchanges that plaintext does not tell better: those of other connections.

    Of a conversation of which something was not seen (`late`) also those that it does not tell.
    """
    row = inferred["connection"].to_numpy()
    kept = ~np.isin(row, told["connection"].unique())
    began = inferred["began_ns"].to_numpy()
    over = inferred[["last_byte_ns", "sent_ns"]].max(axis=1).to_numpy()
    for joined in {place for number, place in bound.rows.items() if number in late}:
        part = told[told["connection"] == joined]
        first = part["began_ns"].to_numpy()
        last = np.fmax(part["last_byte_ns"].to_numpy(), part["sent_ns"].to_numpy())
        mine = np.flatnonzero(row == joined)
        same = (first[None, :] <= over[mine][:, None]) & (last[None, :] >= began[mine][:, None])
        kept[mine] = ~same.any(axis=1)
    left: pd.DataFrame = inferred[kept]
    return left


# --- what plaintext tells ---------------------------------------------------------------------------------------------


def _told(raw: pd.DataFrame) -> dict[str, Any]:
    flags, result = raw["flags"].to_numpy(), raw["result"].to_numpy()
    headers = raw["headers"].tolist()
    asked = np.full(len(raw), None, object)
    asked[flags & _STREAM_ASKED != 0] = True
    asked[flags & _STREAM_NOT_ASKED != 0] = False
    return {
        "protocol": _named(raw["protocol"].tolist(), _PROTOCOLS),
        "stream_id": np.where(raw["stream"] > 0, raw["stream"], np.nan),
        "status": np.where(raw["status"] > 0, raw["status"], np.nan),
        "headers": objects(headers),
        "error": objects(_errors(flags, result, raw["first_byte"].notna().to_numpy())),
        "complete": objects(_complete(flags, result)),
        "server_reported_ms": np.array([reported_ms(each) for each in headers], np.float64),
        "blocked_ms": np.where(raw["protocol"] == HTTP2, raw["blocked"] / 1e6, np.nan),
        "concurrent": np.where(raw["concurrent"] > 0, raw["concurrent"], np.nan),
        "response_format": _named(raw["format"].tolist(), _FORMATS),
        "stream_asked": asked,
        "attempt": np.array([_attempt(each) for each in raw["request_headers"]], np.float64),
        **{name: raw[name].to_numpy() for name in ("method", "host", "path", "model", "request_headers")},
        **{name: raw[name].to_numpy() for name in _TOKENS},
    }


def _named(codes: list[int], names: Mapping[int, str]) -> Any:
    return objects([names.get(code) for code in codes])


def _complete(flags: Ints, result: Ints) -> list[bool | None]:
    finished = (flags & _FINISHED != 0) & (flags & _RESPONSE_PART == 0)  # the whole answer has to have been seen
    whole = (result == _COMPLETE) | (finished & (result != _SERVER_RESET))
    broken = np.isin(result, (_CUT, _CLIENT_RESET, _SERVER_RESET, _REFUSED)) & ~whole
    broken &= (flags & _FINISHED == 0) | (result == _SERVER_RESET)
    return [True if one else False if other else None for one, other in zip(whole, broken, strict=True)]


def _errors(flags: Ints, result: Ints, answered: Any) -> list[str | None]:
    names = {_CLIENT_RESET: "cancelled", _SERVER_RESET: "reset by the server", _REFUSED: "refused by the server"}
    found: list[str | None] = []
    for flag, code, any_byte in zip(flags.tolist(), result.tolist(), answered, strict=True):
        if code == _CUT and not flag & _FINISHED:
            found.append("answer cut off" if any_byte else "connection ended without an answer")
        else:
            found.append(None if flag & _FINISHED else names.get(code))
    return found


def _attempt(fields: Mapping[str, str]) -> float:
    """Return which attempt a request says it is; NaN where it says nothing."""
    count = fields.get(_RETRY_COUNT, "")
    return float(count) + 1 if count.isascii() and count.isdigit() and len(count) < 6 else float("nan")


def reported_ms(fields: Mapping[str, str]) -> float:
    """Return for how long a server says that it worked, from its header fields; NaN where it says nothing.

    Of the metrics of Server-Timing the one that is named as the whole; else the longest: they lie inside each other.
    """
    own = _number(fields.get("openai-processing-ms", "").removesuffix("ms").strip())
    if not math.isnan(own):
        return own
    metrics = _DURATION.findall(fields.get("server-timing", ""))
    known = [(name.strip().lower(), value) for name, text in metrics if not math.isnan(value := _number(text))]
    whole = [value for name, value in known if name in _WHOLE_METRICS]
    return max(whole or [value for _, value in known], default=float("nan"))


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return float("nan")
    return value if 0 <= value < 1e9 else float("nan")
