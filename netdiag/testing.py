# SPDX-License-Identifier: Apache-2.0
"""Builders for tests: rows of tables, whole tables, recordings with the real layouts. Product code imports none of it.

Instants are given in milliseconds since the start of the trace, because that is how one thinks of them.
"""

from __future__ import annotations

import os
import re
import struct
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from netdiag.addresses import from_text
from netdiag.assets import data_dir
from netdiag.btf import StructLayout
from netdiag.recording.format import Field, FieldKind, StreamLayout
from netdiag.recording.reader import Recording, Records, dtype_of, read
from netdiag.recording.writer import RecordingWriter
from netdiag.tables.model import Loss, Tables
from netdiag.tables.schema import COLUMNS, frame

__all__ = [
    "START_NS",
    "Call",
    "RecordingBuilder",
    "burst",
    "chunk",
    "connection",
    "header",
    "layout",
    "look",
    "process",
    "record",
    "records_of",
    "request",
    "struct_layout",
    "tables",
]

START_NS = 1_000_000_000_000
"""CLOCK_MONOTONIC instant at which built recordings start."""

_REALTIME_NS = 1_790_000_000_000_000_000
_STREAMS = {
    "tcp": (1, "tcp_event"),
    "tcp_io": (2, "tcp_io_event"),
    "process": (3, "process_event"),
    "tls_record": (4, "tls_record_event"),
}
_WHERE_USED = {
    "tls_call": (6, "tls_call_event"),
    "http_request": (7, "http_request_event"),
    "http_chunk": (8, "http_chunk_event"),
    "plain": (11, "plain_event"),
    "plain_large": (12, "plain_large_event"),
    "name_lookup": (9, "name_lookup_event"),
    "dns_message": (10, "dns_message_event"),
    "weights_thread": (20, "weights_thread_event"),
    "weights_file": (21, "weights_file_event"),
    "weights_request": (22, "weights_request_event"),
    "weights_path": (23, "weights_path_event"),
}
"""Streams of probes that a trace may leave out: a built recording knows of one when it has records of it."""
_SIZES = {"__u8": 1, "__u16": 2, "__u32": 4, "__u64": 8, "__s32": 4, "char": 1}
_TYPEDEF = re.compile(r"typedef (\w+) (nd_\w+);")
_MEMBER = re.compile(r"(\w+) (\w+)(?:\[(\d+)\])?;")
_MACRO = re.compile(r"#define (ND_\w+_HEAD)((?:.*\\\n)+.*)")
"""Members that several structs have."""
_NUMBER = re.compile(r"#define (ND_\w+_BYTES) (\d+)\n")
_RING_HEADER = struct.Struct("<II")

Call = tuple[str, float, int]
"""One call: `send` or `receive`, milliseconds, bytes."""


# --- layouts ------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def struct_layout(name: str) -> StructLayout:
    """Return the layout of a record's struct, read from the C header, so that no compiler is needed."""
    folder = data_dir("bpf") / "include" / "netdiag"
    types = dict.fromkeys(("nd_addr",), "char16") | {
        alias: base for base, alias in _TYPEDEF.findall((folder / "types.h").read_text())
    }
    text = "".join(path.read_text() for path in sorted(folder.glob("*.h")))
    body = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    for macro, value in [*_MACRO.findall(body), *_NUMBER.findall(body)]:
        body = body.replace(macro, value.replace("\\", ""))
    match = re.search(rf"struct {name} \{{(.*?)\}};", body, flags=re.DOTALL)
    if match is None:
        raise KeyError(name)
    fields, offset = [], 0
    for type_, member, count in _MEMBER.findall(match[1]):
        size = 16 if type_ == "nd_addr" else _SIZES[types.get(type_, type_)] * int(count or 1)
        fields.append(Field(name=member, type=type_, offset=offset, size=size, kind=_kind(type_, types, count)))
        offset += size
    return StructLayout(name=name, size=offset, fields=tuple(fields))


def _kind(type_: str, types: Mapping[str, str], count: str) -> FieldKind:
    if type_ == "char":
        return FieldKind.CHAR
    if type_ == "nd_addr" or count:
        return FieldKind.BYTES
    return FieldKind.INT if types.get(type_, type_).startswith("__s") else FieldKind.UINT


