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
_FRAME = 13
_UPDATE = 8 * _FRAME
"""The word to go on: WINDOW_UPDATE frames of 13 bytes alone, RFC 9113 section 6.9."""
_LEAST = 3
_STOP_MS = 5.0
_SMALLEST = 10_000
_EVEN = 0.05
_TRIP_OF, _SOON_OF = 0.6, 3.0
"""The pause is at least this share of a round trip, and ends within so many of the small record."""
_SHARE = 0.05
_DATA = 23
_OVERHEAD = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stop:
    link: Link
    bytes: float
    ms: float
    at_ns: float
    way: str


def flow_control(case: Case, group: Group, calls: Sequence[Asked]) -> Seen | None:
    """Return the waits for window updates: from frames where the plaintext was seen, else from the records' sizes."""
    told = [call for call in calls if call.blocked_ms >= _STOP_MS]
    if told:
        return _told(group, calls, told)
    records = case.rows["records"]
    spans: dict[int, list[tuple[float, float]]] = {}
    for call in calls:
        spans.setdefault(call.link.row, []).append((call.began_ns, call.ended_ns))
    stops = [
        stop
        for link in group.links
        if max(link.bytes_received, link.bytes_sent) >= _LEAST * _SMALLEST and _trip(link) >= _STOP_MS
        for stop in _alike(
            stop
            for stop in _stops(link, records.of(link.row, "at_ns", "direction", "type", "length"))
            if _inside(stop, spans.get(link.row))
        )
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
        note="from record sizes: runs of data of one size, each followed by a small record back and a round trip of "
        "nothing",
        learned=Learned(name="bytes_a_trip", value=median(sizes), low=min(sizes), high=max(sizes), unit="bytes"),
        ceiling=None if known(case.total_ms) and cost > _SHARE * case.total_ms else Severity.INFO,
        calls=max(group.calls, 1.0),
        words={"window": f"{median(sizes):,.0f} bytes", "wait": milliseconds(median(stop.ms for stop in stops))},
        examples=tuple(Evidence(kind="connection", id=stop.link.id, note=_story(stop)) for stop in stops[:5]),
        host=group.host,
        process=group.process,
    )


def _inside(stop: _Stop, spans: Sequence[tuple[float, float]] | None) -> bool:
    """Tell whether it lies within one call, where those were seen: between calls there is nothing to wait for."""
    return spans is None or any(start <= stop.at_ns and stop.at_ns + stop.ms * _MS <= end for start, end in spans)


def _story(stop: _Stop) -> str:
    return f"{stop.bytes:,.0f} bytes, then {milliseconds(stop.ms)} of nothing"


def _trip(link: Link) -> float:
    return link.min_rtt_ms if known(link.min_rtt_ms) else 0.0


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
        words={"window": f"at most {_WINDOW:,} bytes", "wait": milliseconds(median(waits.values()))},
        examples=examples((call, f"stood {milliseconds(call.blocked_ms)} at the end of the window") for call in told),
        host=group.host,
        process=group.process,
    )


def _stops(link: Link, rows: Sequence[tuple[object, ...]]) -> Iterator[_Stop]:
    """Yield where a run of data of one side stopped, and went on about a round trip after a small record back."""
    run, last, way, answered = 0.0, 0.0, "", float("nan")
    for at_, direction_, kind, length_ in rows:
        if kind != _DATA:
            continue
        at, direction, length = number(at_), str(direction_), number(length_) - _OVERHEAD
        if direction == way:
            if known(answered):
                pause, since = (at - last) / _MS, (at - answered) / _MS
                if pause >= max(_STOP_MS, _TRIP_OF * _trip(link)) and since <= _SOON_OF * _trip(link):
                    yield _Stop(link=link, bytes=run, ms=pause, at_ns=last, way=way)
                run, answered = 0.0, float("nan")
            run, last = run + length, at
        elif length <= _UPDATE and length % _FRAME == 0 and run > 0:
            answered = at if not known(answered) else answered
        else:
            run, last, way, answered = length, at, direction, float("nan")


def _alike(stops: Iterator[_Stop]) -> list[_Stop]:
    """Return the largest set of stops whose runs have one size that a window may have left.

    A congestion window that opens has runs of all sizes, each larger than the one before.
    """
    ordered = sorted((s for s in stops if _SMALLEST <= s.bytes <= _WINDOW + _FRAMES), key=lambda stop: stop.bytes)
    best: list[_Stop] = []
    for index, stop in enumerate(ordered):
        same = [other for other in ordered[index:] if other.bytes <= (1 + _EVEN) * stop.bytes]
        best = same if len(same) > len(best) else best
    return best if len(best) >= _LEAST else []
