# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 connections on which the sender stops at the end of the receiver's window, again and again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from netdiag.analysis.build import Seen, milliseconds
from netdiag.analysis.case import Case, Group
from netdiag.analysis.http_calls import Asked, examples
from netdiag.analysis.links import Link, known, number
from netdiag.analysis.whatif import what_if
from netdiag.findings import Evidence, Learned, Severity

__all__ = ["flow_control"]

_MS = 1e6
_WINDOW = 65_535
"""The window that both sides begin with: RFC 9113 section 6.9.2."""
_FRAMES = 400
"""Bytes of frame and record headers, and of a HEADERS frame, that may come on top."""
_UPDATE = 120
"""An answer to it: WINDOW_UPDATE frames alone."""
_LEAST = 3
_STOP_MS = 5.0
_SHARE = 0.05
_DATA = 23
_OVERHEAD = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stop:
    link: Link
    bytes: float
    ms: float
    way: str


def flow_control(case: Case, group: Group, calls: Sequence[Asked]) -> Seen | None:
    """Return the waits for window updates: from frames where the plaintext was seen, else from the records' sizes."""
    told = [call for call in calls if call.blocked_ms >= _STOP_MS]
    if told:
        return _told(group, calls, told)
    records = case.rows["records"]
    stops = [
        stop
        for link in group.links
        if link.bytes_received >= _WINDOW or link.bytes_sent >= _WINDOW
        for stop in _stops(link, records.of(link.row, "at_ns", "direction", "type", "length"))
    ]
    if len(stops) < _LEAST:
        return None
    cost = sum(stop.ms for stop in stops)
    sizes = [stop.bytes for stop in stops]
    links = tuple({stop.link.row: stop.link for stop in stops}.values())
    way = "answers" if 2 * sum(stop.way == "receive" for stop in stops) >= len(stops) else "uploads"
    return Seen(
        code="http2.flow-control",
        links=links,
        count=len(stops),
        of=len(stops),
        confidence=0.6,
        cost_ms=cost,
        cause=way,
        note="from record sizes: each run of data ended at the window, and went on after a small record back",
        learned=Learned(name="window", value=median(sizes), low=min(sizes), high=max(sizes), unit="bytes"),
        ceiling=None if known(case.total_ms) and cost > _SHARE * case.total_ms else Severity.INFO,
        calls=max(group.calls, 1.0),
        words={"window": f"{median(sizes):,.0f} bytes", "wait": milliseconds(median(stop.ms for stop in stops))},
        examples=tuple(
            Evidence(
                kind="connection",
                id=stop.link.id,
                note=f"{stop.bytes:,.0f} bytes, then {milliseconds(stop.ms)} of nothing",
            )
            for stop in stops[:5]
        ),
        host=group.host,
        process=group.process,
    )


def _told(group: Group, calls: Sequence[Asked], told: Sequence[Asked]) -> Seen:
    waits = {call.row: call.blocked_ms for call in told}
    return Seen(
        code="http2.flow-control",
        links=tuple({call.link.row: call.link for call in told}.values()),
        count=len(told),
        of=len(calls),
        confidence=0.9,
        cost_ms=sum(waits.values()),
        learned=Learned(name="window", value=_WINDOW, low=_WINDOW, high=_WINDOW, unit="bytes"),
        ceiling=Severity.INFO if len(told) < _LEAST else None,
        what_if=what_if(calls, waits),
        calls=len(calls),
        words={"window": f"{_WINDOW:,} bytes", "wait": milliseconds(median(waits.values()))},
        examples=examples((call, f"stood {milliseconds(call.blocked_ms)} at the end of the window") for call in told),
        host=group.host,
        process=group.process,
    )


def _stops(link: Link, rows: Sequence[tuple[object, ...]]) -> Iterator[_Stop]:
    """Yield where a run of data of one side filled a window, paused, and went on after a small record of the other."""
    run, last, way, answered = 0.0, 0.0, "", False
    for at_, direction_, kind, length_ in rows:
        if kind != _DATA:
            continue
        at, direction, length = number(at_), str(direction_), number(length_) - _OVERHEAD
        if direction == way:
            if answered:
                pause = (at - last) / _MS
                if abs(run - _WINDOW - _FRAMES / 2) <= _FRAMES / 2 + 36 and pause >= _STOP_MS:
                    yield _Stop(link=link, bytes=run, ms=pause, way=way)
                run, answered = 0.0, False
            run, last = run + length, at
        elif length <= _UPDATE and run > 0:
            answered = True
        else:
            run, last, way, answered = length, at, direction, False