def layout(stream: str) -> StreamLayout:
    """Return the layout of a stream, `tcp`, `tcp_io`, `process` or `tls_record`, as a recording tells it."""
    number, name = {**_STREAMS, **_WHERE_USED}[stream]
    return struct_layout(name).in_ring(stream=number, name=stream)


# --- recordings ---------------------------------------------------------------------------------------------------


def records_of(recording: Recording, stream: str) -> Records:
    """Return the records of a stream that the recording has; KeyError when it has not."""
    records = recording.records(stream)
    if records is None:
        raise KeyError(stream)
    return records


def header(**members: Any) -> dict[str, Any]:
    """Return the header of a recording; `members` replace what is there."""
    clock = {"monotonic_ns": START_NS, "realtime_ns": _REALTIME_NS, "boottime_ns": START_NS}
    host = {"kernel": "6.1.0", "arch": "x86_64", "btf": True, "cpus": 2, "hz": 250}
    default = {"version": "0.1.0", "started": "2026-09-21T14:13:20.000000000Z", "clock": clock, "host": host}
    return {**default, "target": {}, "command": None, "tier": "btf", **members}


class RecordingBuilder:
    """Collects records and facts, and writes them with the real writer."""

    def __init__(self, **members: Any) -> None:
        """`members` replace those of the header."""
        self._header = header(**members)
        self._blocks: list[tuple[str, str, Any]] = []
        self._cookies = 0

    def record(self, stream: str, /, **members: Any) -> RecordingBuilder:
        """Add a raw record; members that are not given are zero. Addresses are text, instants raw nanoseconds."""
        self._blocks.append(("record", stream, members))
        return self

    def fact(self, kind: str, **members: Any) -> RecordingBuilder:
        """Add a fact."""
        self._blocks.append(("fact", kind, members))
        return self

    def process(self, pid: int, *, parent: int = 1, exe: str = "/usr/bin/python3", at: float = 0) -> RecordingBuilder:
        """Add the first meeting with a process, and what user space found out about it."""
        self.record("process", time=_ns(at), tgid=pid, parent=parent, kind=1, comm="python3", filename=exe)
        return self.fact("process", pid=pid, ppid=parent, exe=exe, comm="python3", started_ns=_ns(at))

    def connection(
        self,
        calls: Iterable[Call],
        *,
        opened: float = 0,
        closed: tuple[str, float] | None = None,
        close: str = "fin",
        **members: Any,
    ) -> RecordingBuilder:
        """Add an established connection: its calls, then its end, as (`local` or `remote`, ms), or a last look.

        `members` replace those of the last record, which are a client's of pid 100 on loopback.
        """
        self._cookies += 1
        calls = list(calls)
        last = max([opened, *(at for _, at, _ in calls), *((closed[1],) if closed else ())])
        event: dict[str, Any] = {
            "cookie": self._cookies, "netns": 1, "family": 2, "role": 1, "tgid": 100, "tid": 100, "comm": "python3",
            "saddr": "127.0.0.1", "sport": 40000 + self._cookies, "daddr": "127.0.0.1", "dport": 8080,
            "opened": _ns(opened), "established": _ns(opened + 0.1), "srtt": 100, "min_rtt": 50, "mss": 32768,
            **_counters(calls), "kind": 3 if closed else 4, "state": 4 if closed else 1, "time": _ns(last + 0.01),
        }  # fmt: skip
        if closed:
            event |= {"closing": _ns(closed[1]), "closed_by": {"local": 1, "remote": 2}[closed[0]]}
            event["close"] = {"fin": 1, "rst": 2, "timeout": 3}[close]
        event |= members
        for direction, at, size in calls:
            self.call(members.get("cookie", self._cookies), direction, at, size, pid=event["tgid"], tid=event["tid"])
        return self.record("tcp", **event)

    def call(self, cookie: int, direction: str, at: float, size: int, **members: Any) -> RecordingBuilder:
        """Add a burst of one call; `members` replace those of the record."""
        pid, tid = members.pop("pid", 100), members.pop("tid", 100)
        receive = direction == "receive"
        event = {
            "cookie": cookie, "time": _ns(at), "began": _ns(at), "ended": _ns(at), "bytes": size, "first_bytes": size,
            "calls": 1, "direction": 2 if receive else 1, "arrived": _ns(at - 0.01) if receive else 0,
            "max_lag": 10 if receive else 0, "tgid": pid, "tid": tid,
        }  # fmt: skip
        return self.record("tcp_io", **(event | members))

    def wire(
        self, cookie: int, direction: str, at: float, kind: int, length: int = 0, first: int = 0
    ) -> RecordingBuilder:
        """Add the header of a TLS record: its content type, the length of its fragment, the fragment's first byte."""
        side = {"send": 1, "receive": 2}[direction]
        members = {"cookie": cookie, "time": _ns(at), "direction": side, "type": kind, "length": length, "first": first}
        return self.record("tls_record", **members)

    def to_bytes(self, *, end: str | None = "command ended", end_at: float = 10_000) -> bytes:
        """Return the recording; `end` None leaves out the last block, as a crash would."""
        with tempfile.TemporaryFile() as file:
            writer = RecordingWriter(file.fileno(), self._header)
            used = {name for what, name, _ in self._blocks if what == "record"}
            for stream in (*_STREAMS, *(name for name in _WHERE_USED if name in used)):
                writer.layout(layout(stream).stream, layout(stream))
            for what, name, members in self._blocks:
                if what == "fact":
                    writer.fact(name, members)
                else:
                    writer.records(layout(name).stream, [_pack(layout(name), members)])
            if end is not None:
                writer.end(end, _ns(end_at))
            return os.pread(file.fileno(), writer.size, 0)

    def recording(self, *, end: str | None = "command ended", end_at: float = 10_000) -> Recording:
        """Return the recording as its reader gives it."""
        return read(self.to_bytes(end=end, end_at=end_at))


