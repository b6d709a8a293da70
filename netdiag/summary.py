# SPDX-License-Identifier: Apache-2.0
"""The summary of a trace: counts, percentiles, and where the time of the requests went, in all and per host.

Pure, over the lists of the document. It is about the calls that the traced processes make; only where they make none
(a traced server) it is about the calls that they serve, so that a call between two traced processes counts once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

__all__ = ["PARTS", "host_of", "percentile", "summarize"]

Row: TypeAlias = Mapping[str, Any]

PARTS: tuple[tuple[str, str], ...] = (
    ("dns", "dns_ms"),
    ("connect", "connect_ms"),
    ("tls", "tls_ms"),
    ("client-setup", "client_setup_ms"),
    ("queue", "queue_ms"),
    ("send", "send_ms"),
    ("server", "wait_ms"),
    ("receive", "receive_ms"),
    ("reader", "reader_lag_ms"),
    ("unattributed", "unattributed_ms"),
)
"""Parts of a request's time in the order in which they pass, with the member of the request that holds them."""

_STATUS_ERROR = 400


def summarize(document: Row) -> dict[str, Any]:
    """Return `summary` of the document, from its connections, handshakes and requests."""
    connections = _counted_side(document["connections"])
    kept = {row["id"] for row in connections}
    handshakes = [row for row in document["handshakes"] if row["connection"] in kept]
    requests = [row for row in document["requests"] if row["connection"] in kept or row["connection"] is None]
    where = {row["id"]: host_of(row) for row in connections}
    request_hosts = [_request_host(row, where) for row in requests]
    total = _part(connections, handshakes, requests, hosts=len(set(request_hosts)), names=len(_names(handshakes)))
    total["by_host"] = _by_host(connections, handshakes, requests, request_hosts, where)
    return total


