# SPDX-License-Identifier: Apache-2.0
"""Requests as HAR 1.2, which browsers' developer tools and most HTTP tools open.

The format has no null: what is not known is -1 where it allows that, else 0 (status, send, wait, receive), the method
`UNKNOWN`, and the start of the recording for an instant; members that start with `_` hold the truth. There are no
bodies and no query strings, for none are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from netdiag import __version__
from netdiag.export.source import Progress, Source, silent
from netdiag.summary import host_of
from netdiag.values import dumps, rfc3339

__all__ = ["entry", "lines"]

_VERSIONS = {"http/1.0": "HTTP/1.0", "http/1.1": "HTTP/1.1", "h2": "HTTP/2", "h3": "HTTP/3"}


def lines(source: Source, progress: Progress = silent) -> Iterator[str]:
    """Yield the file in pieces of text."""
    creator = {"name": "netdiag", "version": __version__}
    comment = "Times of the kernel. No bodies and no query strings are kept; -1 and UNKNOWN: not known."
    yield f'{{"log": {{"version": "1.2", "creator": {dumps(creator)}, "comment": {dumps(comment)}, "entries": [\n'
    ends = {row["id"]: row for piece in source.pieces("connections") for row in piece}
    first = True
    for piece in source.pieces("requests", progress):
        for row in piece:
            yield ("" if first else ",\n") + dumps(entry(row, ends.get(row["connection"]), source))
            first = False
    yield "\n]}}\n"


def entry(row: Mapping[str, Any], end: Mapping[str, Any] | None, source: Source) -> dict[str, Any]:
    """Return one request; `end` is its connection."""
    timings = _timings(row)
    served = {} if end is None else {"serverIPAddress": end["remote"]["ip"], "connection": end["id"]}
    started = row["started"] or rfc3339(source.base_ns)
    return {
        "startedDateTime": started,
        "time": _sum(timings),
        "request": _request(row, end),
        "response": _response(row),
        "cache": {},
        "timings": timings,
        **{key: value for key, value in served.items() if value is not None},
        "_id": row["id"],
        "_started": row["started"],
        "_source": row["source"],
        "_error": row["error"],
        "_model": row["model"],
        "_stream": row["stream"],
        "_attempt": row["attempt"],
        "_retryOf": row["retry_of"],
        "_readerLag_ms": row["reader_lag_ms"],
        "_clientSetup_ms": row["client_setup_ms"],
        "_unattributed_ms": row["unattributed_ms"],
        "_send_ms": row["send_ms"],
        "_wait_ms": row["wait_ms"],
        "_receive_ms": row["receive_ms"],
        "_total_ms": row["total_ms"],
    }


def _request(row: Mapping[str, Any], end: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "method": row["method"] or "UNKNOWN",
        "url": _url(row, end),
        "httpVersion": _VERSIONS.get(row["protocol"], "unknown"),
        "cookies": [],
        "headers": _headers(row["request_headers"]),
        "queryString": [],
        "headersSize": -1,
        "bodySize": -1,
        "_bytes": row["request_bytes"],
    }


def _response(row: Mapping[str, Any]) -> dict[str, Any]:
    status = row["status"]
    size = row["response_bytes"]
    return {
        "status": 0 if status is None else status,
        "statusText": "",
        "httpVersion": _VERSIONS.get(row["protocol"], "unknown"),
        "cookies": [],
        "headers": _headers(row["headers"]),
        "content": {"size": -1 if size is None else size, "mimeType": str(row["headers"].get("content-type", ""))},
        "redirectURL": "",
        "headersSize": -1,
        "bodySize": -1,
        "_bytes": size,
    }


def _headers(headers: Mapping[str, Any]) -> list[dict[str, str]]:
    return [{"name": name, "value": str(value)} for name, value in headers.items()]


def _url(row: Mapping[str, Any], end: Mapping[str, Any] | None) -> str:
    name, port = (None, None) if end is None else host_of(end)
    host = row["host"] or name or "unknown.invalid"
    secure = end is None or end["encrypted"] is not False
    shown = f"[{host}]" if ":" in host and not host.startswith("[") and host.count(":") > 1 else host
    told = ":" in shown.rpartition("]")[2]
    if port is not None and not told and port != (443 if secure else 80):
        shown = f"{shown}:{port}"
    return f"{'https' if secure else 'http'}://{shown}{row['path'] or '/'}"


def _timings(row: Mapping[str, Any]) -> dict[str, float]:
    """Return HAR's phases: `connect` holds `ssl`, `blocked` all that it has no word for, `receive` late reading."""
    blocked = _known(row, "queue_ms", "client_setup_ms", "unattributed_ms")
    return {
        "blocked": blocked,
        "dns": _known(row, "dns_ms"),
        "connect": _known(row, "connect_ms", "tls_ms"),
        "ssl": _known(row, "tls_ms"),
        "send": max(_known(row, "send_ms"), 0.0),
        "wait": max(_known(row, "wait_ms"), 0.0),
        "receive": max(_known(row, "receive_ms", "reader_lag_ms"), 0.0),
    }


def _known(row: Mapping[str, Any], *members: str) -> float:
    values = [row[member] for member in members if row[member] is not None]
    return round(sum(values), 6) if values else -1.0


def _sum(timings: Mapping[str, float]) -> float:
    return round(sum(value for name, value in timings.items() if name != "ssl" and value > 0), 6)
