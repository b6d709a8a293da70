# SPDX-License-Identifier: Apache-2.0
"""Lists of the document as Parquet, partitioned as data lakes read it: `LIST/host=NAME/date=YYYY-MM-DD/FILE.parquet`.

`host` is the other end, by the name that the program used, else by its address; `date` is the day in UTC on which the
event began. What is not known is null. A file is named after its recording: writing one again replaces its files and no
others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netdiag.bulk import pack
from netdiag.errors import Unsupported
from netdiag.export.columns import SCHEMAS, Column
from netdiag.export.source import PIECE, Progress, Source, silent
from netdiag.values import clean, dumps, is_unknown, to_bool, to_text, to_texts

__all__ = ["arrow_schema", "file_name", "write"]

_NULL = "__HIVE_DEFAULT_PARTITION__"
"""What stands in a path for a partition without a value: readers take it for null."""
_MOST_NAME, _BEGINNING = 240, 16
_DAY_NS = 86_400_000_000_000
_ROWS = 5 * PIECE


def _arrow() -> Any:
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError as error:
        raise Unsupported("Parquet needs pyarrow", hint="pip install 'netdiag-ebpf[parquet]'") from error
    return pa


def arrow_schema(kind: str) -> Any:
    """Return the schema of the files of a list, without the partitions `host` and `date`."""
    pa = _arrow()
    types = {
        "text": pa.string(),
        "json": pa.string(),
        "int": pa.int64(),
        "ms": pa.float64(),
        "bool": pa.bool_(),
        "instant": pa.timestamp("ns", "UTC"),
        "texts": pa.list_(pa.string()),
    }
    return pa.schema([(column.name, types[column.kind]) for column in SCHEMAS[kind]])


def file_name(source: Source) -> str:
    """Return the name of a recording's files: when it began, and a print of its header."""
    header = source.recording.header
    stamp = pd.Timestamp(source.base_ns, unit="ns").strftime("%Y%m%dT%H%M%SZ")
    told = json.dumps([header.get("clock"), header.get("started"), header.get("host")], sort_keys=True)
    return f"{stamp}-{hashlib.sha256(told.encode()).hexdigest()[:8]}.parquet"


def write(source: Source, folder: Path, progress: Progress = silent) -> list[Path]:
    """Write every list that has rows below `folder`, return the files; OSError where that is impossible."""
    pa, files, name = _arrow(), [], file_name(source)
    for kind in SCHEMAS:
        schema = arrow_schema(kind)
        if not source.count(kind):
            continue
        table = pd.DataFrame(source.findings) if kind == "findings" else source.frame(kind)
        for host, day, rows in _partitions(source, kind, table):
            place = folder / kind / f"host={_piece(host)}" / f"date={day}"
            place.mkdir(parents=True, exist_ok=True)
            whole = place / name
            half = whole.with_suffix(".partial")
            with pa.parquet.ParquetWriter(half, schema, compression="zstd") as out:
                for first in range(0, len(rows), _ROWS):
                    part = table.iloc[rows[first : first + _ROWS]]
                    out.write_table(_table(source, kind, part, schema))
                    progress(kind, min(first + _ROWS, len(rows)), len(rows))
            half.replace(whole)
            files.append(whole)
    return files


def _piece(host: str | None) -> str:
    """Return what stands for a host in a path; of a name longer than file systems take, its beginning and a print."""
    if host is None:
        return _NULL
    name = quote(host, safe="")
    if len(name) > _MOST_NAME:
        name = f"{quote(host[:_BEGINNING], safe='')}~{hashlib.sha256(host.encode()).hexdigest()[:16]}"
    return name or _NULL


