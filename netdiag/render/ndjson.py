# SPDX-License-Identifier: Apache-2.0
"""The document as lines of JSON: `trace` first, then an event a line with its `kind`, `summary` last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from netdiag.render import Options
from netdiag.values import dumps

__all__ = ["render"]

_KINDS = (
    ("processes", "process"),
    ("resolutions", "resolution"),
    ("connections", "connection"),
    ("handshakes", "handshake"),
    ("requests", "request"),
    ("findings", "finding"),
    ("ignored", "ignored"),
)


def render(document: Mapping[str, Any], options: Options) -> str:  # noqa: ARG001 - the one signature of renderers
    """Return one JSON object a line, each with `kind`."""
    return "".join(f"{dumps(line)}\n" for line in _lines(document))


def _lines(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    lists = {name for name, _ in _KINDS}
    head = {key: value for key, value in document.items() if key not in lists and key != "summary"}
    yield {"kind": "trace", **head}
    for name, kind in _KINDS:
        for row in document[name]:
            yield {"kind": kind, **row}
    yield {"kind": "summary", **document["summary"]}
