# SPDX-License-Identifier: Apache-2.0
"""Established connections that are slow by TCP's own doing: distance, loss, shut windows, Nagle's algorithm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

import numpy as np

from netdiag.analysis.build import Seen, finding, milliseconds
from netdiag.analysis.case import Case, Group
from netdiag.analysis.http_rows import Rows
from netdiag.analysis.links import Link, Turn, column, known
from netdiag.findings import Finding, Severity

__all__ = ["analyze"]

_WINDOW_MS = 100.0
_LOST = 2
"""A single segment sent again is chance."""
_DELAY_MS = 5.0
"""A shorter delay is no cost worth a word."""
_PATH_MS = 1.0
"""Within a machine nothing is lost; there a busy processor delays acknowledgements, and probes go out."""
_TIMER_MS = 150.0
"""The kernel's shortest retransmission timer is 200 ms; what is sent again sooner may be a mere probe."""
_FEW_WRITES = 4
"""Of a request in small pieces; more are an upload, which takes time of its own."""
_DELAYED_ACK = (30.0, 48.0)
"""Milliseconds that a segment waits for an acknowledgement which the other side delays by 40 ms; the first requests
on a connection, which need none, may be slow for reasons of their own."""
_FAST_MS = 15.0
_LATEST_MS, _LATEST_TRIPS = 1000.0, 4.0
"""What is sent again later than this behind an answer belongs to something else."""

_FLOWS = 10_000
"""Bytes per millisecond of waiting for the peer's window: a connection that carries so much stands not still."""


def analyze(case: Case) -> list[Finding]:
    """Return one finding per cause and group."""
    found: list[Seen | None] = []
    resent, theirs = _resent(case), _resent(case, "remote")
    for group in case.groups:
        found += [_far(case, group), _retransmits(case, group, resent, theirs), _zero_window(group), _nagle(group)]
    return [finding(case, seen) for seen in found if seen is not None]


def _far(case: Case, group: Group) -> Seen | None:
    used = [link for link in group.links if link.used and known(_round_trip(link))]
    trips = [_round_trip(link) for link in used]
    if not used or median(trips) < case.options.far_ms:
        return None
    setups = [link.setup_ms for link in used if known(link.setup_ms)]
    # Without repetition it is a fact about the place, not a habit that costs.
    dominant = len(setups) >= 2 and known(case.total_ms) and sum(setups) > 0.5 * case.total_ms
    return Seen(
        code="tcp.far-server",
        links=tuple(used),
        count=len(used),
        of=len(used),
        confidence=0.9,
        cost_ms=sum(setups) if setups else float("nan"),
        note=f"round trip {milliseconds(median(trips))}",
        ceiling=None if dominant else Severity.INFO,
        words={"rtt": milliseconds(median(trips))},
        calls=max(group.calls, 1.0),
        host=group.host,
        process=group.process,
    )


def _round_trip(link: Link) -> float:
    return link.min_rtt_ms if known(link.min_rtt_ms) else link.rtt_ms


def _resent(case: Case, by: str | None = None) -> dict[int, list[float]]:
    """Return when segments were sent again by connection; `by`: by this side alone."""
    rows: dict[int, list[float]] = {}
    table = case.tables.retransmits
    for row, at, side in zip(*(column(table, name) for name in ("connection", "at_ns", "by")), strict=True):
        if by is None or side == by:
            rows.setdefault(int(row), []).append(float(at))
    return rows


def _mended(bursts: Rows, link: Link, resent: Sequence[float]) -> list[tuple[float, int]]:
    """Return for each answer that the peer had to mend how long nothing else came meanwhile, ms, and the segments.

    Seen near the peer, what was lost is sent again behind the last of the answer, a round trip later.
    """
    found: list[tuple[float, int]] = []
    if not resent or not link.turns:
        return found
    came = bursts.received(link.row)
    began, ended = bursts.part(link.row, "began_ns")[came], bursts.part(link.row, "ended_ns")[came]
    trip = _round_trip(link) if known(_round_trip(link)) else 0.0
    for turn, after in zip(link.turns, [*link.turns[1:], None], strict=True):
        end = min(
            turn.last_byte_ns + max(_LATEST_MS, _LATEST_TRIPS * trip) * 1e6, after.began_ns if after else math.inf
        )
        mine = [at for at in resent if turn.first_byte_ns < at <= end]
        delay, before = 0.0, turn.first_byte_ns
        for at in mine:
            last = int(np.searchsorted(began, at)) - 1
            before = max(before, min(float(ended[last]), at)) if last >= 0 else before
            delay, before = delay + (at - before) / 1e6, at
        if mine and delay >= _DELAY_MS and (trip >= _PATH_MS or delay >= _TIMER_MS):
            found.append((delay, len(mine)))
    return found


