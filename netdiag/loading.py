# SPDX-License-Identifier: Apache-2.0
"""A recording or capture in Python: `netdiag.load(path)` gives its tables and findings, for notebooks and scripts."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from netdiag import analysis, state
from netdiag.document import build
from netdiag.errors import InputUnreadable
from netdiag.export.source import Source
from netdiag.findings import Finding
from netdiag.recording import reader
from netdiag.recording.reader import Recording
from netdiag.tables import Tables
from netdiag.tables import build as build_tables
from netdiag.tables.schema import COLUMNS
from netdiag.text import safe
from netdiag.units import format_ms

__all__ = ["Loaded", "load", "read"]


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """What a recording shows. Each table is an attribute, too: `loaded.requests` is `loaded.tables.requests`."""

    recording: Recording
    tables: Tables
    """One DataFrame a kind; their columns stand in `docs/architecture.md`."""
    report: analysis.Report

    def __getattr__(self, name: str) -> pd.DataFrame:
        """Return a table by its name."""
        if name not in COLUMNS:
            raise AttributeError(name)
        table: pd.DataFrame = getattr(self.tables, name)
        return table

    def __dir__(self) -> list[str]:
        """Name the tables, too: notebooks complete them."""
        return [*super().__dir__(), *COLUMNS]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The causes, loudest first."""
        return self.report.findings

    @cached_property
    def document(self) -> dict[str, Any]:
        """The document `netdiag.trace/1`, as `netdiag analyze --format json` prints it."""
        failures = [(failure.analysis, failure.reason) for failure in self.report.failures]
        return build(self.recording, self.tables, self.findings, failures=failures, stalls=self.report.stalls)

    @property
    def source(self) -> Source:
        """What exporters read."""
        found = [finding.to_json() for finding in self.findings]
        return Source(recording=self.recording, tables=self.tables, findings=found, stalls=self.report.stalls)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{finding.severity}</td><td><code>{escape(finding.code)}</code></td>"
            f"<td>{escape(safe(finding.title))}</td><td>{format_ms(finding.cost_ms)}</td></tr>"
            for finding in self.findings
        )
        counts = ", ".join(f"{len(getattr(self.tables, name)):,} {name}" for name in ("connections", "requests"))
        head = "<tr><th>severity</th><th>code</th><th>finding</th><th>cost</th></tr>"
        return f"<p>{counts}</p><table>{head}{rows}</table>" if rows else f"<p>{counts}; no finding</p>"

    def __repr__(self) -> str:
        """Return the counts and codes in a line."""
        counts = ", ".join(f"{len(getattr(self.tables, name))} {name}" for name in ("connections", "requests"))
        return f"<netdiag.Loaded: {counts}; {', '.join(finding.code for finding in self.findings) or 'no finding'}>"


def load(path: str | os.PathLike[str], *, slow_ms: float = 500.0) -> Loaded:
    """Return tables and findings of a recording, a capture, or `last`; InputUnreadable where it is neither."""
    recording = read(path)
    tables = build_tables(recording)
    return Loaded(
        recording=recording, tables=tables, report=analysis.examine(tables, analysis.Options(slow_ms=slow_ms))
    )


def read(path: str | os.PathLike[str]) -> Recording:
    """Return a recording, a capture, or `last`; InputUnreadable where it is neither."""
    place = Path(state.resolve(os.fspath(path)))
    try:
        with place.open("rb") as file:
            start = file.read(8)
    except OSError as error:
        raise InputUnreadable(f"{place}: {error.strerror}") from error
    if reader.is_recording(start):
        return reader.read(place)
    from netdiag import capture  # not needed for recordings

    if capture.kind_of(start) is None:
        raise InputUnreadable(f"{place}: neither a recording of netdiag nor a packet capture")
    return capture.read(place, name=str(place))
