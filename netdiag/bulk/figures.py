# SPDX-License-Identifier: Apache-2.0
"""The summary of packed tables: the same figures as `netdiag.summary` gives of a document, without its rows. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netdiag.bulk.pack import STREAM
from netdiag.summary import PARTS
from netdiag.tables.model import Tables
from netdiag.values import to_int, to_text

__all__ = ["MEASURES", "known", "summary", "values"]

MEASURES = ("wait_ms", "first_token_ms", "total_ms")
_STATUS_ERROR = 400

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_Place = tuple[Any, float | None]
"""Host and port."""


def values(requests: pd.DataFrame, measure: str) -> Floats:
    """Return a measure of packed requests, to the nanosecond as documents have it; NaN where it is not known."""
    name = STREAM + measure if measure == "first_token_ms" else measure
    return np.round(requests[name].to_numpy(np.float64), 6)


def known(requests: pd.DataFrame, measure: str) -> list[float]:
    """Return the known values of a measure."""
    told = values(requests, measure)
    found: list[float] = told[np.isfinite(told)].tolist()
    return found


def summary(tables: Tables) -> dict[str, Any]:
    """Return `summary` of the document."""
    ends, calls, shakes = tables.connections, tables.requests, tables.handshakes
    ours = (ends["role"].astype(object) != "server").to_numpy()
    if not ours.any():
        ours = np.ones(len(ends), bool)
    name = _texts(ends["remote_name"])
    name = np.where(pd.isna(name), _texts(ends["remote_ip"]), name)
    port = ends["remote_port"].to_numpy(np.float64)
    places, where = _numbered([name, port])
    row = calls["connection"].to_numpy(np.int64)
    kept = (row < 0) | (ours[np.maximum(row, 0)] if len(ours) else False)
    calls, row = calls[kept], row[kept]
    at = _hosts(calls, row, places, where)
    shaken = shakes["connection"].to_numpy(np.int64)
    mine = ours[shaken]
    shakes, shaken = shakes[mine], shaken[mine]
    total = _part(ends[ours], shakes, calls, hosts=len(np.unique(at)), names=_names(shakes))
    owner = where.copy()
    owner[row[::-1][row[::-1] >= 0]] = at[::-1][row[::-1] >= 0]
    by_host = []
    for number in np.unique(np.concatenate([owner[ours], at])).tolist():
        part = _part(
            ends[ours & (owner == number)], shakes[owner[shaken] == number], calls[at == number], hosts=1, names=1
        )
        host, own_port = places[number]
        by_host.append({"host": to_text(host), "port": to_int(own_port), **part})
    by_host.sort(key=lambda one: (-(one["time_ms"] or 0.0), str(one["host"]), one["port"] or 0))
    return {**total, "by_host": by_host}


def _texts(column: pd.Series[Any]) -> NDArray[np.object_]:
    cells = column.astype(object).to_numpy(object, copy=True)
    cells[pd.isna(cells)] = None
    return cells


def _numbered(columns: Sequence[Any]) -> tuple[list[_Place], Ints]:
    """Return the distinct pairs of host and port, and the number of each row's."""
    places: dict[_Place, int] = {}
    numbers = np.zeros(len(columns[0]), np.int64)
    for at, (host, port) in enumerate(zip(columns[0].tolist(), columns[1].tolist(), strict=True)):
        key = (host, None if math.isnan(port) else port)
        numbers[at] = places.setdefault(key, len(places))
    return list(places), numbers


def _hosts(calls: pd.DataFrame, row: Ints, places: list[_Place], where: Ints) -> Ints:
    """Return for each request the number of the host that it names, else of its connection's; `places` may grow."""
    end = np.where(row >= 0, where[np.maximum(row, 0)] if len(where) else -1, -1)
    said = calls["host"].array
    codes, hosts = np.asarray(said.codes, np.int64), said.categories.tolist()
    known = {place: number for number, place in enumerate(places)}
    pairs, inverse = np.unique(np.stack([codes, end]), axis=1, return_inverse=True)
    found = []
    for code, number in pairs.T.tolist():
        name, port = places[number] if number >= 0 else (None, None)
        key = (hosts[code] or name if code >= 0 else name, port)
        if key not in known:
            known[key] = len(places)
            places.append(key)
        found.append(known[key])
    return np.array(found, np.int64)[inverse.reshape(-1)]


