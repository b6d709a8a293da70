# SPDX-License-Identifier: Apache-2.0
"""Handshakes and contexts as the TLS libraries of the programs made them, joined to what passed on the wire. Pure.

A handshake of a library that works on memory has no socket of its own. The kernel programs bind it where nothing else
can be meant, and here each such binding is checked: the connection's ClientHello must have passed while the handshake
was made. What is left is bound only where a single connection of the process fits. A wrong binding is worse than none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netdiag.tables.codes import TlsBinding, TlsCallKind, TlsLibrary
from netdiag.tables.columns import Columns, Ints, Objects
from netdiag.tables.connections import Sockets
from netdiag.tables.schema import frame, objects

__all__ = ["bind", "built_for", "contexts", "join", "made_too_soon", "tls_calls", "tls_libraries"]

_LIBRARIES = {TlsLibrary.OPENSSL: "openssl", TlsLibrary.BORINGSSL: "boringssl", TlsLibrary.GNUTLS: "gnutls"}
_KINDS = {TlsCallKind.CONTEXT: "context", TlsCallKind.TRUST: "ca-bundle"}
_BINDINGS = {TlsBinding.INSIDE: "calls", TlsBinding.AFTER: "order"}
_LATE_NS = 50e6
"""A ClientHello leaves after the first call began (before: that one was not seen); it may wait in the program."""
_MOST_AT_ONCE = 256
"""Handshakes on the wire that are weighed for one by library."""


def tls_calls(events: Columns, found: Sockets) -> pd.DataFrame:
    """Return the handshakes by library in order of their first call, bound as the kernel programs knew it."""
    events = events.take(events.integers("kind") == TlsCallKind.HANDSHAKE)
    events = events.take(np.argsort(events.instant("first"), kind="stable"))
    first, cookies = events.instant("first"), events.integers("cookie")
    rows = found.rows_of(cookies, first)
    known = (cookies != 0) & (rows >= 0)
    binding = _names(events, "binding", _BINDINGS)
    columns = {
        "connection": np.where(known, rows, np.nan),
        **_who(events),
        "started_ns": first,
        "ended_ns": events.instant("done"),
        "inside_ms": events.count("inside") / 1e6,
        "cpu_ms": events.known("cpu", 1e-6),
        "calls": events.count("calls"),
        "ok": events.integers("ok") != 0,
        "library": _names(events, "library", _LIBRARIES),
        "binding": objects([name if bound else None for name, bound in zip(binding, known, strict=True)]),
    }
    return frame("tls_calls", len(events), columns)


def contexts(events: Columns) -> pd.DataFrame:
    """Return the new contexts and the loads of trusted certificates, by time."""
    kind = events.integers("kind")
    events = events.take((kind == TlsCallKind.CONTEXT) | (kind == TlsCallKind.TRUST))
    events = events.take(np.argsort(events.instant("first"), kind="stable"))
    columns = {
        **_who(events),
        "at_ns": events.instant("first"),
        "duration_ms": events.count("inside") / 1e6,
        "cpu_ms": events.known("cpu", 1e-6),
        "kind": _names(events, "kind", _KINDS),
        "ok": events.integers("ok") != 0,
        "library": _names(events, "library", _LIBRARIES),
    }
    return frame("contexts", len(events), columns)


def built_for(made: pd.DataFrame, calls: pd.DataFrame) -> pd.DataFrame:
    """Return the contexts with the connection that each was made for: the one of its thread's next handshake.

    NaN where there is none, or where it is not known which one it is.
    """
    if not len(made):
        return made
    keys = ["pid", "tid", "started_ns"]
    left = made[["pid", "tid", "at_ns"]].rename(columns={"at_ns": "started_ns"})
    right = calls[[*keys, "connection"]].dropna(subset=keys)
    known = left.dropna(subset=keys)
    next_one = pd.merge_asof(known, right, on="started_ns", by=["pid", "tid"], direction="forward")
    result = made.copy()
    column = np.full(len(made), np.nan)
    column[left.notna().all(axis=1).to_numpy()] = next_one["connection"].to_numpy()
    result["connection"] = column
    return result


def _who(events: Columns) -> dict[str, Any]:
    return {"pid": events.known("tgid"), "tid": events.known("tid")}


def _names(events: Columns, member: str, names: Mapping[Any, str]) -> Objects:
    return objects([names.get(value) for value in events.integers(member).tolist()])


def bind(calls: pd.DataFrame, handshakes: pd.DataFrame, *, watched: bool) -> pd.DataFrame:
    """Return the handshakes by library with bindings checked and, where one connection alone fits, added.

    `handshakes` are those on the wire; `watched`: the wire was looked at, so that one that is missing there was none.
    """
    if not len(calls) or not watched:
        return calls
    row, binding = calls["connection"].to_numpy().copy(), calls["binding"].to_numpy().copy()
    wrong = (binding == "order") & (_shake_of(calls, handshakes) < 0)
    row[wrong], binding[wrong] = np.nan, None
    shakes = handshakes["connection"].to_numpy()
    for place, shake in _alone(calls, handshakes, np.isnan(row), ~np.isin(shakes, row[~np.isnan(row)])):
        row[place], binding[place] = shakes[shake], "time"
    bound = calls.copy()
    bound["connection"], bound["binding"] = row, pd.Series(binding, dtype=object)
    return bound


def _shake_of(calls: pd.DataFrame, handshakes: pd.DataFrame) -> Ints:
    """Return the row of the handshake on each call's connection whose ClientHello passed meanwhile; -1 without."""
    if not len(handshakes):
        return np.full(len(calls), -1, np.int64)
    shakes = handshakes["connection"].to_numpy()
    order = np.argsort(shakes, kind="stable")
    wanted = np.nan_to_num(calls["connection"].to_numpy(), nan=-1.0)
    place = order[np.minimum(np.searchsorted(shakes[order], wanted), len(order) - 1)]
    hello = handshakes["started_ns"].to_numpy()[place]
    began, ended = calls["started_ns"].to_numpy(), calls["ended_ns"].to_numpy()
    fits = (shakes[place] == wanted) & (hello >= began) & (hello <= ended + _LATE_NS)
    return np.where(fits, place, -1)


