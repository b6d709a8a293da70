# SPDX-License-Identifier: Apache-2.0
"""One trace as plain JSON values: the document `netdiag.trace/1`, which every renderer and every program reads.

Pure: a recording, its tables and findings in, a dictionary out. Unknown is None, never 0, -1 or ""; no NaN and no
infinity leaves this module; instants are RFC 3339 in UTC with nine digits, on the clock pair of the recording's header,
so that the difference of two instants is time that really passed even where somebody set the wall clock in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import pandas as pd

from netdiag import __version__
from netdiag.findings import Finding
from netdiag.summary import summarize
from netdiag.tables.library import tls_libraries
from netdiag.values import (
    Convert,
    clean,
    clean_list,
    instants,
    is_unknown,
    rfc3339,
    to_bool,
    to_int,
    to_list,
    to_mapping,
    to_ms,
    to_object,
    to_object_or_empty,
    to_text,
    to_texts,
)

__all__ = ["SCHEMA", "Source", "Traced", "build", "event_rows"]

SCHEMA = "netdiag.trace/1"
"""Name and major version of the document: within a major version fields are only added."""

_NS_PER_MS = 1_000_000


class Source(Protocol):
    """What this module needs of a recording."""

    @property
    def header(self) -> Mapping[str, Any]:
        """The header JSON of the file."""

    @property
    def facts(self) -> Sequence[Mapping[str, Any]]:
        """The facts in the order in which they were written."""

    @property
    def end(self) -> Mapping[str, Any] | None:
        """`exit_reason` and `at_ns`, or None where the recording has no end block."""

    @property
    def truncated_at(self) -> int | None:
        """Byte offset after which the file could not be read, or None."""


class Traced(Protocol):
    """What this module needs of the tables."""

    @property
    def connections(self) -> pd.DataFrame:
        """One row a connection."""

    @property
    def requests(self) -> pd.DataFrame:
        """One row a request."""

    @property
    def handshakes(self) -> pd.DataFrame:
        """One row a handshake."""

    @property
    def processes(self) -> pd.DataFrame:
        """One row a process."""

    @property
    def span_ms(self) -> float:
        """Length of the trace."""

    @property
    def losses(self) -> Sequence[Any]:
        """`probe`, `seen`, `lost` of each ring."""


Spec: TypeAlias = tuple[tuple[str, str, Convert], ...]
"""Key in the document, column of the table, conversion; a missing column is unknown in every row."""


def build(
    recording: Source,
    tables: Traced,
    findings: Iterable[Finding],
    *,
    ignored: Sequence[Mapping[str, Any]] = (),
    failures: Sequence[tuple[str, str]] = (),
    stalls: Mapping[int, Sequence[Mapping[str, object]]] | None = None,
) -> dict[str, Any]:
    """Return the document `netdiag.trace/1` of one recording.

    `stalls` are those of streams, by row of requests, as `analysis.examine` tells them.
    `ignored` are findings that the configuration silences, as `{code, cause, severity, reason, expires}`.
    `failures` are analyses that could not judge these tables, and why: coverage says so. Where the
    recording lies is no part of the document: the same recording gives the same bytes.
    """
    header = recording.header
    base_ns = int(to_mapping(header.get("clock")).get("realtime_ns") or 0)
    instant = instants(base_ns)
    connections = _connections(tables, instant)
    handshakes = _handshakes(tables, instant, connections)
    requests = _requests(tables, instant, connections)
    for row, found in (stalls or {}).items():
        if requests[row]["stream"] is not None:
            requests[row]["stream"]["stalls"] = [clean(dict(stall)) for stall in found]
    resolutions = _rows(getattr(tables, "resolutions", None), _resolution_spec(instant))
    document = {
        "schema": SCHEMA,
        "version": __version__,
        "started": rfc3339(base_ns),
        "duration_ms": to_ms(tables.span_ms),
        "exit_reason": _exit_reason(recording),
        "truncated_at": recording.truncated_at,
        "host": _host(header),
        "target": clean(dict(to_mapping(header.get("target")))),
        "command": _command(recording, tables),
        "coverage": _coverage(recording, tables, failures),
        "processes": _by_time(_rows(tables.processes, _process_spec(instant)), "started"),
        "resolutions": _by_time(resolutions, "started"),
        "connections": _by_time(connections, "opened"),
        "handshakes": _by_time(handshakes, "started"),
        "requests": _by_time(requests, "started"),
        "findings": [clean(finding.to_json()) for finding in findings],
        "ignored": [clean(dict(entry)) for entry in ignored],
    }
    document["summary"] = summarize(document)
    return document


# --- lists of events ----------------------------------------------------------------------------------------------


def event_rows(kind: str, tables: Traced, base_ns: int, ids: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one list of the document, in the order of the table, which may be a part of the whole one.

    `base_ns` is the header's realtime clock; `ids` has for each connection of all an object with its `id`.
    """
    instant = instants(base_ns)
    if kind == "connections":
        return _connections(tables, instant)
    if kind == "handshakes":
        return _handshakes(tables, instant, ids)
    if kind == "requests":
        return _requests(tables, instant, ids)
    spec = {"resolutions": _resolution_spec, "processes": _process_spec}[kind]
    return _rows(getattr(tables, kind, None), spec(instant))