def _ns(ms: float) -> int:
    return START_NS + round(ms * 1e6)


def _pack(layout_: StreamLayout, members: Mapping[str, Any]) -> bytes:
    array = np.zeros(1, dtype_of(layout_))
    for name, value in members.items():
        cell = array[name][0]
        if array.dtype[name].kind == "S":
            array[name] = value.encode() if isinstance(value, str) else value
        elif isinstance(cell, np.ndarray):
            array[name] = np.frombuffer(from_text(value), "u1") if isinstance(value, str) else value
        else:
            array[name] = value
    data = bytearray(array.tobytes())
    _RING_HEADER.pack_into(data, 0, layout_.size, 0)
    return bytes(data)


def _counters(calls: Sequence[Call]) -> dict[str, int]:
    """Return the cumulative members that these calls lead to."""
    counters: dict[str, int] = {}
    for direction, moved, first, last, count in (
        ("send", "bytes_sent", "first_sent", "last_sent", "sends"),
        ("receive", "bytes_received", "first_received", "last_received", "receives"),
    ):
        mine = [(at, size) for kind, at, size in calls if kind == direction]
        counters |= {moved: sum(size for _, size in mine), count: len(mine)}
        if mine:
            early = 0.01 if direction == "receive" else 0.0
            counters |= {first: _ns(mine[0][0] - early), last: _ns(mine[-1][0] - early)}
    return counters


# --- tables -------------------------------------------------------------------------------------------------------


def connection(**columns: Any) -> dict[str, Any]:
    """Return a row of connections: a client's, established, closed by nobody; `columns` replace what is there.

    Any column that ends in `_ns` may be given in milliseconds by its name with `_at` instead.
    """
    row = {
        "pid": 100.0, "tid": 100.0, "comm": "python3", "role": "client", "netns": 1, "family": "ipv4",
        "protocol": "tcp", "local_ip": "127.0.0.1", "remote_ip": "192.0.2.1", "remote_port": 443.0, "opened_ns": 0.0,
        "established_ns": 1e6, "connect_ms": 1.0, "outcome": "established", "close": "open", "syn_retransmits": 0.0,
        "retransmits": 0.0, "bytes_sent": 0.0, "bytes_received": 0.0, "rtt_ms": 1.0, "min_rtt_ms": 1.0,
        "keepalive_probes": False, "unread": 0.0, "zero_window_ms": 0.0, "peer_window_ms": 0.0, "sends": 0.0,
        "receives": 0.0, "io_pid": 100.0, "io_tid": 100.0, "io_tids": 0.0, "mss": 1448.0,
    }  # fmt: skip
    return row | _in_ns(columns)