def _retransmits(
    case: Case, group: Group, resent: dict[int, list[float]], theirs: dict[int, list[float]]
) -> Seen | None:
    if not resent:
        return None
    usual = _usual_wait(group, resent)
    hit: dict[int, float] = {}
    segments = 0
    for link in group.links:
        for turn in link.turns:
            inside = _inside(resent.get(link.row, ()), turn)
            # the last one is what got through: until then nothing moved, unless the answer came as soon as others did
            waited = (max(inside, default=turn.sent_ns) - turn.sent_ns) / 1e6
            delay = min(waited, _wait(turn) - usual) if known(usual) else waited
            by_timer, on_path = waited >= _TIMER_MS, known(usual) and _round_trip(link) >= _PATH_MS
            if inside and delay >= max(_DELAY_MS, 0.5 * waited if by_timer else 0.9 * waited) and (by_timer or on_path):
                hit[link.row] = hit.get(link.row, 0.0) + delay
                segments += len(inside)
        for delay, count in _mended(case.rows["bursts"], link, theirs.get(link.row, ())):
            hit[link.row] = hit.get(link.row, 0.0) + delay
            segments += count
    late = [link for link in group.links if hit.get(link.row, 0.0) > 0]
    if segments < _LOST:
        return None
    return Seen(
        code="tcp.retransmits",
        links=tuple(late),
        count=segments,
        of=round(max(group.calls, len(late))),
        confidence=0.85,
        cost_ms=sum(hit.values()),
        note=f"{segments} segments sent again before the answer was whole",
        calls=max(group.calls, 1.0),
        host=group.host,
        process=group.process,
    )


def _inside(resent: Sequence[float], turn: Turn) -> list[float]:
    """Return the retransmissions between the first byte of a request and the first of its answer."""
    return [at for at in resent if turn.began_ns <= at <= turn.first_byte_ns]


def _usual_wait(group: Group, resent: dict[int, list[float]]) -> float:
    """Return what calls without retransmissions waited for their answers, ms; NaN where there are none."""
    waits = [
        _wait(turn)
        for link in group.links
        for turn in link.calls
        if turn.answered and not _inside(resent.get(link.row, ()), turn)
    ]
    return median(waits) if waits else math.nan


def _zero_window(group: Group) -> Seen | None:
    shut = [link for link in group.links if max(_shut(link), _held(link)) >= _WINDOW_MS]
    if not shut:
        return None
    ours, theirs = sum(map(_shut, shut)), sum(map(_held, shut))
    local = ours >= theirs
    return Seen(
        code="tcp.zero-window",
        links=tuple(shut),
        count=len(shut),
        of=len(group.links),
        confidence=0.85,
        cost_ms=max(ours, theirs),
        cause="program-reads-late" if local else "server-reads-late",
        note="the program's receive buffer was full" if local else "the server's receive buffer was full",
        calls=max(group.calls, 1.0),
        words={"who": "program" if local else "server"},
        host=group.host,
        process=group.process,
    )


def _shut(link: Link) -> float:
    return link.zero_window_ms if known(link.zero_window_ms) else 0.0


def _held(link: Link) -> float:
    """Return how long the peer's window held this side back; 0 where data went on fast: some side is always slower."""
    if not known(link.peer_window_ms) or link.bytes_sent > _FLOWS * link.peer_window_ms:
        return 0.0
    return link.peer_window_ms


def _nagle(group: Group) -> Seen | None:
    """Turns written in several calls wait 40 ms, while turns of one call (or before the delay sets in) do not."""
    # the smoothed round trip holds the delayed acknowledgements, the smallest does not
    near = [link for link in group.links if _round_trip(link) <= _FAST_MS]
    pieces = [(link, turn) for link in near for turn in link.calls if turn.sent_calls >= 2 and turn.answered]
    split = [(link, _wait(turn)) for link, turn in pieces]
    waits = [wait for link in near for turn in link.calls if known(wait := _wait(turn))]
    least = min(waits, default=0.0)
    slow = [(link, wait) for link, wait in split if _DELAYED_ACK[0] <= wait - least <= _DELAYED_ACK[1]]
    fast = [wait for wait in waits if wait - least <= _FAST_MS]
    if len(slow) < 10 or len(slow) < 0.8 * len(split) or len(slow) > 40 * len(fast) or _spread(slow) > 8.0:
        return None
    links = tuple(dict.fromkeys(link for link, _ in slow))
    return Seen(
        code="tcp.nagle",
        links=links,
        count=len(slow),
        of=round(max(group.calls, len(slow))),
        confidence=0.6,
        cost_ms=sum(wait - median(fast) for _, wait in slow),
        note=f"answers came after {median(wait for _, wait in slow):.0f} ms, others in {median(fast):.1f} ms",
        calls=max(group.calls, 1.0),
        host=group.host,
        process=group.process,
    )


def _wait(turn: Turn) -> float:
    """Return how long the answer took, ms. What packets show as sent late is what Nagle's algorithm held back."""
    since = turn.began_ns if 2 <= turn.sent_calls <= _FEW_WRITES else turn.sent_ns
    return (turn.first_byte_ns - since) / 1e6


def _spread(slow: Sequence[tuple[Link, float]]) -> float:
    waits = sorted(wait for _, wait in slow)
    return waits[len(waits) * 9 // 10] - waits[len(waits) // 10]
