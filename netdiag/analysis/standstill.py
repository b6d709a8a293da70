# SPDX-License-Identifier: Apache-2.0
"""Connections whose server closed them while their program stood still. Judges no more than that."""

from __future__ import annotations

from netdiag.analysis.case import Case
from netdiag.analysis.links import NAN, Link, column, known, number

__all__ = ["Standstill", "standstills"]

_LONG_MS = 300.0
"""A shorter stop is a debugger's or a shell's, and no server closes so soon."""
_SHARE = 0.5
"""Of the rest, so much has to be the stop: otherwise the program's own pause was long enough."""


class Standstill:
    """The stops of all processes of a trace, milliseconds since its start."""

    def __init__(self, case: Case) -> None:
        table, end = case.tables.stops, case.tables.span_ms
        self._stops: dict[float, list[tuple[float, float, float]]] = {}
        names = ("pid", "began_ns", "ended_ns", "lasted_ms")
        for pid, began, ended, lasted in zip(*(map(number, column(table, name)) for name in names), strict=True):
            until = ended / 1e6 if known(ended) else end
            took = lasted if known(lasted) else until - began / 1e6
            self._stops.setdefault(pid if known(pid) else NAN, []).append((began / 1e6, until, took))
        self._everybody = [stop for pid, stops in self._stops.items() if not known(pid) for stop in stops]

    def spoiled_ms(self, link: Link) -> float:
        """Return how long the program stood still in the rest in which the server closed; 0 where it did not matter."""
        if link.closed_by != "remote" or not link.calls or not known(link.closing_ns):
            return 0.0
        answered = [call for call in link.calls if call.answered and call.last_byte_ns <= link.closing_ns]
        if not answered:
            return 0.0
        start, close, last = answered[-1].last_byte_ns / 1e6, link.closing_ns / 1e6, link.calls[-1]
        asked = last.began_ns / 1e6 if last.began_ns / 1e6 > start else NAN
        still = rest = 0.0
        for began, ended, took in self._stops.get(link.pid, []) + self._everybody:
            until = asked if known(asked) else max(close, ended)
            if start <= began <= min(until, close):
                asleep = took > ended - began + 1.0
                part = took if asleep else max(0.0, min(ended, until) - began)
                still += part
                rest = max(rest, until - start + (part if asleep else 0.0))
        return still if still >= _LONG_MS and still >= _SHARE * rest else 0.0


def standstills(case: Case) -> Standstill | None:
    """Return the stops of a trace, None where nobody was stopped."""
    return Standstill(case) if len(case.tables.stops) else None