def burst(row: int, direction: str, at: float, size: int = 100, **columns: Any) -> dict[str, Any]:
    """Return a row of bursts: one call of a connection (its row number) at `at` milliseconds."""
    default = {
        "connection": row, "direction": direction, "began_ns": at * 1e6, "ended_ns": at * 1e6, "bytes": float(size),
        "calls": 1.0, "first_bytes": float(size), "pid": 100.0, "tid": 100.0,
    }  # fmt: skip
    if direction == "receive":
        default |= {"arrived_ns": at * 1e6, "max_lag_ms": 0.0}
    return default | _in_ns(columns)


def request(row: int, at: float, wait_ms: float = 100.0, **columns: Any) -> dict[str, Any]:
    """Return a row of requests: one on a connection (its row number), sent at `at` milliseconds, answered at once."""
    answered = (at + wait_ms) * 1e6
    default = {
        "connection": row, "pid": 100.0, "protocol": "inferred", "source": "sockets", "started_ns": at * 1e6,
        "began_ns": at * 1e6, "sent_ns": at * 1e6, "first_byte_ns": answered, "ended_ns": answered, "send_ms": 0.0,
        "wait_ms": wait_ms, "receive_ms": 0.0, "reader_lag_ms": 0.0, "total_ms": wait_ms, "request_bytes": 100.0,
        "response_bytes": 1000.0,
    }  # fmt: skip
    return default | _in_ns(columns)


def chunk(request_row: int, at: float, kind: str | None = "content", **columns: Any) -> dict[str, Any]:
    """Return a row of chunks: a piece of a streamed answer (row number of its request), read as it came at `at` ms."""
    tokens = 1.0 if kind in {"content", "reasoning"} else 0.0
    default = {"request": request_row, "at_ns": at * 1e6, "read_ns": at * 1e6, "bytes": 60.0, "kind": kind}
    return default | {"tokens": tokens, "events": 1.0} | _in_ns(columns)


def record(row: int, direction: str, at: float, length: int = 100, **columns: Any) -> dict[str, Any]:
    """Return a row of records: application data on a connection (its row number) at `at` milliseconds."""
    default = {"connection": row, "direction": direction, "at_ns": at * 1e6, "length": length, "type": 23, "version": 3}
    return default | _in_ns(columns)


def look(at: float, pid: int = 100, **columns: Any) -> dict[str, Any]:
    """Return a row of scheduling: what a process had run and waited until `at` milliseconds."""
    return {"pid": pid, "at_ns": at * 1e6, "run_ms": 0.0, "wait_ms": 0.0} | _in_ns(columns)


def process(pid: int = 100, **columns: Any) -> dict[str, Any]:
    """Return a row of processes."""
    return {"pid": pid, "ppid": 1.0, "exe": "/usr/bin/python3", "comm": "python3", "libraries": []} | _in_ns(columns)


def tables(
    *,
    span_ms: float = 10_000.0,
    losses: Sequence[Loss] = (),
    unobservable: Sequence[Mapping[str, Any]] = (),
    truncated: bool = False,
    **rows: Any,
) -> Tables:
    """Return tables from rows by name of the table; connections and requests get ids and numbers that are missing."""
    frames = {name: _frame(name, list(values)) for name, values in rows.items()}
    return Tables(
        **frames, span_ms=span_ms, losses=tuple(losses), unobservable=tuple(unobservable), truncated=truncated
    )


def _in_ns(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {
        (f"{name[:-3]}_ns" if name.endswith("_at") else name): (value * 1e6 if name.endswith("_at") else value)
        for name, value in columns.items()
    }


def _frame(table: str, rows: list[dict[str, Any]]) -> pd.DataFrame:
    rows = [dict(row) for row in rows]
    seen: dict[int, int] = {}
    for number, row in enumerate(rows, 1):
        if table in {"connections", "requests", "handshakes"}:
            row.setdefault("id", f"{table[0]}{number}")
        if table == "connections":
            row.setdefault("cookie", number)
            row.setdefault("local_port", 40000.0 + number)
        if table in {"requests", "turns"}:
            key = "sequence" if table == "requests" else "number"
            seen[row["connection"]] = seen.get(row["connection"], 0) + 1
            row.setdefault(key, seen[row["connection"]])
        if table == "requests":
            row.setdefault("reused", row["sequence"] > 1)
    names = {name for row in rows for name in row}
    return frame(table, len(rows), {name: [row.get(name, _unknown(table, name)) for row in rows] for name in names})


def _unknown(table: str, name: str) -> Any:
    kind = COLUMNS[table].get(name, "object")
    return {"float64": float("nan"), "bool": False, "int64": 0}.get(kind)