def _rows(frame: pd.DataFrame | None, spec: Spec) -> list[dict[str, Any]]:
    """Return one dictionary a row, with every key of `spec`."""
    if frame is None or not len(frame):
        return []
    unknown = [None] * len(frame)
    columns = [
        list(map(convert, frame[column].tolist() if column in frame else unknown)) for _, column, convert in spec
    ]
    keys = [key for key, _, _ in spec]
    return [dict(zip(keys, values, strict=True)) for values in zip(*columns, strict=True)]


def _by_time(rows: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """Sort by instant; unknown instants, which lie before the trace, come first."""
    return sorted(rows, key=lambda row: row[key] or "")


def _process_spec(instant: Convert) -> Spec:
    return (
        ("pid", "pid", to_int),
        ("ppid", "ppid", to_int),
        ("exe", "exe", to_text),
        ("comm", "comm", to_text),
        ("argv", "argv", to_texts),
        ("container", "container", to_text),
        ("pod", "pod", to_text),
        ("cgroup", "cgroup", to_text),
        ("started", "started_ns", instant),
        ("ended", "ended_ns", instant),
        ("exit_code", "exit_code", to_int),
        ("libraries", "libraries", clean_list),
    )


def _resolution_spec(instant: Convert) -> Spec:
    return (
        ("id", "id", to_text),
        ("pid", "pid", to_int),
        ("tid", "tid", to_int),
        ("name", "name", to_text),
        ("qtype", "qtype", to_text),
        ("source", "source", to_text),
        ("started", "started_ns", instant),
        ("duration_ms", "duration_ms", to_ms),
        ("answers", "answers", to_list),
        ("error", "error", to_text),
        ("server", "server", to_text),
        ("transport", "transport", to_text),
        ("ttl_s", "ttl_s", to_ms),
        ("truncated", "truncated", to_bool),
        ("attempts", "attempts", to_int),
    )


def _connections(tables: Traced, instant: Convert) -> list[dict[str, Any]]:
    spec: Spec = (
        ("id", "id", to_text),
        ("cookie", "cookie", to_int),
        ("pid", "pid", to_int),
        ("tid", "tid", to_int),
        ("comm", "comm", to_text),
        ("role", "role", to_text),
        ("netns", "netns", clean),
        ("family", "family", to_text),
        ("protocol", "protocol", to_text),
        ("local", "local_ip", to_text),
        ("remote", "remote_ip", to_text),
        ("opened", "opened_ns", instant),
        ("closed", "ended_ns", instant),
        ("preexisting", "preexisting", to_bool),
        ("outcome", "outcome", to_text),
        ("error", "error", to_text),
        ("connect_ms", "connect_ms", to_ms),
        ("syn_retransmits", "syn_retransmits", to_int),
        ("bytes_sent", "bytes_sent", to_int),
        ("bytes_received", "bytes_received", to_int),
        ("rtt_ms", "rtt_ms", to_ms),
        ("min_rtt_ms", "min_rtt_ms", to_ms),
        ("retransmits", "retransmits", to_int),
        ("keepalive_probes", "keepalive_probes", to_bool),
        ("closing", "closing_ns", instant),
        ("closed_by", "closed_by", to_text),
        ("close", "close", to_text),
        ("idle_before_close_ms", "idle_before_close_ms", to_ms),
        ("requests", "requests", to_int),
        ("handshake", "handshake", to_text),
        ("encrypted", "encrypted", to_bool),
        ("zero_window_ms", "zero_window_ms", to_ms),
        ("unread_bytes", "unread", to_int),
        ("local_port", "local_port", to_int),
        ("remote_port", "remote_port", to_int),
        ("remote_name", "remote_name", to_text),
    )
    rows = _rows(tables.connections, spec)
    for row in rows:
        row["local"] = {"ip": row["local"], "port": row.pop("local_port")}
        row["remote"] = {"ip": row["remote"], "port": row.pop("remote_port"), "name": row.pop("remote_name")}
    return rows


def _connection_ids(connections: Sequence[Mapping[str, Any]]) -> Convert:
    """Return the conversion of a row number in the table of connections into the connection's id."""

    def convert(value: Any) -> str | None:
        if isinstance(value, str) or is_unknown(value):
            return to_text(value)
        row = int(value)
        return connections[row]["id"] if 0 <= row < len(connections) else None

    return convert


def _handshakes(tables: Traced, instant: Convert, connections: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    spec: Spec = (
        ("id", "id", to_text),
        ("connection", "connection", _connection_ids(connections)),
        ("pid", "pid", to_int),
        ("library", "library", to_text),
        ("started", "started_ns", instant),
        ("duration_ms", "duration_ms", to_ms),
        ("outcome", "outcome", to_text),
        ("alert", "alert", to_text),
        ("version", "version", to_text),
        ("cipher", "cipher", to_text),
        ("group", "group", to_text),
        ("sni", "sni", to_text),
        ("alpn_offered", "alpn_offered", to_texts),
        ("alpn", "alpn", to_text),
        ("offered", "offered", to_text),
        ("resumed", "resumed", to_bool),
        ("early_data", "early_data", to_text),
        ("hello_retry", "hello_retry", to_bool),
        ("client_hello_bytes", "client_hello_bytes", to_int),
        ("server_flight_bytes", "server_flight_bytes", to_int),
        ("certificate_count", "certificate_count", to_int),
        ("tickets_issued", "tickets_issued", to_int),
        ("network_ms", "network_ms", to_ms),
        ("server_ms", "server_ms", to_ms),
        ("client_ms", "client_ms", to_ms),
        ("source", "source", to_text),
    )
    return _rows(getattr(tables, "handshakes", None), spec)


def _requests(tables: Traced, instant: Convert, connections: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    spec: Spec = (
        ("id", "id", to_text),
        ("connection", "connection", _connection_ids(connections)),
        ("stream_id", "stream_id", to_int),
        ("pid", "pid", to_int),
        ("protocol", "protocol", to_text),
        ("sequence", "sequence", to_int),
        ("reused", "reused", to_bool),
        ("idle_before_ms", "idle_before_ms", to_ms),
        ("method", "method", to_text),
        ("host", "host", to_text),
        ("path", "path", to_text),
        ("status", "status", to_int),
        ("headers", "headers", to_object_or_empty),
        ("request_headers", "request_headers", to_object_or_empty),
        ("request_bytes", "request_bytes", to_int),
        ("response_bytes", "response_bytes", to_int),
        ("error", "error", to_text),
        ("started", "started_ns", instant),
        ("dns_ms", "dns_ms", to_ms),
        ("connect_ms", "connect_ms", to_ms),
        ("client_setup_ms", "client_setup_ms", to_ms),
        ("tls_ms", "tls_ms", to_ms),
        ("queue_ms", "queue_ms", to_ms),
        ("send_ms", "send_ms", to_ms),
        ("wait_ms", "wait_ms", to_ms),
        ("receive_ms", "receive_ms", to_ms),
        ("reader_lag_ms", "reader_lag_ms", to_ms),
        ("unattributed_ms", "unattributed_ms", to_ms),
        ("total_ms", "total_ms", to_ms),
        ("server_reported_ms", "server_reported_ms", to_ms),
        ("attempt", "attempt", to_int),
        ("retry_of", "retry_of", to_text),
        ("stream", "stream", to_object),
        ("model", "model", to_text),
        ("stream_asked", "stream_asked", to_bool),
        ("response_format", "response_format", to_text),
        ("input_tokens", "input_tokens", to_int),
        ("cached_tokens", "cached_tokens", to_int),
        ("output_tokens", "output_tokens", to_int),
        ("reasoning_tokens", "reasoning_tokens", to_int),
        ("blocked_ms", "blocked_ms", to_ms),
        ("source", "source", to_text),
        ("complete", "complete", to_bool),
    )
    return _rows(tables.requests, spec)


# --- the head of the document -------------------------------------------------------------------------------------


def _facts(recording: Source, kind: str) -> list[Mapping[str, Any]]:
    return [fact for fact in recording.facts if fact.get("kind") == kind]


def _last(recording: Source, kind: str) -> Mapping[str, Any]:
    facts = _facts(recording, kind)
    return facts[-1] if facts else {}


def _exit_reason(recording: Source) -> str | None:
    if recording.end is not None:
        return to_text(recording.end.get("exit_reason"))
    if recording.truncated_at is not None:
        return f"the recording breaks off at byte {recording.truncated_at}"
    return "unknown: the recording has no end, because it is still written or its recorder was killed"


def _host(header: Mapping[str, Any]) -> dict[str, Any] | None:
    host = header.get("host")
    if not isinstance(host, Mapping):
        return None
    return {
        "kernel": to_text(host.get("kernel")),
        "arch": to_text(host.get("arch")),
        "btf": to_bool(host.get("btf")),
        "cpus": to_int(host.get("cpus")),
    }


def _command(recording: Source, tables: Traced) -> dict[str, Any] | None:
    fact = _last(recording, "command")
    header = to_mapping(recording.header.get("command"))
    argv = fact.get("argv") or header.get("argv")
    if argv is None:
        return None
    return {
        "argv": to_texts(argv),
        "exit_status": to_int(fact.get("exit_status")),
        "duration_ms": _ran_ms(recording, tables),
    }


def _ran_ms(recording: Source, tables: Traced) -> float | None:
    """Return for how long CMD ran: it starts when all is armed, which the trace began to do before."""
    first = _facts(recording, "command")[:1]
    clock = to_mapping(recording.header.get("clock")).get("monotonic_ns")
    if not first or type(clock) is not int or type(first[0].get("armed_ns")) is not int:
        return None
    own = tables.processes[tables.processes["pid"] == first[0].get("pid")]
    ended = to_ms(own["ended_ns"].max() / 1e6) if len(own) else None
    ran = None if ended is None else ended - (first[0]["armed_ns"] - clock) / 1e6
    return to_ms(ran) if ran is None or ran >= 0 else None


def _pick(entries: Any, keys: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the entries with just these keys, each there."""
    if not isinstance(entries, list | tuple):
        return []
    known = [entry for entry in entries if isinstance(entry, Mapping)]
    return [{key: (to_int if key == "pid" else to_text)(entry.get(key)) for key in keys} for entry in known]


def _coverage(recording: Source, tables: Traced, failures: Sequence[tuple[str, str]]) -> dict[str, Any]:
    fact, cost = _last(recording, "coverage"), _last(recording, "cost")
    return {
        "tier": to_text(fact.get("tier") or recording.header.get("tier")),
        "probes": _pick(fact.get("probes"), ("name", "state", "reason", "remedy")),
        "tls_libraries": _pick(
            tls_libraries(_facts(recording, "tls_library"), tables.handshakes),
            ("pid", "path", "library", "version", "how"),
        ),
        "events": [
            {"probe": to_text(loss.probe), "seen": to_int(loss.seen), "lost": to_int(loss.lost)}
            for loss in tables.losses
        ],
        "unobservable": [
            *_pick(fact.get("unobservable"), ("pid", "what", "why")),
            *_pick(getattr(tables, "unobservable", ()), ("pid", "what", "why")),
            *({"pid": None, "what": f"the verdict of {name}", "why": to_text(why)} for name, why in failures),
        ],
        "cost": _cost(cost, to_ms(tables.span_ms)),
        "clock_moved_ms": _clock_moved(recording),
    }


def _cost(cost: Mapping[str, Any], span_ms: float | None) -> dict[str, float | None]:
    kernel_ms = to_ms(cost.get("kernel_ms"))
    # A hostile recording may say anything: a share that is no number is unknown.
    share = None if kernel_ms is None or not span_ms else to_ms(1000 * (kernel_ms / span_ms))
    return {
        "recorder_cpu_ms": to_ms(cost.get("recorder_cpu_ms")),
        "kernel_ms": kernel_ms,
        "per_mille_of_target": share,
    }


def _clock_moved(recording: Source) -> float | None:
    """Return by how many milliseconds the wall clock was moved while tracing, at most; None where nobody looked."""
    pairs = [to_mapping(recording.header.get("clock")), *_facts(recording, "clock")]
    try:
        offsets = [int(pair["realtime_ns"]) - int(pair["monotonic_ns"]) for pair in pairs]
    except (KeyError, TypeError, ValueError):
        return None
    if len(offsets) < 2:
        return None
    return round(max(abs(offset - offsets[0]) for offset in offsets) / _NS_PER_MS, 3)
