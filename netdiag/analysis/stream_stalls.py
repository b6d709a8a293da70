# SPDX-License-Identifier: Apache-2.0
"""Stalls of streamed answers: a pause far above the others, and who is to blame for it: server, network or reader."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from netdiag.analysis.links import Link, known, number
from netdiag.analysis.stream_pieces import Lag, Piece, Streams, streams_of

if TYPE_CHECKING:
    from netdiag.analysis.case import Case

__all__ = ["LEAST_MS", "Blame", "Path", "Stall", "paths_of", "stalls_of", "told", "usual_ms"]

Blame = Literal["server", "network", "reader", "unknown"]
Floats = NDArray[np.float64]

_MS = 1e6
LEAST_MS = 300.0
_TIMES = 5.0
_EDGE_NS = 2e6
_MOST_OF = 0.5
_LATE_OF = 0.7
_TICKS_MS = (1.0, 4.0, 10.0, 0.001)
"""What a tick of the sender's time stamps may be: Linux 1 ms, older and other kernels 4 and 10, and microseconds."""
_CALIBRATE_NS = 200e6
_ROUGHLY = (0.7, 1.4)
_SHORTEST_TRIP_MS = 2.0
_ALONE_MS, _ALONE_TIMES = 200.0, 1.5
"""How long the shortest timer for one lost segment is (RFC 6298 as Linux has it)."""
_LEAST_DUE, _CAUGHT_UP = 3.0, 0.5
_MANY = 3
_TIMER_MS = 2000.0
"""A timer that rang several times: longer pauses of a way that loses data show in more than their end."""
_TRIP_OF = (0.4, 2.5)
_CATCH_UP_TRIPS = 6.0
_ALONE_OF = 0.4
_FULL = 0.6
_MORE = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """One pause, from the arrival before it to the arrival after it; ns since the start."""

    stream: Streams
    from_ns: float
    to_ns: float
    blame: Blame
    why: str
    sure: float
    """Confidence in the blame."""

    @property
    def ms(self) -> float:
        """Its length, ms."""
        return (self.to_ns - self.from_ns) / _MS

    @property
    def extra_ms(self) -> float:
        """What it took longer than the stream's usual pause, ms."""
        return max(0.0, self.ms - usual_ms(self.stream.gaps_ms))


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """What is known of the way of one connection's incoming data."""

    resent: tuple[float, ...] = ()
    """When segments were sent again, by either end that was traced; ns, sorted."""
    missing: tuple[tuple[float, float], ...] | None = None
    """When reads followed packets of the peer that never came, and how many those were; by time. None: it does not
    number its packets, or nobody looked."""
    behind: tuple[tuple[float, float], ...] = ()
    """When reads followed segments that had come out of order, and how many those were; by time."""
    ticks: tuple[tuple[float, float], ...] = ()
    """When data arrived, and the sender's time stamp on it; by time."""
    reads: tuple[tuple[float, float], ...] = ()
    """When data arrived, and how many bytes; by time."""
    watched: bool = False
    """Whether segments out of order would have been seen."""