def _alone(
    calls: pd.DataFrame, handshakes: pd.DataFrame, unbound: NDArray[np.bool_], free: NDArray[np.bool_]
) -> Iterator[tuple[int, int]]:
    """Yield pairs of an unbound handshake by library and a free one on the wire that can be nothing but each other."""
    hello, pid = handshakes["started_ns"].to_numpy(), handshakes["pid"].to_numpy()
    low = np.searchsorted(hello, calls["started_ns"].to_numpy())
    high = np.searchsorted(hello, calls["ended_ns"].to_numpy() + _LATE_NS, side="right")
    callers = calls["pid"].to_numpy()
    claims: dict[int, list[int]] = {}
    partners: dict[int, list[int]] = {}
    for place in np.flatnonzero(unbound).tolist():
        if high[place] - low[place] <= _MOST_AT_ONCE:
            near = np.arange(low[place], high[place])
            partners[place] = near[free[near] & (pid[near] == callers[place])].tolist()
            for shake in partners[place]:
                claims.setdefault(shake, []).append(place)
        else:
            partners[place] = []
    for place, shakes in partners.items():
        if len(shakes) == 1 and len(claims[shakes[0]]) == 1:
            yield place, shakes[0]


def join(handshakes: pd.DataFrame, calls: pd.DataFrame) -> pd.DataFrame:
    """Return the handshakes with what the library told about them, and those that only the library told."""
    calls = calls[calls["connection"].notna()].reset_index(drop=True)
    if not len(calls):
        return handshakes
    joined, shake = handshakes.copy(), _shake_of(calls, handshakes)
    seen = np.flatnonzero(shake >= 0)
    told = {"library": calls["library"], "source": pd.Series(["both"] * len(calls)), "client_cpu_ms": calls["cpu_ms"]}
    for name, values in told.items():
        column = joined[name].to_numpy().copy()
        column[shake[seen]] = values.to_numpy()[seen]
        joined[name] = pd.Series(column, dtype=joined[name].dtype)
    alone = calls[~np.isin(calls["connection"].to_numpy(), handshakes["connection"].to_numpy())]
    if not len(alone):
        return joined
    whole = pd.concat([joined, _of_library(alone)]) if len(joined) else _of_library(alone)
    whole = whole.sort_values("started_ns", kind="stable").reset_index(drop=True)
    whole["id"] = pd.Series([f"h{number}" for number in range(1, len(whole) + 1)], dtype=object)
    return whole


def _of_library(calls: pd.DataFrame) -> pd.DataFrame:
    """Return handshakes of which nothing is known from the wire; the last one where a connection had several."""
    calls = calls.drop_duplicates("connection", keep="last")
    ok = calls["ok"].to_numpy()
    took = (calls["ended_ns"] - calls["started_ns"]).to_numpy() / 1e6
    columns = {
        "id": [""] * len(calls),
        "connection": calls["connection"].to_numpy().astype(np.int64),
        "pid": calls["pid"].to_numpy(),
        "library": calls["library"].to_numpy(),
        "started_ns": calls["started_ns"].to_numpy(),
        "duration_ms": np.where(ok, took, np.nan),
        "outcome": np.where(ok, "completed", "failed").astype(object),
        "client_cpu_ms": calls["cpu_ms"].to_numpy(),
        "source": ["library"] * len(calls),
    }
    return frame("handshakes", len(calls), columns)


def tls_libraries(facts: Iterable[Mapping[str, Any]], handshakes: pd.DataFrame) -> list[dict[str, Any]]:
    """Return what coverage says of TLS libraries: those found, and processes whose handshakes show on the wire only."""
    found = [{name: fact.get(name) for name in ("pid", "path", "library", "version", "how")} for fact in facts]
    known = {entry["pid"] for entry in found}
    pids = sorted({int(pid) for pid in handshakes["pid"].dropna() if int(pid) not in known})
    return [*found, *({"pid": pid, "path": None, "library": None, "version": None, "how": "wire-only"} for pid in pids)]


def made_too_soon(
    facts: Iterable[Mapping[str, Any]], handshakes: pd.DataFrame, calls: pd.DataFrame
) -> list[dict[str, Any]]:
    """Return what coverage says of processes with a library that is probed, none of whose handshakes the probes saw.

    Each process is probed by itself, which takes the kernel some 10 ms: one that lives no longer is over by then.
    """
    probed = {fact.get("pid") for fact in facts if fact.get("how") == "symbols"}
    seen = set(calls["pid"].dropna())
    shaken = handshakes["pid"][handshakes["outcome"] == "completed"]
    why = "its handshakes were made before probes were in place: they are known from the wire alone"
    missed = sorted({int(pid) for pid in shaken.dropna() if pid in probed and pid not in seen})
    return [{"pid": pid, "what": "work inside its TLS library", "why": why} for pid in missed]
