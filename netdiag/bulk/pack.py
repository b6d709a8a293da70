# SPDX-License-Identifier: Apache-2.0
"""Tables in a tenth of their memory: the same values in smaller types, and back. Pure.

Numbers go into the smallest float that holds every one of them exactly, texts and flags into categories; members of
streams become columns (`stream.chunks`). Ids that follow from the order of rows are left out and made anew.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netdiag.tables.schema import COLUMNS, objects

__all__ = ["NUMBERED", "PACKED", "STREAM", "categories", "is_packed", "joined", "pack", "unpack"]

STREAM = "stream."
NUMBERED: Mapping[str, str] = {"requests": "r", "connections": "c", "handshakes": "h"}
"""What stands before the number of a row in its id."""
PACKED = frozenset(NUMBERED)
"""The tables that are packed."""
_HALF = 1 << 31
_KINDS: Mapping[str, str] = {
    "kind": "text", "chunks": "int", "first_chunk_ms": "float", "first_token_ms": "float",
    "first_reasoning_ms": "float", "ttft_ms": "float", "gap_p50_ms": "float", "gap_p95_ms": "float",
    "gap_max_ms": "float", "tokens": "int", "finished": "bool",
}  # fmt: skip
"""Members of streams."""


def pack(table: str, rows: pd.DataFrame) -> dict[str, Any]:
    """Return the columns of rows of a table, packed: arrays and categoricals."""
    found: dict[str, Any] = {}
    for name, kind in COLUMNS[table].items():
        if name == "id" and table in NUMBERED:
            continue
        if name == "stream":
            found |= _streams(rows[name].tolist())
        elif kind == "object":
            found[name] = _categories(rows[name].tolist())
        elif kind == "int64":
            found[name] = _whole(rows[name].to_numpy(np.int64))
        elif kind == "float64":
            found[name] = _small(rows[name].to_numpy(np.float64))
        else:
            found[name] = rows[name].to_numpy()
    return found


def joined(parts: Sequence[dict[str, Any]], order: NDArray[np.int64]) -> pd.DataFrame:
    """Return parts as one packed table in this order; the parts are used up."""
    found: dict[str, Any] = {}
    names = list(dict.fromkeys(name for one in parts for name in one))
    for name in names:
        columns = [one.pop(name) for one in parts]
        if isinstance(columns[0], pd.Categorical):
            found[name] = pd.api.types.union_categoricals(columns).take(order)
        else:
            found[name] = np.concatenate(columns)[order]
    return pd.DataFrame(found, columns=names, copy=False)


def is_packed(rows: pd.DataFrame) -> bool:
    """Tell whether these are rows of a packed table: they have no ids."""
    return "id" not in rows.columns


def unpack(table: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of a packed table, its index being their numbers, as the table has them."""
    found: dict[str, Any] = {}
    for name, kind in COLUMNS[table].items():
        if name == "id" and table in NUMBERED:
            found[name] = objects([f"{NUMBERED[table]}{number + 1}" for number in rows.index.tolist()])
        elif name == "stream":
            found[name] = objects(_stream_cells(rows))
        elif kind == "object":
            found[name] = _cells(rows[name].array)
        else:
            found[name] = rows[name].to_numpy(kind)
    return pd.DataFrame(
        {name: pd.Series(values, index=rows.index, dtype=COLUMNS[table][name]) for name, values in found.items()}
    )


def _small(values: NDArray[np.float64]) -> NDArray[Any]:
    """Return numbers in the smallest type that holds them all exactly."""
    known = values[~np.isnan(values)]
    for kind in (np.float16, np.float32):
        with np.errstate(over="ignore"):
            if np.array_equal(known.astype(kind).astype(np.float64), known):
                return values.astype(kind)
    return values


def _whole(values: NDArray[np.int64]) -> NDArray[Any]:
    if len(values) and values.min() >= -_HALF and values.max() < _HALF:
        return values.astype(np.int32)
    return values


def _categories(cells: Sequence[Any]) -> Any:
    codes = np.empty(len(cells), np.int32)
    numbers: dict[Any, int] = {}
    for at, cell in enumerate(cells):
        if cell is None or cell is pd.NA or (isinstance(cell, float) and math.isnan(cell)):
            codes[at] = -1
            continue
        # objects and lists as bytes that only this module makes and reads: no cell of a table is kept as bytes itself
        key = cell if isinstance(cell, str | bool) else pickle.dumps(_plain(cell))
        codes[at] = numbers.setdefault(key, len(numbers))
    return pd.Categorical.from_codes(codes, categories=pd.Index(list(numbers), dtype=object))


def _plain(cell: Any) -> Any:
    return cell.item() if isinstance(cell, np.generic) else cell


def categories(values: pd.Categorical) -> list[Any]:
    """Return what the codes of a packed column stand for."""
    return [
        pickle.loads(key) if isinstance(key, bytes) else key  # noqa: S301 - see `_categories`
        for key in values.categories.tolist()
    ]


def _cells(values: Any) -> NDArray[np.object_]:
    """Return the cells of categories as Python objects, None where there is none."""
    if not isinstance(values, pd.Categorical):
        return objects(list(values))
    told = categories(values)
    table = np.empty(len(told) + 1, object)
    table[:-1] = objects(told)
    table[-1] = None
    return np.asarray(table[values.codes])


def _streams(cells: Sequence[Any]) -> dict[str, Any]:
    there = [cell if isinstance(cell, Mapping) else None for cell in cells]
    found: dict[str, Any] = {f"{STREAM}there": np.array([cell is not None for cell in there], bool)}
    for name, kind in _KINDS.items():
        told = [None if cell is None else cell.get(name) for cell in there]
        if kind in {"text", "bool"}:
            found[STREAM + name] = _categories(told)
        else:
            found[STREAM + name] = _small(np.array([np.nan if one is None else one for one in told], np.float64))
    return found


def _stream_cells(rows: pd.DataFrame) -> list[dict[str, Any] | None]:
    there = rows[f"{STREAM}there"].tolist()
    if not any(there):
        return [None] * len(there)
    columns: list[list[Any]] = []
    for name, kind in _KINDS.items():
        if kind in {"text", "bool"}:
            columns.append(_cells(rows[STREAM + name].array).tolist())
            continue
        values = rows[STREAM + name].to_numpy(np.float64).tolist()
        convert = int if kind == "int" else float
        columns.append([None if math.isnan(value) else convert(value) for value in values])
    found: list[dict[str, Any] | None] = [
        {**dict(zip(_KINDS, cells, strict=True)), "stalls": []} if known else None
        for known, cells in zip(there, zip(*columns, strict=True), strict=True)
    ]
    for cell, source in zip(found, _cells(rows["source"].array).tolist(), strict=True):
        if cell is not None and source == "records":  # what they say is not known, and no member of theirs
            del cell["first_reasoning_ms"]
    return found