def usual_ms(gaps: Sequence[float]) -> float:
    """Return the median pause, ms; 0 where there is none."""
    ordered = sorted(gaps)
    return ordered[len(ordered) // 2] if ordered else 0.0


def limit_ms(gaps: Sequence[float], index: int) -> float:
    """Return from which length on a pause is a stall: 300 ms, and five times the 95th percentile of the others."""
    others = sorted(gap for number_, gap in enumerate(gaps) if number_ != index)
    high = others[int(0.95 * (len(others) - 1))] if others else 0.0
    return max(LEAST_MS, _TIMES * high)


def stalls_of(stream: Streams, path: Path) -> tuple[Stall, ...]:
    """Return the stalls between tokens, each with its blame. Fewer than four pauses show no cadence, and no stall."""
    gaps = stream.gaps_ms
    if len(gaps) < 4 or max(gaps) < LEAST_MS:
        return ()
    tokens = stream.tokens
    found: list[Stall] = []
    for index, gap in enumerate(gaps):
        if gap >= LEAST_MS and gap >= limit_ms(gaps, index):
            found.append(_blamed(stream, tokens, index, path, found[-1] if found else None))
    return tuple(found)


def _blamed(stream: Streams, tokens: Sequence[Piece], index: int, path: Path, before: Stall | None) -> Stall:
    start, end = tokens[index].at_ns, tokens[index + 1].at_ns
    blame, why, sure = (
        _reader(stream, tokens[index + 1], start, end)
        or _recovering(stream, before, start, end)
        or _network(stream, path, start, end)
        or _rest(stream, path, end)
    )
    if blame == "unknown" and (end - start) / _MS >= _TIMER_MS:
        blame, why, sure = "server", f"no sign of loss on this side, {_window(stream.call.link)}", 0.75
    return Stall(stream=stream, from_ns=start, to_ns=end, blame=blame, why=why, sure=sure)


_Verdict = tuple[Blame, str, float]


def _reader(stream: Streams, after: Piece, start: float, end: float) -> _Verdict | None:
    link = stream.call.link
    unread = sum(max(0.0, min(lag.to_ns, end) - max(lag.from_ns, start)) for lag in stream.lags) / (end - start)
    if unread < _MOST_OF:
        return None
    if known(link.zero_window_ms) and link.zero_window_ms >= _MOST_OF * (end - start) / _MS:
        return "reader", "the receive buffer was full, so nothing more could come", 0.85
    if after.at_ns == after.read_ns:  # its arrival is not known
        return "reader", "data lay in the socket until the program read it", 0.8
    return None


def _recovering(stream: Streams, before: Stall | None, start: float, end: float) -> _Verdict | None:
    """Right after a pause by loss a timer that was doubled may have to ring again: for what was lost before."""
    if before is None or before.blame != "network" or _caught_up(stream, start, end) is False:
        return None
    trip = stream.call.link.rtt_ms if known(stream.call.link.rtt_ms) else 0.0
    if start - before.to_ns > (_CATCH_UP_TRIPS * trip + _cadence_ms(stream)) * _MS:
        return None
    return "network", "the connection had not recovered from the loss before", 0.8


def _network(stream: Streams, path: Path, start: float, end: float) -> _Verdict | None:
    link = stream.call.link
    signs, many = _signs(path, start, end, link)
    if signs and (many or _explains(stream, path, start, end)):
        return "network", signs, 0.9
    late = _late_ms(path, start, end)
    if late >= _LATE_OF * (end - start) / _MS:
        return "network", f"the server had sent it {late:.0f} ms earlier, by its own clock", 0.85
    if signs:
        return "server", f"{signs}, but it did not go on as if it had sent meanwhile", 0.7
    if path.missing is not None:
        return "server", f"every packet that the server sent came, {_window(link)}", 0.95
    if _slow_start(_reads(stream, path), start, end, link):
        return "network", "one segment, a round trip later all that had piled up: sent again after loss", 0.7
    return None


def _rest(stream: Streams, path: Path, end: float) -> _Verdict:
    link = stream.call.link
    if _near_end(_reads(stream, path), end, link):
        return "unknown", "too little came after it to tell a server that stopped from loss", 0.5
    if path.watched:
        return "server", f"no segment lost or sent again, {_window(link)}", 0.9
    return "server", f"no sign of loss on this side, {_window(link)}", 0.75


def _reads(stream: Streams, path: Path) -> Sequence[tuple[float, float]]:
    return path.reads or [(piece.at_ns, piece.bytes) for piece in stream.tokens if known(piece.bytes)]


def _window(link: Link) -> str:
    return "the window stood open" if not link.zero_window_ms else "the window was not the reason"


def _signs(path: Path, start: float, end: float, link: Link) -> tuple[str, bool]:
    """Return what in a pause shows loss, empty where nothing does; and whether that is more than chance brings."""
    lost = sum(count for at, count in path.missing or () if start < at <= end + _EDGE_NS)
    if lost:
        return f"{lost:.0f} {'packet' if lost == 1 else 'packets'} of the server never came", lost >= _MANY
    # what came behind a hole may be counted a moment after the hole was filled
    edge = _EDGE_NS + (2 * link.rtt_ms * _MS if known(link.rtt_ms) else 0.0)
    behind = sum(count for at, count in path.behind if start < at <= end + edge)
    first, last = bisect_left(path.resent, start), bisect_right(path.resent, end)
    resent = last - first
    if not resent and not behind:
        return "", False
    how = "sent again" if resent else "out of order: others before them were lost"
    early = bool(resent) and path.resent[first] <= (start + end) / 2  # something was under way then
    many = early or resent >= _MANY or behind >= _MANY
    return f"{resent or behind:.0f} {'segment' if resent + behind == 1 else 'segments'} {how}", many


def _explains(stream: Streams, path: Path, start: float, end: float) -> bool:
    """Tell whether a little loss is what a pause is from, not what befell the first packets after it.

    Where that can't be seen, a pause is as long as one lost packet can make it, or several are lost.
    """
    caught_up = _caught_up(stream, start, end)
    if caught_up is not None:
        return caught_up
    link = stream.call.link
    trip = link.rtt_ms if known(link.rtt_ms) else 0.0
    lost = sum(count for at, count in path.missing or () if start < at <= end + _EDGE_NS)
    most = _ALONE_TIMES * (_cadence_ms(stream) + _ALONE_MS + 2 * trip)
    return path.missing is None or lost > 1 or (end - start) / _MS < most


def _caught_up(stream: Streams, start: float, end: float) -> bool | None:
    """Tell whether what was due came right after a pause; None: not much was due, or the stream was over.

    Where the way stood still the server went on, and what is due comes as soon as the way is open again; where the
    server stood still nothing is due.
    """
    usual = _cadence_ms(stream)
    due = (end - start) / _MS / usual - 1 if usual > 0 else 0.0
    if due < _LEAST_DUE:
        return None
    trip = stream.call.link.rtt_ms if known(stream.call.link.rtt_ms) else 0.0
    until = end + max(_CATCH_UP_TRIPS * trip, 2 * usual) * _MS
    came, last = _events(stream, end - _EDGE_NS, until)
    if came - 1 - (last - end) / _MS / usual >= _CAUGHT_UP * due:
        return True
    return False if stream.tokens[-1].at_ns > until else None


def _cadence_ms(stream: Streams) -> float:
    """Return the usual pause between tokens that did not come at once, ms."""
    return usual_ms([gap for gap in stream.gaps_ms if gap >= 1.0])


def _events(stream: Streams, start: float, end: float) -> tuple[float, float]:
    """Return how many events came from `start` to `end` (where they are not told: usual pieces), and when the last."""
    inside = [piece for piece in stream.tokens if start <= piece.at_ns <= end]
    sizes = sorted(piece.bytes for piece in stream.tokens if known(piece.bytes))
    usual = max(sizes[len(sizes) // 2], 1.0) if sizes else 1.0
    count = sum(p.events if known(p.events) else p.bytes / usual if known(p.bytes) else 1.0 for p in inside)
    return count, inside[-1].at_ns if inside else end


def _near_end(reads: Sequence[tuple[float, float]], end: float, link: Link) -> bool:
    """Tell whether the data ends so soon after a pause on a long way that nothing shows what had piled up."""
    trips = _CATCH_UP_TRIPS * link.rtt_ms * _MS
    return link.rtt_ms >= _SHORTEST_TRIP_MS and bool(reads) and reads[-1][0] <= end + trips


def _late_ms(path: Path, start: float, end: float) -> float:
    """Return how much of a pause lies between the sender's clock and the arrival, ms; 0 where no clock is known."""
    times = path.ticks
    at = [when for when, _ in times]
    before, after = bisect_right(at, start + _EDGE_NS) - 1, bisect_left(at, end - _EDGE_NS)
    if before < 0 or after >= len(times) or after <= before:
        return 0.0
    pause, ticks_in_it = times[after][0] - times[before][0], times[after][1] - times[before][1]
    # how long a tick is shows outside the pause
    elapsed = times[-1][0] - times[0][0] - pause
    ticks = times[-1][1] - times[0][1] - ticks_in_it
    if elapsed < _CALIBRATE_NS or ticks <= 0 or ticks_in_it < 0:
        return 0.0
    measured = elapsed / _MS / ticks
    tick = min(_TICKS_MS, key=lambda size: abs(measured / size - 1.0))
    if not _ROUGHLY[0] <= measured / tick <= _ROUGHLY[1]:
        return 0.0
    return max(0.0, pause / _MS - ticks_in_it * tick)


def _slow_start(reads: Sequence[tuple[float, float]], start: float, end: float, link: Link) -> bool:
    """Tell whether a pause ends as a retransmission timer does: one segment, a round trip, then what had piled up.

    The server had gone on meanwhile: what comes within a few round trips is what was due. A server that had stood
    still has nothing to catch up on, and a program that held all back sends it at once. `reads` are arrivals and bytes
    of all data on the connection, by time.
    """
    at = [when for when, _ in reads]
    index = bisect_left(at, end - _EDGE_NS)
    if index + 1 >= len(reads) or not link.rtt_ms >= _SHORTEST_TRIP_MS:
        return False
    trip_ns = link.rtt_ms * _MS
    first, second = reads[index], reads[index + 1]
    sizes = sorted(size for _, size in reads)
    usual = max(sizes[len(sizes) // 2], 1.0)
    pauses = sorted(b - a for a, b in pairwise(at))
    due = (end - start) / max(pauses[len(pauses) // 2], _MS)
    segment = max(link.mss if known(link.mss) else 0.0, 2 * usual)
    until = first[0] + _CATCH_UP_TRIPS * trip_ns
    caught_up = sum(size for _, size in reads[index : bisect_right(at, until)])
    alone = sum(size for _, size in reads[index : bisect_right(at, first[0] + _ALONE_OF * trip_ns)])
    one_trip = _TRIP_OF[0] * trip_ns <= second[0] - first[0] <= _TRIP_OF[1] * trip_ns
    full = known(link.mss) and alone >= _FULL * link.mss
    enough = 3.0 if at[-1] <= until else max(3.0, 0.3 * due)
    return (one_trip or full) and alone <= segment and second[1] >= _MORE * usual and caught_up >= enough * usual


def told(case: Case) -> dict[int, list[dict[str, object]]]:
    """Return the stalls of every stream as `requests[].stream.stalls` tells them, by row of requests.

    What lay unread for as long as a stall is one, too: the reader's.
    """
    found: dict[int, list[dict[str, object]]] = {}
    calls = [call for asked in case.asked.values() for call in asked]
    streams = streams_of(case, calls)
    paths = paths_of(case, (stream.call.link for stream in streams))
    for stream in streams:
        stalls = [
            (stall.from_ns, stall.ms, str(stall.blame), stall.why)
            for stall in stalls_of(stream, paths[stream.call.link.row])
            if stall.blame != "reader" or not any(lag.ms >= LEAST_MS and _meets(lag, stall) for lag in stream.lags)
        ]
        late = [lag for lag in stream.lags if lag.ms >= LEAST_MS]
        stalls += [(lag.from_ns, lag.ms, "reader", "data lay in the socket until the program read it") for lag in late]
        found[stream.call.row] = [
            {
                "at_ms": (at - stream.call.sent_ns) / _MS,
                "gap_ms": ms,
                "blame": None if blame == "unknown" else blame,
                "why": why,
            }
            for at, ms, blame, why in sorted(stalls)
        ]
    return found


def _meets(lag: Lag, stall: Stall) -> bool:
    return lag.from_ns < stall.to_ns and stall.from_ns < lag.to_ns


def paths_of(case: Case, links: Iterable[Link]) -> Mapping[int, Path]:
    """Return what is known of the way of these connections, by row."""
    resent, reads = case.rows["retransmits"], case.rows["bursts"]
    ends = _ends(case) if resent else {}
    found: dict[int, Path] = {}
    for link in links:
        if link.row in found:
            continue
        twin = ends.get((link.remote_ip, link.remote_port, link.local_ip, link.local_port))
        mine = reads.received(link.row)
        names = ("arrived_ns", "ended_ns", "out_of_order", "sent_tick", "bytes", "missing")
        arrived, ended, strays, tick, size, gone = (reads.part(link.row, name)[mine] for name in names)
        again = [number(at) for end in (link.row, twin) if end is not None for (at,) in resent.of(end, "at_ns")]
        there = ~np.isnan(arrived)
        at = np.where(there, arrived, ended)
        found[link.row] = Path(
            resent=tuple(sorted(again)),
            missing=_missing(at, gone),
            behind=_pairs(at, strays, strays > 0),
            ticks=_pairs(arrived, tick, there & (tick > 0)),
            reads=_pairs(arrived, size, there),
            watched=not np.isnan(strays).all(),
        )
    return found


def _ends(case: Case) -> Mapping[tuple[object, ...], int]:
    """Return the connections by their addresses where both ends were traced, else none; built once a case."""
    memo, key = case.rows.memo, ("ends", 0.0)
    if key not in memo:
        links = case.links if any(link.role == "server" for link in case.links) else ()
        memo[key] = {(one.local_ip, one.local_port, one.remote_ip, one.remote_port): one.row for one in links}
    found: Mapping[tuple[object, ...], int] = memo[key]
    return found


def _missing(at: Floats, count: Floats) -> tuple[tuple[float, float], ...] | None:
    """Return when packets were missing, and how many; None where the numbers tell nothing, to the end or ever."""
    return None if not len(count) or np.isnan(count[-1]) else _pairs(at, count, count > 0)


def _pairs(at: Floats, values: Floats, which: NDArray[np.bool_]) -> tuple[tuple[float, float], ...]:
    """Return instants with their values, by time."""
    return tuple(sorted(zip(at[which].tolist(), values[which].tolist(), strict=True))) if which.any() else ()
