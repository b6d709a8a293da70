# SPDX-License-Identifier: Apache-2.0
"""Streams that stop on their way: stalls by who is to blame, heartbeats without content, ends that came too early."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import sub
from statistics import median

import numpy as np

from netdiag.analysis.build import Seen, finding, milliseconds
from netdiag.analysis.case import Case, Group
from netdiag.analysis.claims import left_unread
from netdiag.analysis.http_calls import Asked, certainty, examples
from netdiag.analysis.links import Link, known
from netdiag.analysis.starved import Starved, covered, scheduling_of
from netdiag.analysis.stream_pieces import SPOKEN, Lag, Piece, Streams, streams_of
from netdiag.analysis.stream_stalls import LEAST_MS, Stall, paths_of, stalls_of, usual_ms
from netdiag.analysis.whatif import what_if
from netdiag.findings import Finding, Learned, Severity

__all__ = ["analyze", "beats_of"]

_CODES = {"server": "stream.server-stall", "network": "stream.network-stall"}
_MS = 1e6
_BEATS = 3
_EVEN = 0.2
_LIVELY_MS = 300.0
"""A stream whose usual pause is shorter has something to say all along."""
_SMALL = 160
"""Bytes of a TLS record that holds a heartbeat and nothing else."""
_SOON_NS = 1e9
_APPLICATION_DATA = 23
_SHUT_MS = 100.0


def analyze(case: Case) -> list[Finding]:
    """Return one finding per code and group."""
    found: list[Seen | None] = []
    work = scheduling_of(case)
    for group in case.groups:
        calls = case.asked_by(group)
        streams = streams_of(case, calls)
        found.append(_truncated(case, group, calls, streams))
        if not streams:
            continue
        paths = paths_of(case, (stream.call.link for stream in streams))
        beating = {stream.call.row: beats_of(stream, case.options.slow_ms) for stream in streams}
        stalls = [
            stall
            for stream in streams
            for stall in stalls_of(stream, paths[stream.call.link.row])
            if not any(_overlap(beats, stall) for beats in beating[stream.call.row])
        ]
        unread = [(lag.from_ns, lag.to_ns, lag.tid) for stream in streams for lag in stream.lags]
        starved = work.starved(group.pid, unread)
        found += [_stalled(group, calls, streams, stalls, blame) for blame in _CODES]
        found += [_reader(group, calls, streams, stalls, starved), _heartbeats(group, calls, streams, beating)]
    return [finding(case, seen) for seen in found if seen is not None]


def _overlap(beats: Beats, stall: Stall) -> bool:
    return min(beats.to_ns, stall.to_ns) > max(beats.from_ns, stall.from_ns)


def _stalled(
    group: Group, calls: Sequence[Asked], streams: Sequence[Streams], stalls: Sequence[Stall], blame: str
) -> Seen | None:
    mine = [stall for stall in stalls if stall.blame == blame]
    if not mine:
        return None
    saved: dict[int, float] = {}
    for stall in mine:
        saved[stall.stream.call.row] = saved.get(stall.stream.call.row, 0.0) + stall.extra_ms
    lengths = [stall.ms for stall in mine]
    longest = max(mine, key=lambda stall: stall.ms)
    return Seen(
        code=_CODES[blame],
        links=_links(stall.stream for stall in mine),
        count=len(mine),
        of=len(streams),
        confidence=median(stall.sure for stall in mine),
        cost_ms=sum(stall.extra_ms for stall in mine),
        note=longest.why,
        learned=Learned(name="stall", value=median(lengths), low=min(lengths), high=max(lengths), unit="ms"),
        what_if=what_if(calls, saved),
        calls=len(calls),
        words={
            "stalls": _many(len(mine), "stall"),
            "streams": _many(len(streams), "stream"),
            "longest": milliseconds(longest.ms),
        },
        examples=examples((stall.stream.call, _story(stall)) for stall in mine),
        host=group.host,
        process=group.process,
    )


def _story(stall: Stall) -> str:
    at = (stall.from_ns - stall.stream.call.sent_ns) / _MS
    return f"nothing for {milliseconds(stall.ms)}, {milliseconds(at)} after the request; {stall.why}"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _links(streams: object) -> tuple[Link, ...]:
    rows = {stream.call.link.row: stream.call.link for stream in streams}  # type: ignore[attr-defined]
    return tuple(rows[row] for row in sorted(rows))


# --- the reader -------------------------------------------------------------------------------------------------------


def _reader(
    group: Group,
    calls: Sequence[Asked],
    streams: Sequence[Streams],
    stalls: Sequence[Stall],
    starved: Sequence[Starved],
) -> Seen | None:
    """Data of a stream lay in the socket for long, or the full buffer held the server back.

    What lay there for want of a processor (`starved`) is that finding's matter.
    """
    late = [
        (stream, lag)
        for stream in streams
        for lag in stream.lags
        if lag.ms >= LEAST_MS and not covered(starved, lag.from_ns, lag.to_ns, lag.tid)
    ]
    held = [stall for stall in stalls if stall.blame == "reader" and not _within(stall, late)]
    if not late and not held:
        return None
    saved: dict[int, float] = {}
    for row, ms in [*((s.call.row, lag.ms) for s, lag in late), *((h.stream.call.row, h.extra_ms) for h in held)]:
        saved[row] = saved.get(row, 0.0) + ms
    lengths = [lag.ms for _, lag in late] + [stall.ms for stall in held]
    together = _together(late)
    lines = [(stream.call, _lay(stream, lag)) for stream, lag in late] + [(h.stream.call, _story(h)) for h in held]
    hit = {stream.call.row: stream for stream, _ in late} | {stall.stream.call.row: stall.stream for stall in held}
    return Seen(
        code="stream.reader-stall",
        links=_links(hit.values()),
        count=len(hit),
        of=len(streams),
        confidence=0.9 if late else 0.75,
        cost_ms=sum(saved.values()),
        cause="event-loop" if together else None,
        note=f"up to {together} streams lay unread at the same time, as behind one event loop" if together else "",
        learned=Learned(name="lag", value=median(lengths), low=min(lengths), high=max(lengths), unit="ms"),
        what_if=what_if(calls, saved),
        calls=len(calls),
        words={"streams": _many(len(hit), "stream"), "longest": milliseconds(max(lengths))},
        examples=examples(lines),
        host=group.host,
        process=group.process,
    )


def _within(stall: Stall, late: Sequence[tuple[Streams, Lag]]) -> bool:
    return any(
        stream.call.row == stall.stream.call.row and lag.from_ns < stall.to_ns and stall.from_ns < lag.to_ns
        for stream, lag in late
    )


def _lay(stream: Streams, lag: Lag) -> str:
    at = (lag.from_ns - stream.call.sent_ns) / _MS
    who = f" before thread {lag.tid:.0f} read it" if known(lag.tid) else " unread"
    return f"{milliseconds(at)} after the request data lay {milliseconds(lag.ms)} in the socket{who}"


def _together(late: Sequence[tuple[Streams, Lag]]) -> int:
    """Return the most streams of one thread that lay unread at once; 0 where never two did."""
    most = 0
    for _, lag in late:
        over = {
            other.call.link.row
            for other, its in late
            if its.tid == lag.tid and min(its.to_ns, lag.to_ns) - max(its.from_ns, lag.from_ns) >= LEAST_MS / 2 * _MS
        }
        most = max(most, len(over))
    return most if most > 1 else 0


# --- heartbeats -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Beats:
    """Heartbeats at an even pace with no content between them; ns since the start."""

    from_ns: float
    to_ns: float
    count: int
    pace_ms: float

    @property
    def ms(self) -> float:
        """How long no content came."""
        return (self.to_ns - self.from_ns) / _MS


def beats_of(stream: Streams, slow_ms: float) -> tuple[Beats, ...]:
    """Return the stretches in which heartbeats hide that nothing comes: at least three in a row, evenly spaced.

    Before the first token that is no matter until `slow_ms` have passed.
    """
    is_beat = _told_beats(stream) if stream.told else _like_beats(stream)
    if not any(is_beat):
        return ()
    found = []
    run: list[Piece] = []
    before = stream.call.sent_ns
    for piece, beats in [*zip(stream.pieces, is_beat, strict=True), (None, False)]:
        if piece is not None and beats:
            run.append(piece)
            continue
        until = piece.at_ns if piece is not None else (run[-1].at_ns if run else before)
        paces = [(b.at_ns - a.at_ns) / _MS for a, b in pairwise(run)]
        if len(run) >= _BEATS and max(paces) - min(paces) <= max(20.0, _EVEN * max(paces)):
            beat = Beats(from_ns=before, to_ns=until, count=len(run), pace_ms=median(paces))
            if beat.ms >= (slow_ms if beat.from_ns == stream.call.sent_ns else LEAST_MS):
                found.append(beat)
        run = []
        before = until
    return tuple(found)


def _told_beats(stream: Streams) -> list[bool]:
    return [piece.heartbeat for piece in stream.pieces]


def _like_beats(stream: Streams) -> list[bool]:
    """Tell which pieces look like heartbeats: small, all of one size, a second or more apart, in a livelier stream."""
    pieces = stream.pieces
    gaps = stream.gaps_ms if len(stream.tokens) == len(pieces) else _pauses(pieces)
    if not gaps or max(gaps) < 1000.0:
        return [False] * len(pieces)
    sizes = [piece.bytes for piece in pieces]
    slow = [index > 0 and gaps[index - 1] >= 1000.0 and piece.bytes <= _SMALL for index, piece in enumerate(pieces)]
    beats = [size for size, is_slow in zip(sizes, slow, strict=True) if is_slow]
    usual = sorted(gap for gap in gaps if gap < 1000.0)
    lively = len(usual) >= _BEATS and usual[len(usual) // 2] < _LIVELY_MS
    size = max(set(beats), key=beats.count) if beats else 0.0
    return [lively and is_slow and piece.bytes == size for piece, is_slow in zip(pieces, slow, strict=True)]


def _speaks(stream: Streams) -> bool:
    """Tell whether content is due all along, as of a model that answers.

    A stream of events that come when something happens is healthy while it only beats.
    """
    gaps = stream.gaps_ms
    lively = len(gaps) >= _BEATS and usual_ms(gaps) < _LIVELY_MS
    return lively or stream.call.model is not None or any(p.kind in SPOKEN for p in stream.pieces)


def _pauses(pieces: Sequence[Piece]) -> tuple[float, ...]:
    at = [piece.at_ns for piece in pieces]
    return tuple(pause / _MS for pause in map(sub, at[1:], at))


def _heartbeats(
    group: Group, calls: Sequence[Asked], streams: Sequence[Streams], beating: Mapping[int, Sequence[Beats]]
) -> Seen | None:
    hit = [(stream, beats) for stream in streams for beats in beating[stream.call.row]]
    if not hit:
        return None
    paces = [beats.pace_ms for _, beats in hit]
    saved: dict[int, float] = {}
    for stream, beats in hit:
        saved[stream.call.row] = saved.get(stream.call.row, 0.0) + beats.ms
    due = any(_speaks(stream) for stream, _ in hit)
    told = all(stream.told for stream, _ in hit)
    lines = [
        (s.call, f"no content for {milliseconds(b.ms)}, {b.count} heartbeats {milliseconds(b.pace_ms)} apart")
        for s, b in hit
    ]
    return Seen(
        code="stream.heartbeat-stall",
        links=_links(stream for stream, _ in hit),
        count=len(hit),
        of=len(streams),
        confidence=(0.9 if told else 0.6) if due else 0.4,
        cost_ms=sum(saved.values()),
        note=("" if told else "from record sizes: content was not seen")
        if due
        else "a server that sends events as they happen, and had none, would look the same",
        ceiling=None if due else Severity.INFO,
        learned=Learned(
            name="heartbeat", value=median(paces) / 1e3, low=min(paces) / 1e3, high=max(paces) / 1e3, unit="s"
        ),
        what_if=what_if(calls, saved),
        calls=len(calls),
        words={
            "streams": _many(len(saved), "stream"),
            "longest": milliseconds(max(beats.ms for _, beats in hit)),
            "pace": milliseconds(median(paces)),
        },
        examples=examples(lines),
        host=group.host,
        process=group.process,
    )


# --- truncated --------------------------------------------------------------------------------------------------------


def _truncated(case: Case, group: Group, calls: Sequence[Asked], streams: Sequence[Streams]) -> Seen | None:
    """Answers whose connection the other side ended before they were whole."""
    pieces = {stream.call.row: stream for stream in streams}
    # an answer of one piece that a reset cut is `tcp.reset`'s
    broken = [call for call in calls if call.exact and _cut(call)]
    cut = [
        call
        for call in broken
        if call.link.close != "rst" or call.stream is not None or call.row in pieces or _reset_alone(call)
    ]
    cut += _cut_by_size(case, [call for call in calls if not call.exact and call.row in pieces])
    if not cut:
        return None
    told = all(call.exact for call in cut)
    streamed = [call for call in cut if call.stream is not None or call.row in pieces]
    return Seen(
        code="stream.truncated",
        links=tuple({call.link.row: call.link for call in cut}.values()),
        count=len(cut),
        of=len(calls),
        confidence=certainty(cut, 0.95, 0.6),
        cost_ms=sum(call.total_ms for call in cut if known(call.total_ms)),
        cause="reset" if all(call.link.close == "rst" or _reset_alone(call) for call in cut) else "closed",
        note="" if told else "no content was seen: the last record is none that ends other streams",
        breaks=True,
        calls=len(calls),
        words={"what": "stream" if len(streamed) == len(cut) else "answer"},
        examples=examples((call, _ending(call, pieces.get(call.row))) for call in cut),
        host=group.host,
        process=group.process,
    )


def _reset_alone(call: Asked) -> bool:
    """The server gave up this answer of HTTP/2 and kept the connection."""
    return call.protocol == "h2" and call.error == "reset by the server"


def _cut(call: Asked) -> bool:
    if not call.answered or call.complete is not False:
        return False
    if _reset_alone(call):
        return True
    if call.link.closed_by != "remote":
        return False
    # what the program did not read may have been the rest, and then all had been sent
    return _last_of_link(call) and (call.link.close == "rst" or not left_unread(call.link))


def _last_of_link(call: Asked) -> bool:
    """The connection ended soon after its last data: no other call was meant."""
    closing = call.link.closing_ns
    end = call.ended_ns if known(call.ended_ns) else call.first_byte_ns
    return known(closing) and closing >= end - _SOON_NS / 1e3 and closing - end <= 5 * _SOON_NS


def _cut_by_size(case: Case, calls: Sequence[Asked]) -> list[Asked]:
    """Return streams whose connection the server ended after a record that ends no stream which was whole."""
    records = case.rows["records"]

    def last_length(call: Asked) -> float:
        row = call.link.row
        at = records.part(row, "at_ns")
        mine = records.received(row) & (records.part(row, "type") == _APPLICATION_DATA)
        index = np.flatnonzero(mine & (at >= call.first_byte_ns) & (at <= call.ended_ns))
        return float(records.part(row, "length")[index[-1]]) if len(index) else -1.0

    ended = [call for call in calls if known(call.ended_ns)]
    suspects = [call for call in ended if call.link.closed_by == "remote" and _at_its_end(call)]
    if not suspects:
        return []
    whole = {last_length(call) for call in ended if call not in suspects} - {-1.0}
    return [call for call in suspects if whole and last_length(call) not in whole | {-1.0}]


def _at_its_end(call: Asked) -> bool:
    calls = call.link.calls
    last = not calls or calls[-1].began_ns <= call.began_ns + _MS
    return last and 0 <= call.link.closing_ns - call.ended_ns + _MS <= _SOON_NS


def _ending(call: Asked, stream: Streams | None) -> str:
    reset = call.link.close == "rst"
    how = "a reset of its stream" if _reset_alone(call) else "a reset" if reset else "the server's close"
    count = f" after {_many(len(stream.pieces), 'piece')}" if stream else ""
    return f"cut off by {how}{count}, {milliseconds(call.total_ms)} after it began" if known(call.total_ms) else how