def _names(shakes: pd.DataFrame) -> int:
    done = shakes[(shakes["outcome"].astype(object) == "completed").to_numpy()]
    sni = _texts(done["sni"])
    return len({name or row for name, row in zip(sni.tolist(), done["connection"].tolist(), strict=True)})


def _part(ends: pd.DataFrame, shakes: pd.DataFrame, calls: pd.DataFrame, *, hosts: int, names: int) -> dict[str, Any]:
    outcome = ends["outcome"].astype(object)
    established = ends[(outcome == "established").to_numpy()]
    failed = ~(outcome.isin(["established", "pending"]) | outcome.isna()).to_numpy()
    count = _count(established, calls)
    total = values(calls, "total_ms")
    timed = np.isfinite(total)
    return {
        "requests": count,
        "connections": len(established),
        "failed_connections": int(failed.sum()),
        "reuse": _share(calls["reused"], hosts),
        "resumption": _share(shakes["resumed"][(shakes["outcome"].astype(object) == "completed").to_numpy()], names),
        "errors": _errors(calls, count),
        "retries": _retries(calls, count),
        "wait_ms": _spread(values(calls, "wait_ms")),
        "first_token_ms": _spread(values(calls, "first_token_ms")),
        "total_ms": _spread(total),
        "time_ms": round(math.fsum(total[timed].tolist()), 6) if timed.any() or count == 0 else None,
        "time": _time(calls[timed], math.fsum(total[timed].tolist())),
    }


def _count(established: pd.DataFrame, calls: pd.DataFrame) -> int | None:
    told = established["requests"].notna() | (established["bytes_received"] == 0)
    return len(calls) if len(calls) or bool(told.all()) else None


def _share(flags: pd.Series[Any], firsts: int) -> float | None:
    """Return the share of what is true, of all that is known but the first of each."""
    known = flags[flags.notna().to_numpy()]
    possible = len(known) - firsts
    if possible <= 0:
        return None
    return min(1.0, round(int((known.astype(object) == True).sum()) / possible, 6))  # noqa: E712 - cells are objects


def _errors(calls: pd.DataFrame, count: int | None) -> int | None:
    if not len(calls):
        return count
    status, error = calls["status"].to_numpy(np.float64), calls["error"].notna().to_numpy()
    if not (np.isfinite(status) | error).any():
        return None
    return int((error | (status >= _STATUS_ERROR)).sum())


def _retries(calls: pd.DataFrame, count: int | None) -> int | None:
    if not len(calls):
        return count
    attempt = calls["attempt"].to_numpy(np.float64)
    return int((attempt > 1).sum()) if np.isfinite(attempt).any() else None


def _spread(told: Floats) -> dict[str, float | None]:
    known = told[np.isfinite(told)]
    if not len(known):
        return dict.fromkeys(("mean", "p50", "p90", "p95", "p99", "jitter"))
    mean = math.fsum(known.tolist()) / len(known)
    deviation = math.sqrt(math.fsum(((known - mean) ** 2).tolist()) / len(known))
    found: dict[str, float | None] = {"mean": round(mean, 6)}
    for share in (50, 90, 95, 99):
        found[f"p{share}"] = round(float(np.percentile(known, share)), 6)
    found["jitter"] = round(deviation / mean, 6) if mean > 0 and len(known) > 1 else None
    return found


def _time(timed: pd.DataFrame, total: float) -> list[dict[str, Any]]:
    parts = []
    for part, member in PARTS:
        told = np.round(timed[member].to_numpy(np.float64), 6)
        known = told[np.isfinite(told)]
        if part == "queue" and not known.any():
            continue
        ms = round(math.fsum(known.tolist()), 6) if len(known) else None
        share = None if ms is None or total <= 0 else round(ms / total, 6)
        p50 = round(float(np.median(known)), 6) if len(known) else None
        parts.append({"part": part, "ms": ms, "share": share, "p50_ms": p50})
    return parts
