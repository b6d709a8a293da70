# SPDX-License-Identifier: Apache-2.0
"""Renderers of `netdiag.route/1`: the same formats as for a trace, one module each where the shape differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from netdiag.render import Options
from netdiag.render import csv as rows_as_csv
from netdiag.render import json as as_json
from netdiag.values import dumps

__all__ = ["FORMATS", "hop_rows", "render"]

FORMATS: tuple[str, ...] = ("table", "json", "ndjson", "csv", "markdown", "html")
_MODULES = {"table": "route_table", "markdown": "route_markdown", "html": "route_html"}
_KINDS = (("addresses", "address"), ("pops", "pop"), ("findings", "finding"))


def render(name: str, document: Mapping[str, Any], options: Options) -> str:
    """Return the document in one of `FORMATS`, ending with a line feed; ValueError for another name."""
    if name not in FORMATS:
        raise ValueError(f"no format {name!r}")
    if name == "json":
        return as_json.render(document, options)
    if name == "ndjson":
        return "".join(f"{dumps(line)}\n" for line in _lines(document))
    if name == "csv":
        return rows_as_csv.render({options.rows: list(hop_rows(document))}, options)
    text: str = import_module(f"netdiag.render.{_MODULES[name]}").render(document, options)
    return text if text.endswith("\n") else text + "\n"


def hop_rows(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield one flat row per answering router, or per silent hop."""
    for path in document["paths"]:
        for hop in path["hops"]:
            head = {"target": path["ip"], "protocol": path["protocol"], "ttl": hop["ttl"]}
            for one in hop["responders"] or [{}]:
                place = one.get("place") or {}
                yield {
                    **head,
                    "ip": one.get("ip"),
                    "name": one.get("name"),
                    "asn": one.get("asn"),
                    "as_name": one.get("as_name"),
                    "ixp": one.get("ixp"),
                    "city": place.get("city"),
                    "region": place.get("region"),
                    "confidence": place.get("confidence"),
                    "refuted_by": place.get("refuted_by"),
                    "min_ms": min(one["rtt_ms"]) if one.get("rtt_ms") else None,
                    "probes": hop["probes"],
                    "answers": one.get("answers", 0),
                }


def _lines(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    lists = {name for name, _ in _KINDS} | {"paths", "probes", "knowledge"}
    yield {"kind": "route", **{key: value for key, value in document.items() if key not in lists}}
    for name, kind in _KINDS:
        for row in document[name]:
            yield {"kind": kind, **row}
    for row in hop_rows(document):
        yield {"kind": "hop", **row}
