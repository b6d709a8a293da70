# SPDX-License-Identifier: Apache-2.0
"""One list of the document as CSV (RFC 4180): a row an event, nested members as `remote_ip`, unknown as empty."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

from netdiag.render import Options
from netdiag.values import dumps

__all__ = ["cell", "flat", "render"]

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for a formula when a text starts with it."""


def render(document: Mapping[str, Any], options: Options) -> str:
    """Return the list `options.rows` with a head line; only the head line where the list is empty."""
    rows = [dict(flat(row)) for row in document[options.rows]]
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(names or [f"no {options.rows}"])
    writer.writerows([cell(row.get(name)) for name in names] for row in rows)
    return out.getvalue()


def flat(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the members of a row, those of nested objects as `outer_inner`."""
    for key, value in row.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{key}_")
        else:
            yield f"{prefix}{key}", value


def cell(value: Any) -> str | int | float:
    """Return what stands for a value: empty for unknown, lists as JSON, nothing that a spreadsheet would compute."""
    if value is None or value in ({}, []):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return dumps(value)
    if isinstance(value, str):
        text = dumps(value)[1:-1].replace('\\"', '"').replace("\\\\", "\\")  # control characters stay escaped
        return f"'{text}" if text.startswith(_FORMULA) else text
    return value if isinstance(value, int | float) else str(value)
