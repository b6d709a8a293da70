# SPDX-License-Identifier: Apache-2.0
"""The document of a long recording as reports draw it: all figures, and of its lists what a page has room for. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netdiag.bulk import figures, judge, pack
from netdiag.bulk.build import Whole
from netdiag.document import build
from netdiag.findings import Finding
from netdiag.recording.reader import Recording

__all__ = ["document"]

_ROWS = 300
"""Of the first requests, the slowest, and those that failed."""
_ENDS = 1500
"""Connections; those of the requests that are shown come on top."""
_FAILED = 400

Ints = NDArray[np.int64]


def document(
    recording: Recording,
    whole: Whole,
    findings: Sequence[Finding],
    *,
    ignored: Sequence[Mapping[str, Any]] = (),
    failures: Sequence[tuple[str, str]] = (),
) -> dict[str, Any]:
    """Return `netdiag.trace/1` with the summary of all requests and connections, and few of them in its lists."""
    tables = whole.tables
    named = {evidence.id for finding in findings for evidence in finding.evidence if evidence.id}
    calls = _calls(tables.requests, named | set(whole.arrived))
    ends = _ends(tables.connections, tables.requests["connection"].to_numpy(np.int64)[calls], named)
    shaken = tables.handshakes["connection"].to_numpy(np.int64)
    shakes = np.flatnonzero(np.isin(shaken, ends))[:_ENDS]
    few = replace(
        tables,
        requests=_taken("requests", tables.requests, calls, ends),
        handshakes=_taken("handshakes", tables.handshakes, shakes, ends),
        connections=pack.unpack("connections", tables.connections.iloc[ends]),
    )
    made = build(recording, few, findings, ignored=ignored, failures=failures)
    _leave_out(made, calls=len(calls) < len(tables.requests), shakes=len(shakes) < len(tables.handshakes))
    made["summary"] = figures.summary(tables)
    words = judge.words(whole.stretches, len(tables.requests))
    made["coverage"]["unobservable"].append({"pid": None, "what": "all of the trace for causes", "why": words})
    return made


def _leave_out(made: dict[str, Any], *, calls: bool, shakes: bool) -> None:
    """Take away what renderers would sum over rows of which not all are here."""
    for row in made["requests"] if calls else ():
        row["server_reported_ms"] = None
    for row in made["handshakes"] if shakes else ():
        row["resumed"] = None


def _calls(requests: pd.DataFrame, named: Collection[str]) -> Ints:
    took = np.nan_to_num(requests["total_ms"].to_numpy(np.float64))
    bad = (np.nan_to_num(requests["status"].to_numpy(np.float64)) >= _FAILED) | requests["error"].notna().to_numpy()
    most = min(_ROWS, len(took))
    slowest = np.argpartition(took, len(took) - most)[len(took) - most :] if most else np.zeros(0, np.int64)
    return np.unique(
        np.concatenate([np.arange(most), slowest, np.flatnonzero(bad)[:_ROWS], _rows(named, "r", len(took))])
    ).astype(np.int64)


def _ends(connections: pd.DataFrame, mine: Ints, named: Collection[str]) -> Ints:
    failed = np.flatnonzero((connections["outcome"].astype(object) != "established").to_numpy())[:_ROWS]
    first = np.arange(min(_ENDS, len(connections)))
    return np.unique(np.concatenate([first, failed, mine[mine >= 0], _rows(named, "c", len(connections))])).astype(
        np.int64
    )


def _rows(names: Collection[str], letter: str, count: int) -> Ints:
    told = [int(name[1:]) - 1 for name in names if name[:1] == letter and name[1:].isdigit()]
    return np.array([row for row in told if 0 <= row < count], np.int64)


def _taken(table: str, rows: pd.DataFrame, chosen: Ints, ends: Ints) -> pd.DataFrame:
    """Return chosen rows, their connections numbered as they stand among those that are shown."""
    part = pack.unpack(table, rows.iloc[chosen])
    row = part["connection"].to_numpy(np.int64)
    place = np.searchsorted(ends, row)
    there = (row >= 0) & (place < len(ends))
    there[there] = ends[place[there]] == row[there]
    return part.assign(connection=np.where(there, place, -1))
