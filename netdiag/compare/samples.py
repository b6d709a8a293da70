# SPDX-License-Identifier: Apache-2.0
"""The measurements of one side of a comparison: how long each part of its requests took, how they ended, and causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netdiag.bulk.pack import STREAM
from netdiag.compare.statistics import Values
from netdiag.findings import Finding, Severity
from netdiag.summary import PARTS
from netdiag.tables import Tables

__all__ = ["METRICS", "SHARES", "SPLITS", "Sample", "asked", "groups_of", "sample", "split"]

SPLITS = ("model", "host", "ip")
METRICS: tuple[tuple[str, str], ...] = (
    ("total", "total_ms"),
    *PARTS,
    ("first_token", "first_token_ms"),
)
"""Name of each measurement and the member of a request that holds it."""
SHARES = ("errors", "reuse", "retries", "resumption")
_FAILED = 400.0
FIRST_TOKEN = f"{STREAM}first_token_ms"
"""Of packed requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One side."""

    name: str
    kind: str
    """`recording`, `capture`, `baseline` or `group`."""
    requests: int
    values: Mapping[str, Values]
    """By name of `METRICS`: known values in milliseconds, sorted."""
    shares: Mapping[str, tuple[int, int]]
    """By name of `SHARES`: hits, of how many that tell."""
    causes: Mapping[str, tuple[int, float | None]] | None = field(default_factory=dict)
    """By code of a finding: cases, and what they cost in milliseconds. None: no findings were made of it."""
    started: str | None = None
    severities: Mapping[str, str] = field(default_factory=dict)
    """By code of a finding: the loudest severity."""


def sample(
    tables: Tables, findings: Sequence[Finding], *, name: str, kind: str = "recording", started: str | None = None
) -> Sample:
    """Return what a whole recording shows of the calls that the traced processes make."""
    return _sample(tables, asked(tables), findings, name=name, kind=kind, started=started)


def split(tables: Tables, findings: Sequence[Finding], by: str) -> list[Sample]:
    """Return a sample for each model, host or address, the one with most requests first; unknown ones are left out.

    Causes are those whose finding names the host or address; ValueError for another way to split.
    """
    if by not in SPLITS:
        raise ValueError(f"cannot split by {by}")
    requests = asked(tables)
    keys = groups_of(tables, requests, by)
    found = []
    for key, rows in requests.groupby(keys, sort=True):
        own = [finding for finding in findings if by != "model" and _about(finding, str(key))]
        found.append(_sample(tables, rows, own, name=str(key), kind="group"))
    return sorted(found, key=lambda one: (-one.requests, one.name))


def asked(tables: Tables) -> pd.DataFrame:
    """Return the requests that count: those that the traced processes make, or serve where they make none."""
    requests, roles = tables.requests, tables.connections["role"].astype(object)
    serving = (roles == "server").to_numpy()
    if not serving.any() or serving.all():
        return requests
    rows = requests["connection"].to_numpy(np.int64)
    counted: pd.DataFrame = requests[(rows < 0) | ~serving[np.maximum(rows, 0)]]
    return counted


def groups_of(tables: Tables, requests: pd.DataFrame, by: str) -> pd.Series[Any]:
    """Return for each request its model, host (else address) or address; None where that is not known."""
    if by == "model":
        return requests["model"].astype(object)
    ends = tables.connections
    rows = requests["connection"].to_numpy(np.int64)
    address = _taken(ends["remote_ip"], rows)
    if by == "ip":
        return pd.Series(address, index=requests.index, dtype="object")
    name = _taken(ends["remote_name"], rows)
    said = requests["host"].astype(object).to_numpy(object)
    best = np.where(pd.notna(said), said, np.where(pd.notna(name), name, address))
    return pd.Series(best, index=requests.index, dtype="object")


def _taken(column: pd.Series[Any], rows: NDArray[np.int64]) -> NDArray[np.object_]:
    if not len(column):
        return np.full(len(rows), None, object)
    cells = column.astype(object).to_numpy(object)[np.maximum(rows, 0)]
    cells[rows < 0] = None
    return cells


def _about(finding: Finding, key: str) -> bool:
    remote = (finding.subject.remote or "").rpartition(":")[0].strip("[]")
    return key in {finding.subject.host, remote}


def _sample(
    tables: Tables,
    requests: pd.DataFrame,
    findings: Sequence[Finding],
    *,
    name: str,
    kind: str,
    started: str | None = None,
) -> Sample:
    causes: dict[str, tuple[int, float | None]] = {}
    for finding in findings:
        count, cost = causes.get(finding.code, (0, None))
        known = [value for value in (cost, finding.cost_ms) if value is not None]
        causes[finding.code] = (count + finding.count, sum(known) if known else None)
    return Sample(
        name=name,
        kind=kind,
        requests=len(requests),
        values={metric: _values(requests, column) for metric, column in METRICS},
        shares=_shares(tables, requests, whole=kind != "group"),
        causes=causes,
        severities=_loudest(findings),
        started=started,
    )


def _loudest(findings: Sequence[Finding]) -> dict[str, str]:
    order = list(Severity)
    found: dict[str, Severity] = {}
    for finding in findings:
        found[finding.code] = min(finding.severity, found.get(finding.code, finding.severity), key=order.index)
    return {code: str(severity) for code, severity in found.items()}


def _values(requests: pd.DataFrame, column: str) -> Values:
    if column == "first_token_ms" and FIRST_TOKEN in requests:
        values = requests[FIRST_TOKEN].to_numpy(np.float64)
    elif column == "first_token_ms":
        told = [cell.get(column) for cell in requests["stream"].tolist() if isinstance(cell, Mapping)]
        values = np.array([np.nan if value is None else value for value in told], np.float64)
    else:
        values = requests[column].to_numpy(np.float64)
    return np.sort(values[np.isfinite(values)])


def _shares(tables: Tables, requests: pd.DataFrame, *, whole: bool) -> dict[str, tuple[int, int]]:
    status, error = requests["status"].to_numpy(np.float64), requests["error"].notna().to_numpy()
    told = np.isfinite(status) | error
    attempt = requests["attempt"].to_numpy(np.float64)
    counted = np.isfinite(attempt)
    reused = requests["reused"].astype(object).to_numpy(object)
    # the first call to each host cannot reuse anything
    firsts = ~pd.Series(groups_of(tables, requests, "host"), index=requests.index).duplicated().to_numpy()
    could = pd.notna(reused) & ~firsts
    shares = {
        "errors": (int((error | (status >= _FAILED))[told].sum()), int(told.sum())),
        "reuse": (int((reused[could] == True).sum()), int(could.sum())),  # noqa: E712 - cells are objects
        "retries": (int((attempt[counted] > 1).sum()), int(counted.sum())),
    }
    if whole:
        shares["resumption"] = _resumption(tables)
    return shares


def _resumption(tables: Tables) -> tuple[int, int]:
    shakes = tables.handshakes
    outcome, resumed, sni = (shakes[name].astype(object) for name in ("outcome", "resumed", "sni"))
    known = (outcome == "completed") & resumed.notna()
    again = resumed[known][sni[known].where(sni[known].notna(), shakes["connection"][known]).duplicated()]
    return int((again == True).sum()), len(again)  # noqa: E712 - cells are objects
