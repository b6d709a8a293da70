# SPDX-License-Identifier: Apache-2.0
"""Keeps what a recording tells of a load of weights, and makes the document of it when more has come.

Sums are cumulative: of many looks at the same thread or file the newest say all, so that a long load is thinned.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from netdiag.errors import NetdiagError
from netdiag.recording.reader import Recording, Records

__all__ = ["Loads"]

_PREFIX = "weights_"
_FACTS = frozenset({"command", "coverage", "cost", "loss", "process"})
_MOST_RUNS = 4_000
_SHARE = 0.05
"""Of a processor that making the document of a growing recording may take."""
_NO_GPU = [("GPU", "the memory of GPUs is in the document of `netdiag weights`, not in its recording")]


class Loads:
    """Takes the parts of a recording as they come."""

    def __init__(self) -> None:
        self._runs: dict[str, list[Records]] = {}
        self._facts: list[dict[str, Any]] = []
        self._last: Recording | None = None
        self._fresh = False
        self._made_at, self._cost = 0.0, 0.0
        self.document: Mapping[str, Any] | None = None
        """`netdiag.weights/1`; None where no load was recorded."""

    def add(self, part: Recording) -> None:
        """Take what is new."""
        self._last = part
        self._facts += [fact for fact in part.facts if fact["kind"] in _FACTS]
        for stream, runs in part.runs.items():
            if stream.startswith(_PREFIX):
                self._runs.setdefault(stream, []).extend(runs)
                self._fresh = True
        for stream, runs in self._runs.items():
            if len(runs) > _MOST_RUNS:  # every other look of the older half is enough for a curve
                half = len(runs) // 2
                self._runs[stream] = [*runs[:half:2], *runs[half:]]

    def make(self, *, over: bool) -> None:
        """Make the document anew where something came, at most as often as its cost allows until it is `over`."""
        if not self._runs or self._last is None or not (self._fresh or over):
            return
        if not over and time.monotonic() - self._made_at < self._cost / _SHARE:
            return
        from netdiag.weights.document import build  # only recordings of `netdiag weights` need it
        from netdiag.weights.examine import examine

        began = time.monotonic()
        recording = replace(self._last, runs=dict(self._runs), facts=list(self._facts))
        try:
            seen = examine(recording)
            self.document = build(recording, seen.load, seen.memory, seen.findings, missing=_NO_GPU)
        except (NetdiagError, ArithmeticError, LookupError, TypeError, ValueError):
            self.document = None  # of another netdiag, or damaged: the rest of the screens has its use
        self._fresh = False
        self._made_at = time.monotonic()
        self._cost = self._made_at - began
