# SPDX-License-Identifier: Apache-2.0
"""Lists of the document as Parquet, partitioned as data lakes read it: `LIST/host=NAME/date=YYYY-MM-DD/FILE.parquet`.

`host` is the other end, by the name that the program used, else by its address; `date` is the day in UTC on which the
event began. What is not known is null. A file is named after its recording: writing one again replaces its files and no
others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd

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
        for host, day, part in _partitions(source, kind):
            place = folder / kind / f"host={_piece(host)}" / f"date={day}"
            place.mkdir(parents=True, exist_ok=True)
            whole = place / name
            half = whole.with_suffix(".partial")
            with pa.parquet.ParquetWriter(half, schema, compression="zstd") as out:
                for first in range(0, len(part), _ROWS):
                    out.write_table(_table(source, kind, part.iloc[first : first + _ROWS], schema))
                    progress(kind, min(first + _ROWS, len(part)), len(part))
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


def _partitions(source: Source, kind: str) -> Iterator[tuple[str | None, str, pd.DataFrame]]:
    """Yield host, day and rows."""
    if not source.count(kind):
        return
    table = pd.DataFrame(source.findings) if kind == "findings" else source.frame(kind)
    hosts = pd.Series(_hosts(source, kind, table), dtype=object).map(to_text)
    days = _days(source, kind, table)
    for (host, day), rows in pd.Series(range(len(table))).groupby([hosts, days], dropna=False, sort=True):
        yield (None if is_unknown(host) else str(host)), str(day), table.iloc[rows.to_numpy()]


def _hosts(source: Source, kind: str, table: pd.DataFrame) -> list[Any]:
    if kind == "findings":
        return [subject["host"] or _address(subject["remote"]) for subject in table["subject"]]
    if kind == "connections":
        return list(source.hosts[table.index.to_numpy()])
    if kind == "resolutions":
        return table["name"].tolist()
    if kind == "processes":
        return [None] * len(table)
    own = table["host" if kind == "requests" else "sni"].tolist()
    rows = table["connection"].to_numpy(np.int64)
    ends = source.hosts[np.maximum(rows, 0)] if len(source.hosts) else np.full(len(table), None, object)
    return [
        mine if mine is not None else other if row >= 0 else None
        for mine, other, row in zip(own, ends.tolist(), rows.tolist(), strict=True)
    ]


def _address(remote: str | None) -> str | None:
    return None if remote is None else remote.rpartition(":")[0].strip("[]") or None


def _days(source: Source, kind: str, table: pd.DataFrame) -> list[str]:
    first = source.base_ns // _DAY_NS
    start = {"findings": None, "connections": "opened_ns"}.get(kind, "started_ns")
    if start is None:
        days = np.full(len(table), first)
    else:
        at = table[start].to_numpy(np.float64)
        known = np.isfinite(at)
        began = (source.base_ns + np.where(known, at, 0.0).round().astype(np.int64)) // _DAY_NS
        days = np.where(known, began, np.int64(first))
    names = {day: str(np.datetime64(int(day), "D")) for day in np.unique(days).tolist()}
    return [names[day] for day in days.tolist()]


# --- columns ----------------------------------------------------------------------------------------------------------


def _table(source: Source, kind: str, part: pd.DataFrame, schema: Any) -> Any:
    pa = _arrow()
    arrays = [_array(source, column, part, field.type) for column, field in zip(SCHEMAS[kind], schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _array(source: Source, column: Column, part: pd.DataFrame, type_: Any) -> Any:
    pa = _arrow()
    if column.source == "connection":
        ids = [entry["id"] for entry in source.ids]
        rows = part["connection"].tolist()
        return pa.array([ids[row] if 0 <= row < len(ids) else None for row in rows], type_)
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