def _partitions(source: Source, kind: str, table: pd.DataFrame) -> Iterator[tuple[str | None, str, NDArray[np.int64]]]:
    """Yield host, day and rows by place."""
    codes, names = _hosts(source, kind, table)
    order = sorted(range(len(names)), key=lambda at: (names[at] is None, names[at] or ""))
    rank = np.empty(len(names), np.int64)
    rank[order] = np.arange(len(names))
    days = _days(source, kind, table)
    first = int(days.min(initial=0))
    span = int(days.max(initial=0)) - first + 1
    keys = rank[codes] * span + (days - first)
    for key in np.unique(keys).tolist():
        host, day = names[order[key // span]], str(np.datetime64(first + key % span, "D"))
        yield host, day, np.flatnonzero(keys == key)


def _hosts(source: Source, kind: str, table: pd.DataFrame) -> tuple[NDArray[np.int64], list[str | None]]:
    """Return for each row the number of its host, and the hosts."""
    if kind == "findings":
        return _numbered([subject["host"] or _address(subject["remote"]) for subject in table["subject"]])
    if kind == "connections":
        return _numbered(source.hosts[table.index.to_numpy()].tolist())
    if kind == "resolutions":
        return _numbered(table["name"].tolist())
    if kind == "processes":
        return np.zeros(len(table), np.int64), [None]
    own, said = pd.factorize(table["host" if kind == "requests" else "sni"])
    rows = table["connection"].to_numpy(np.int64)
    ends, others = _numbered(source.hosts.tolist())
    there = np.where(rows >= 0, ends[np.maximum(rows, 0)] if len(ends) else -1, -1)
    codes = np.where(own >= 0, own, np.where(there >= 0, len(said) + there, len(said) + len(others)))
    merged, names = _numbered([*said, *others, None])
    return merged[codes], names


def _numbered(hosts: Sequence[Any]) -> tuple[NDArray[np.int64], list[str | None]]:
    texts = [to_text(host) for host in hosts]
    numbers = {name: at for at, name in enumerate(dict.fromkeys(texts))}
    return np.array([numbers[name] for name in texts], np.int64), list(numbers)


def _address(remote: str | None) -> str | None:
    return None if remote is None else remote.rpartition(":")[0].strip("[]") or None


def _days(source: Source, kind: str, table: pd.DataFrame) -> NDArray[np.int64]:
    """Return for each row the day on which it began, since 1970."""
    first = source.base_ns // _DAY_NS
    start = {"findings": None, "connections": "opened_ns"}.get(kind, "started_ns")
    if start is None:
        return np.full(len(table), first, np.int64)
    at = table[start].to_numpy(np.float64)
    known = np.isfinite(at)
    began = (source.base_ns + np.where(known, at, 0.0).round().astype(np.int64)) // _DAY_NS
    return np.where(known, began, np.int64(first))


# --- columns ----------------------------------------------------------------------------------------------------------


def _table(source: Source, kind: str, part: pd.DataFrame, schema: Any) -> Any:
    pa = _arrow()
    arrays = [
        _array(source, kind, column, part, field.type) for column, field in zip(SCHEMAS[kind], schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _array(source: Source, kind: str, column: Column, part: pd.DataFrame, type_: Any) -> Any:
    if kind in pack.PACKED and pack.is_packed(part):
        return _packed(source, kind, column, part, type_)
    pa = _arrow()
    if column.source == "connection":
        rows, count = part["connection"].tolist(), len(source.ids)
        return pa.array([source.ids[row]["id"] if 0 <= row < count else None for row in rows], type_)
    if column.source == "stalls":
        found = [source.stalls.get(row) for row in part.index.tolist()]
        return pa.array([None if stalls is None else dumps(clean(list(stalls))) for stalls in found], type_)
    head, _, member = column.source.partition(".")
    if head not in part:
        return pa.nulls(len(part), type_)
    values = part[head]
    if not member and column.kind in {"ms", "int", "instant"} and values.dtype.kind in "fiu":
        return _numbers(source, column.kind, values.to_numpy(), type_)
    cells = values.tolist()
    if member:
        cells = [cell.get(member) if isinstance(cell, Mapping) else None for cell in cells]
    convert = _CELLS[column.kind]
    return pa.array([convert(cell) for cell in cells], type_)


def _packed(source: Source, kind: str, column: Column, part: pd.DataFrame, type_: Any) -> Any:
    """Return a column of a packed table: each category is converted once."""
    pa = _arrow()
    if column.source in {"id", "connection"}:
        rows = part.index.to_numpy() if column.source == "id" else part["connection"].to_numpy(np.int64)
        letter = pack.NUMBERED["connections" if column.source == "connection" else kind]
        known = (rows >= 0) & ((column.source == "id") | (rows < len(source.ids)))
        return pa.array([f"{letter}{row + 1}" for row in rows.tolist()], type_, mask=~known)
    if column.source not in part:
        return pa.nulls(len(part), type_)
    values = part[column.source].array
    if isinstance(values, pd.Categorical):
        convert = _CELLS[column.kind]
        told = pa.array([convert(cell) for cell in pack.categories(values)], type_)
        return told.take(pa.array(values.codes, pa.int64(), mask=values.codes < 0))
    numbers = np.asarray(values)
    if column.kind == "bool":
        return pa.array(numbers, type_)
    return _numbers(source, column.kind, numbers.astype(np.float64) if numbers.dtype.kind == "f" else numbers, type_)


def _numbers(source: Source, kind: str, values: Any, type_: Any) -> Any:
    pa = _arrow()
    known = np.isfinite(values)
    filled = np.where(known, values, 0)
    if kind == "ms":
        filled = filled.astype(np.float64).round(6)
    elif kind == "instant":
        filled = source.base_ns + filled.round().astype(np.int64)
    else:
        filled = filled.astype(np.int64)
    return pa.array(filled, type_, mask=~known)


def _ms(value: Any) -> float | None:
    return None if is_unknown(value) else round(float(value), 6)


def _int(value: Any) -> int | None:
    return None if is_unknown(value) else int(value)


def _json(value: Any) -> str | None:
    return None if is_unknown(value) else dumps(clean(value))


_CELLS: Mapping[str, Any] = {
    "text": to_text,
    "json": _json,
    "int": _int,
    "ms": _ms,
    "bool": to_bool,
    "texts": to_texts,
}
