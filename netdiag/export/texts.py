# SPDX-License-Identifier: Apache-2.0
"""CSV and JSON of a recording, written in pieces."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

from netdiag.export.columns import SCHEMAS
from netdiag.export.source import Progress, Source, silent
from netdiag.render import Options
from netdiag.render import json as as_json
from netdiag.render.csv import cell, flat
from netdiag.values import dumps

__all__ = ["csv_lines", "json_lines"]


def csv_lines(source: Source, kind: str, progress: Progress = silent) -> Iterator[str]:
    """Yield one list as CSV with the columns of its Parquet files; only the head line where it is empty."""
    names = [_csv_name(column.name) for column in SCHEMAS[kind]]
    yield _line(names)
    for piece in source.pieces(kind, progress):
        for row in piece:
            found = dict(flat(row))
            yield _line([cell(found.get(name, row.get(name))) for name in names])


def _csv_name(name: str) -> str:
    return "host" if name == "http_host" else name


def _line(cells: list[Any]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow(cells)
    return out.getvalue()


def json_lines(source: Source, progress: Progress = silent) -> Iterator[str]:
    """Yield the document `netdiag.trace/1`, the same as `netdiag analyze --format json` writes.

    The lists of a long recording, whose tables are packed, are written in pieces.
    """
    if not source.packed:
        yield as_json.render(source.document(), Options())
        return
    document = source.head()
    for place, (key, value) in enumerate(document.items()):
        yield f"{',' if place else '{'}\n{dumps(key)}: "
        if key in source.lists and source.count(key):
            first = True
            for piece in source.pieces(key, progress):
                yield ("[\n" if first else ",\n") + ",\n".join(f"  {dumps(row)}" for row in piece)
                first = False
            yield "\n]"
        else:
            yield as_json.member(value)
    yield "\n}\n"
