# SPDX-License-Identifier: Apache-2.0
"""From a recording, or the part of one that is kept, to tables and findings: what `netdiag analyze` does."""

from __future__ import annotations

import time

from netdiag import analysis, tables
from netdiag.recording.reader import Recording
from netdiag.tui import exact
from netdiag.tui.model import Examination

__all__ = ["examine"]


def examine(recording: Recording, *, total: int | None = None, slow_ms: float = 500.0) -> Examination:
    """Return what the recording shows; `total` = connections of the whole one, where this is a part."""
    began = time.thread_time()
    built = tables.build(recording)
    report = analysis.examine(built, analysis.Options(slow_ms=slow_ms))
    covered = len(built.connections)
    return Examination(
        tables=built,
        findings=report.findings,
        failures=tuple(f"{one.analysis}: {one.reason}" for one in report.failures),
        stalls=report.stalls,
        calls=exact.calls(built),
        covered=covered,
        total=max(covered, total or 0),
        seconds=time.thread_time() - began,
    )
