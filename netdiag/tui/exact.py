# SPDX-License-Identifier: Apache-2.0
"""Columns of the overview from the tables: what the report would say, in the shape that the dashboard counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from netdiag.addresses import endpoint
from netdiag.tables import Tables
from netdiag.tui.columns import PARTS, Calls, Ends, Floats, Texts

__all__ = ["calls", "ends"]

_ERROR_STATUS = 400


def calls(tables: Tables) -> Calls:
    """Return the requests; those of servers only where no client was traced, so that a call counts once."""
    asked = tables.requests
    if not len(asked):
        return Calls.none()
    link = asked["connection"].to_numpy()
    hosts = np.append(_hosts(tables.connections), np.array([None], object))
    roles = np.append(tables.connections["role"].to_numpy(), np.array([None], object))
    stream = asked["stream"].to_numpy()
    found = Calls(
        row=np.arange(len(asked)),
        connection=link,
        pid=_whole(asked["pid"]),
        host=_request_hosts(asked["host"].to_numpy(), hosts[link], tables.connections, link),
        label=_labels(asked),
        began_ns=asked["started_ns"].fillna(asked["began_ns"]).to_numpy(),
        ended_ns=asked["ended_ns"].to_numpy(),
        total_ms=asked["total_ms"].to_numpy(),
        wait_ms=asked["wait_ms"].to_numpy(),
        first_token_ms=_first_tokens(stream),
        status=asked["status"].to_numpy(),
        failed=_failed(asked),
        retried=np.where(np.isnan(asked["attempt"]), np.nan, asked["attempt"] > 1),
        reused=_flags(asked["reused"]),
        stream=np.array([isinstance(one, dict) for one in stream], bool),
        parts=np.column_stack([asked[f"{part}_ms"].to_numpy() for part in PARTS]),
    )
    client = roles[link] != "server"
    kept = found.take(client) if client.any() else found
    return kept.take(np.argsort(kept.began_ns, kind="stable"))


def ends(tables: Tables) -> Ends:
    """Return the connections, with the same rule about servers."""
    rows = tables.connections
    if not len(rows):
        return Ends.none()
    resumed = np.full(len(rows), np.nan)
    shakes = tables.handshakes
    done = (shakes["outcome"] == "completed").to_numpy()
    resumed[shakes["connection"].to_numpy()[done]] = _flags(shakes["resumed"])[done]
    outcome = rows["outcome"]
    # a connection belongs to the host that its first request names: a CDN carries several
    hosts = _hosts(rows)
    asked = tables.requests
    link = asked["connection"].to_numpy()
    named = (link >= 0) & asked["host"].notna().to_numpy()
    ports, named_hosts = rows["remote_port"].to_numpy(), asked["host"].to_numpy()
    for at in np.flatnonzero(named)[::-1]:
        hosts[link[at]] = _named(str(named_hosts[at]), ports[link[at]])
    found = Ends(
        row=np.arange(len(rows)),
        pid=_whole(rows["pid"]),
        host=hosts,
        opened_ns=rows["opened_ns"].to_numpy(),
        ended_ns=rows["ended_ns"].to_numpy(),
        established=(outcome == "established").to_numpy(),
        failed=~outcome.isin(["established", "pending"]).to_numpy() & outcome.notna().to_numpy(),
        resumed=resumed,
        retransmits=rows["retransmits"].to_numpy(),
    )
    client = (rows["role"] != "server").to_numpy()
    return found.take(client) if client.any() else found


def _hosts(rows: pd.DataFrame) -> Texts:
    names, addresses, ports = (rows[name].to_numpy() for name in ("remote_name", "remote_ip", "remote_port"))
    found = np.empty(len(rows), object)
    for at, (name, address, port) in enumerate(zip(names, addresses, ports, strict=True)):
        found[at] = _named(name if isinstance(name, str) else address, port)
    return found


def _named(name: str | None, port: float) -> str | None:
    if not isinstance(name, str):
        return None
    return endpoint(name, None if np.isnan(port) or port == 443 else int(port))


def _request_hosts(names: Texts, of_connection: Texts, rows: pd.DataFrame, link: Any) -> Texts:
    ports = np.append(rows["remote_port"].to_numpy(), np.nan)[link]
    found = of_connection.copy()
    for at in np.flatnonzero(pd.notna(names)):
        found[at] = _named(names[at], ports[at])
    return found


def _labels(asked: pd.DataFrame) -> Texts:
    found = np.empty(len(asked), object)
    for at, (method, path) in enumerate(zip(asked["method"], asked["path"], strict=True)):
        found[at] = " ".join(one for one in (method, path) if isinstance(one, str)) or None
    return found


def _failed(asked: pd.DataFrame) -> Floats:
    status, error = asked["status"].to_numpy(), asked["error"].notna().to_numpy()
    told = error | ~np.isnan(status)
    return np.where(told, (error | (status >= _ERROR_STATUS)).astype(np.float64), np.nan)


def _flags(column: pd.Series[Any]) -> Floats:
    return np.array([float(one) if isinstance(one, bool | np.bool_) else np.nan for one in column], np.float64)


def _whole(column: pd.Series[Any]) -> Any:
    return column.fillna(-1).to_numpy().astype(np.int64)


def _first_tokens(streams: Texts) -> Floats:
    told = [one.get("first_token_ms") if isinstance(one, dict) else None for one in streams]
    return np.array([_number(one) for one in told], np.float64)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")
