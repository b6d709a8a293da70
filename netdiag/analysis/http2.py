# SPDX-License-Identifier: Apache-2.0
"""HTTP/2: where it is missing, where its windows and stream limits hold calls back, and what it loses at a GOAWAY."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from statistics import median

from netdiag.analysis.build import Seen, finding, milliseconds
from netdiag.analysis.case import Case, Group
from netdiag.analysis.http2_windows import flow_control
from netdiag.analysis.http_calls import Asked, examples
from netdiag.analysis.links import NAN, Link, column, known, number
from netdiag.analysis.stream_pieces import streams_of
from netdiag.analysis.stream_stalls import LEAST_MS, Stall, paths_of, stalls_of
from netdiag.analysis.whatif import what_if
from netdiag.findings import Finding, Learned, Severity

__all__ = ["analyze"]

_MS = 1e6
_AT_ONCE_MS, _AT_ONCE_OF = 10.0, 0.15
_TOGETHER_OF = 0.2
"""Of the usual length of a call."""
_WAVES_OF = 0.7
_NEARLY = 0.9
"""Of the streams that a server allows: so many at once are its limit."""
_BURST_NS = 20e6


def analyze(case: Case) -> list[Finding]:
    """Return one finding per code and group."""
    found: list[Seen | None] = []
    shakes = case.tables.handshakes
    offered = dict(zip(map(number, column(shakes, "connection")), column(shakes, "alpn_offered"), strict=True))
    for group in case.groups:
        found.append(_not_negotiated(group, offered))
        calls = [call for call in case.asked_by(group) if call.protocol == "h2"]
        found += [flow_control(case, group, calls)]
        if calls:
            found += [_stream_limit(group, calls), _goaway(group, calls), _head_of_line(case, group, calls)]
    return [finding(case, seen) for seen in found if seen is not None]


# --- not negotiated ---------------------------------------------------------------------------------------------------


def _not_negotiated(group: Group, offered: dict[float, object]) -> Seen | None:
    """Two connections or more in use at once, and no ClientHello of theirs offers h2."""
    told = [(link, offered[link.row]) for link in group.links if link.row in offered and link.used]
    plain = [(link, protocols) for link, protocols in told if isinstance(protocols, (list, tuple))]
    if len(plain) < 2 or len(plain) < len(told) or any("h2" in protocols for _, protocols in plain):
        return None
    spans = sorted(
        (link.opened_ns, link.closing_ns if known(link.closing_ns) else float("inf"))
        for link, _ in plain
        if known(link.opened_ns)
    )
    most = _most(spans)
    working = _most(sorted(span for link, _ in plain for span in _busy(link)))
    if most < 2 or working < 2:
        return None
    names = sorted({str(name) for _, protocols in plain for name in protocols})
    links = tuple(link for link, _ in plain)
    setups = [link.setup_ms for link in links if known(link.setup_ms)]
    return Seen(
        code="http2.not-negotiated",
        links=links,
        count=len(links),
        of=len(group.links),
        confidence=0.9,
        cost_ms=sum(setups) - min(setups) if len(setups) > 1 else float("nan"),
        note=f"their hellos offer {', '.join(names)}" if names else "their hellos offer no protocol at all",
        learned=Learned(name="at_once", value=working, low=working, high=working, unit="connections"),
        # that the server would speak it is not known
        ceiling=Severity.INFO,
        calls=max(group.calls, 1.0),
        words={"most": f"{working}", "offer": " and ".join(names) or "no protocol"},
        host=group.host,
        process=group.process,
    )


def _busy(link: Link) -> list[tuple[float, float]]:
    return [(call.began_ns, call.last_byte_ns) for call in link.calls if call.answered]


def _most(spans: Sequence[tuple[float, float]]) -> int:
    """Return how many spans overlap at most."""
    ends: list[float] = []
    most = 0
    for start, end in spans:
        ends = [other for other in ends if other > start] + [end]
        most = max(most, len(ends))
    return most


# --- stream limit -----------------------------------------------------------------------------------------------------


def _stream_limit(group: Group, calls: Sequence[Asked]) -> Seen | None:
    """On one connection never more than N streams at once, and the next one begins the moment that one ends."""
    by_link: dict[int, list[Asked]] = {}
    for call in calls:
        by_link.setdefault(call.link.row, []).append(call)
    hit: list[Asked] = []
    waits: dict[int, float] = {}
    limits: list[float] = []
    told = True
    for mine in by_link.values():
        limit, waiting = _waves(mine)
        allowed = min((call.concurrent for call in mine if known(call.concurrent)), default=NAN)
        if waiting and not limit < _NEARLY * allowed:  # fewer than the server allows: the program's own limit
            limits.append(limit)
            told = told and known(allowed)
            hit += [call for call, _ in waiting]
            waits |= {call.row: wait for call, wait in waiting}
    if not hit:
        return None
    return Seen(
        code="http2.stream-limit",
        links=tuple({call.link.row: call.link for call in hit}.values()),
        count=len(hit),
        of=len(calls),
        confidence=0.9 if told else 0.7,
        cost_ms=sum(waits.values()),
        note="the server's own settings allow no more"
        if told
        else "a program that itself lets only so many run at once would look the same",
        learned=Learned(name="streams", value=median(limits), low=min(limits), high=max(limits), unit="streams"),
        ceiling=Severity.WARNING,
        calls=len(calls),
        words={"limit": f"{median(limits):.0f}", "wait": milliseconds(median(waits.values()))},
        examples=examples(
            (call, f"sent up to {milliseconds(waits[call.row])} after it could have been") for call in hit
        ),
        host=group.host,
        process=group.process,
    )


def _waves(calls: Sequence[Asked]) -> tuple[float, list[tuple[Asked, float]]]:
    """Return the most streams at once and the calls that began only when one of a full set had ended."""
    ordered = sorted((c for c in calls if known(c.began_ns) and known(c.until_ns)), key=lambda c: c.began_ns)
    limit = _most([(call.began_ns, call.until_ns) for call in ordered])
    if limit < 2 or len(ordered) < 2 * limit + 1:
        return 0.0, []
    ends = sorted(call.until_ns for call in ordered)
    # a program that has to share its processor sends what it may send a little later
    usual = median((call.until_ns - call.began_ns) / _MS for call in ordered)
    soon = max(_AT_ONCE_MS, _AT_ONCE_OF * usual)
    late: list[tuple[Asked, float]] = []
    wave = ordered[0].began_ns
    quiet_until = float("-inf")
    first = 0
    for index, call in enumerate(ordered):
        if call.began_ns > quiet_until:  # all were done before: a new wave
            wave, first = call.began_ns, index
        quiet_until = max(quiet_until, call.until_ns + soon * _MS)
        at = bisect_left(ends, call.began_ns)
        follows = at > 0 and (call.began_ns - ends[at - 1]) / _MS <= soon
        if index - first >= limit and follows:
            late.append((call, (call.began_ns - wave) / _MS))
    together = max(_BURST_NS, _TOGETHER_OF * usual * _MS)
    begun = [call for call in ordered[: int(limit)] if call.began_ns - ordered[0].began_ns <= together]
    beyond = len(ordered) - limit
    return (float(limit), late) if len(begun) == limit and len(late) >= _WAVES_OF * beyond else (0.0, [])


# --- GOAWAY -----------------------------------------------------------------------------------------------------------


def _goaway(group: Group, calls: Sequence[Asked]) -> Seen | None:
    """The last requests of connections that the server ended got no whole answer, though it may have served them."""
    by_link: dict[int, list[Asked]] = {}
    for call in calls:
        by_link.setdefault(call.link.row, []).append(call)
    lost: list[Asked] = []
    counts: list[float] = []
    for mine in by_link.values():
        last = max(mine, key=lambda call: call.began_ns)
        if mine[0].link.closed_by == "remote" and last.complete is False and not known(last.status):
            lost.append(last)
            counts.append(float(len(mine)))
    if not lost:
        return None
    same = len(counts) >= 2 and max(counts) == min(counts)
    learned = Learned(name="requests", value=counts[0], low=counts[0], high=counts[0], unit="requests")
    return Seen(
        code="http2.goaway-lost",
        links=tuple(call.link for call in lost),
        count=len(lost),
        of=len(calls),
        confidence=0.85 if same else 0.6,
        cost_ms=sum(max(0.0, (call.link.closing_ns - call.began_ns) / _MS) for call in lost),
        note=f"each time it was request {counts[0]:.0f} of its connection" if same else "",
        learned=learned if same else None,
        breaks=True,
        calls=len(calls),
        words={"nth": f"request {counts[0]:.0f}" if same else "the last request"},
        examples=examples((call, f"stream {call.stream_id:.0f}: no answer before the close") for call in lost),
        host=group.host,
        process=group.process,
    )


# --- head of line -----------------------------------------------------------------------------------------------------


def _head_of_line(case: Case, group: Group, calls: Sequence[Asked]) -> Seen | None:
    """Streams of one connection stall together, and the network is to blame."""
    streams = streams_of(case, calls)
    if len(streams) < 2:
        return None
    paths = paths_of(case, (stream.call.link for stream in streams))
    stalls = [stall for stream in streams for stall in stalls_of(stream, paths[stream.call.link.row])]
    lost = [stall for stall in stalls if stall.blame == "network"]
    together = [stall for stall in lost if any(_with(stall, other) for other in stalls)]
    if not together:
        return None
    saved: dict[int, float] = {}
    for stall in together:
        saved[stall.stream.call.row] = saved.get(stall.stream.call.row, 0.0) + stall.extra_ms
    lengths = [stall.ms for stall in together]
    return Seen(
        code="http2.head-of-line",
        links=tuple({stall.stream.call.link.row: stall.stream.call.link for stall in together}.values()),
        count=len(saved),
        of=len(streams),
        confidence=min(0.85, median(stall.sure for stall in together)),
        cost_ms=sum(saved.values()),
        note=together[0].why,
        learned=Learned(name="stall", value=median(lengths), low=min(lengths), high=max(lengths), unit="ms"),
        what_if=what_if(calls, saved),
        calls=len(calls),
        words={"longest": milliseconds(max(lengths))},
        examples=examples((stall.stream.call, f"nothing for {milliseconds(stall.ms)}") for stall in together),
        host=group.host,
        process=group.process,
    )


def _with(stall: Stall, other: Stall) -> bool:
    if other.stream.call.row == stall.stream.call.row or other.stream.call.link.row != stall.stream.call.link.row:
        return False
    return min(stall.to_ns, other.to_ns) - max(stall.from_ns, other.from_ns) >= 0.5 * LEAST_MS * _MS
