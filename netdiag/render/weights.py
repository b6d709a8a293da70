# SPDX-License-Identifier: Apache-2.0
"""Renderers of `netdiag.weights/1`: the same formats as for a trace, one module each where the shape differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from netdiag.render import Options, weights_markdown, weights_table
from netdiag.render import csv as rows_as_csv
from netdiag.render import json as as_json
from netdiag.values import dumps

__all__ = ["FORMATS", "render"]

FORMATS: tuple[str, ...] = ("table", "json", "ndjson", "csv", "markdown")
_KINDS = {"threads": "thread", "files": "file", "curve": "point", "findings": "finding", "ignored": "ignored"}


def render(name: str, document: Mapping[str, Any], options: Options) -> str:
    """Return the document in one of `FORMATS`, ending with a line feed; ValueError for another name."""
    if name == "table":
        return weights_table.render(document, options)
    if name == "markdown":
        return weights_markdown.render(document, options)
    if name == "json":
        return as_json.render(document, options)
    if name == "ndjson":
        return "".join(f"{dumps(line)}\n" for line in _lines(document))
    if name == "csv":
        rows = [{key: value for key, value in file.items() if key != "tensors"} for file in document["files"]]
        return rows_as_csv.render({options.rows: rows}, options)
    raise ValueError(f"no format {name!r}")


def _lines(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"kind": "weights", **{key: value for key, value in document.items() if key not in (*_KINDS, "summary")}}
    for name, kind in _KINDS.items():
        for row in document[name]:
            yield {"kind": kind, **row}
    yield {"kind": "summary", **document["summary"]}