def host_of(connection: Row) -> tuple[str | None, int | None]:
    """Return name or address, and port, of the other end of a connection."""
    remote = connection["remote"]
    return remote["name"] or remote["ip"], remote["port"]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the percentile of sorted values, `share` from 0 to 1, linear between neighbours."""
    at = share * (len(values) - 1)
    low = math.floor(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


def _counted_side(connections: Iterable[Row]) -> list[Row]:
    rows = list(connections)
    return [row for row in rows if row["role"] != "server"] or rows


def _request_host(request: Row, where: Mapping[str, tuple[str | None, int | None]]) -> tuple[str | None, int | None]:
    name, port = where.get(request["connection"], (None, None))
    return request["host"] or name, port


def _names(handshakes: Iterable[Row]) -> set[Any]:
    return {row["sni"] or row["connection"] for row in handshakes if row["outcome"] == "completed"}


def _by_host(
    connections: Sequence[Row],
    handshakes: Sequence[Row],
    requests: Sequence[Row],
    request_hosts: Sequence[tuple[str | None, int | None]],
    where: Mapping[str, tuple[str | None, int | None]],
) -> list[dict[str, Any]]:
    """Return the same numbers for each host and port, the one with most request time first."""
    groups: dict[tuple[str | None, int | None], tuple[list[Row], list[Row], list[Row]]] = {}
    # a connection belongs to the host that its requests name (a proxy or a CDN carries several; the first one counts)
    owner = dict(where)
    for request, host in zip(reversed(requests), reversed(request_hosts), strict=True):
        owner[request["connection"]] = host
        groups.setdefault(host, ([], [], []))[2].append(request)
    for row in connections:
        groups.setdefault(owner[row["id"]], ([], [], []))[0].append(row)
    for row in handshakes:
        groups.setdefault(owner[row["connection"]], ([], [], []))[1].append(row)
    hosts = [
        {"host": host, "port": port, **_part(own, shakes, calls, hosts=1, names=1)}
        for (host, port), (own, shakes, calls) in groups.items()
    ]
    return sorted(hosts, key=lambda row: (-(row["time_ms"] or 0.0), str(row["host"]), row["port"] or 0))


def _part(
    connections: Sequence[Row], handshakes: Sequence[Row], requests: Sequence[Row], *, hosts: int, names: int
) -> dict[str, Any]:
    established = [row for row in connections if row["outcome"] == "established"]
    count = _request_count(established, requests)
    timed = [row for row in requests if row["total_ms"] is not None]
    return {
        "requests": count,
        "connections": len(established),
        "failed_connections": sum(row["outcome"] not in {"established", "pending", None} for row in connections),
        "reuse": _reuse(requests, hosts),
        "resumption": _resumption(handshakes, names),
        "errors": _errors(requests, count),
        "retries": _retries(requests, count),
        "wait_ms": _spread(row["wait_ms"] for row in requests),
        "first_token_ms": _spread((row["stream"] or {}).get("first_token_ms") for row in requests),
        "total_ms": _spread(row["total_ms"] for row in requests),
        "time_ms": round(math.fsum(row["total_ms"] for row in timed), 6) if timed or count == 0 else None,
        "time": _time(timed),
    }


def _request_count(established: Sequence[Row], requests: Sequence[Row]) -> int | None:
    """Return how many requests were seen; None where data flowed and nobody could tell whether it was requests."""
    if requests or all(row["requests"] is not None or row["bytes_received"] == 0 for row in established):
        return len(requests)
    return None


def _reuse(requests: Sequence[Row], hosts: int) -> float | None:
    known = [row for row in requests if row["reused"] is not None]
    possible = len(known) - hosts
    if possible <= 0:
        return None
    reused = sum(row["reused"] is True for row in known)
    return min(1.0, round(reused / possible, 6))


def _resumption(handshakes: Sequence[Row], names: int) -> float | None:
    known = [row for row in handshakes if row["outcome"] == "completed" and row["resumed"] is not None]
    possible = len(known) - names
    if possible <= 0:
        return None
    resumed = sum(row["resumed"] is True for row in known)
    return min(1.0, round(resumed / possible, 6))


def _errors(requests: Sequence[Row], count: int | None) -> int | None:
    """Return the requests that failed; None where none of them shows how it ended."""
    if not requests:
        return count
    told = [row for row in requests if row["status"] is not None or row["error"] is not None]
    if not told:
        return None
    return sum(1 for row in told if row["error"] is not None or row["status"] >= _STATUS_ERROR)


def _retries(requests: Sequence[Row], count: int | None) -> int | None:
    if not requests:
        return count
    told = [row for row in requests if row["attempt"] is not None]
    return sum(1 for row in told if row["attempt"] > 1) if told else None


def _spread(values: Iterable[float | None]) -> dict[str, float | None]:
    known = sorted(value for value in values if value is not None)
    if not known:
        return dict.fromkeys(("mean", "p50", "p90", "p95", "p99", "jitter"))
    mean = math.fsum(known) / len(known)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in known) / len(known))
    spread: dict[str, float | None] = {"mean": round(mean, 6)}
    for share in (50, 90, 95, 99):
        spread[f"p{share}"] = round(percentile(known, share / 100), 6)
    spread["jitter"] = round(deviation / mean, 6) if mean > 0 and len(known) > 1 else None
    return spread


def _time(timed: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the parts of the requests' time: `ms` None where no request could tell, `share` of all their time."""
    total = math.fsum(row["total_ms"] for row in timed)
    parts = []
    for part, member in PARTS:
        known = sorted(row[member] for row in timed if row[member] is not None)
        if part == "queue" and not any(known):
            continue  # where no call waited for a free connection the part is left out
        ms = round(math.fsum(known), 6) if known else None
        share = None if ms is None or total <= 0 else round(ms / total, 6)
        p50 = round(percentile(known, 0.5), 6) if known else None
        parts.append({"part": part, "ms": ms, "share": share, "p50_ms": p50})
    return parts
