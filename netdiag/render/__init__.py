# SPDX-License-Identifier: Apache-2.0
"""Renderers: a document in, text out. Each format is one module with `render(document, options) -> str`.

A module is imported when its format is asked for: a table needs no template engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

__all__ = ["FORMATS", "LISTS", "Options", "render"]

FORMATS: tuple[str, ...] = ("table", "json", "ndjson", "csv", "markdown", "html")
"""One module of this package each; the first is the default of the command line."""

LISTS: tuple[str, ...] = ("connections", "requests", "handshakes", "resolutions", "processes", "findings")
"""The lists of the document that CSV can hold, one at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a reader may choose about the form; no format changes what is said."""

    color: bool = False
    """Escape sequences for colour; `table` only."""
    width: int = 80
    """Columns of a line; `table` only."""
    verbose: bool = False
    """Every finding in full, also those of severity info; `table` only."""
    recording: str | None = None
    """How the user can name the recording, for the advice what to do next; `table` only."""
    partial: bool = False
    """The document's lists hold few of many events: nothing is counted in them; `table` only."""
    rows: str = "connections"
    """Which of `LISTS`; `csv` only."""
    arrived: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """By request id: when pieces of its answer came, in ms after it was sent; `html` only."""
    activity: Mapping[str, tuple[tuple[str, float, float], ...]] = field(default_factory=dict)
    """By connection id: (`send` or `receive`, began, ended) in ms since the start of the trace; `html` only."""


def render(name: str, document: Mapping[str, Any], options: Options) -> str:
    """Return the document in one of `FORMATS`, ending with a line feed; ValueError for another name."""
    if name not in FORMATS:
        raise ValueError(f"no format {name!r}")
    text: str = import_module(f"netdiag.render.{name}").render(document, options)
    return text if text.endswith("\n") or not text else text + "\n"
