# SPDX-License-Identifier: Apache-2.0
"""Streamed answers as they arrived: their pieces, when the program read them, and when data lay unread.

The pieces are chunks where the plaintext was seen; else runs of TLS records, or of plain reads, with pauses of a
millisecond between them: then nobody knows what they say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from netdiag.analysis.http_calls import Asked
from netdiag.analysis.links import NAN, known, number, text

if TYPE_CHECKING:
    from netdiag.analysis.case import Case

__all__ = ["Lag", "Piece", "Streams", "streams_of"]

_MS = 1e6
_PAUSE_NS = 1e6
_APPLICATION_DATA = 23
_HEADER = 5
_MIN_PIECES = 5
_MIN_LENGTH_NS = 50e6
_SLACK_NS = 1e6
_BULK = 8192
"""Plain reads that are mostly larger than this carry a body, no stream."""

HEARTBEAT = "heartbeat"
_SPOKEN = frozenset({"content", "reasoning"})
_SILENT = frozenset({"role", HEARTBEAT, "done"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One piece of a streamed answer. Instants in ns since the start, NaN = not known."""

    at_ns: float
    """Arrival at the socket; the read where the arrival was not seen."""
    read_ns: float
    bytes: float
    kind: str | None
    """`content`, `reasoning`, `role`, `usage`, `heartbeat`, `done`, `error`, `other`; None: nobody knows."""
    events: float
    """Events that ended in it, NaN = not known."""
    token_ns: float
    """Arrival of the first event with content in it, NaN where there is none."""

    @property
    def heartbeat(self) -> bool:
        """It only says that the server lives."""
        return self.kind == HEARTBEAT


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """A time in which data lay in the socket unread, ns."""

    from_ns: float
    to_ns: float
    tid: float

    @property
    def ms(self) -> float:
        """Its length, ms."""
        return (self.to_ns - self.from_ns) / _MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """A streamed call with its pieces by time."""

    call: Asked
    pieces: tuple[Piece, ...]
    lags: tuple[Lag, ...]

    @property
    def told(self) -> bool:
        """What the pieces say is known."""
        return any(piece.kind for piece in self.pieces)

    @property
    def tokens(self) -> tuple[Piece, ...]:
        """The pieces with content or reasoning; where none is told, all but those that hold nothing."""
        spoken = tuple(piece for piece in self.pieces if piece.kind in _SPOKEN)
        return spoken or tuple(piece for piece in self.pieces if piece.kind not in _SILENT)

    @property
    def first_token_ms(self) -> float:
        """From the last byte of the request to the first token's arrival (the first piece where none is told)."""
        tokens = self.tokens
        if not tokens or not known(self.call.sent_ns):
            return NAN
        first = tokens[0].token_ns if known(tokens[0].token_ns) else tokens[0].at_ns
        return (first - self.call.sent_ns) / _MS

    @property
    def gaps_ms(self) -> tuple[float, ...]:
        """Pauses between the arrivals of tokens, ms."""
        at = [piece.at_ns for piece in self.tokens]
        return tuple((later - earlier) / _MS for earlier, later in pairwise(at))


def streams_of(case: Case, calls: Iterable[Asked]) -> tuple[Streams, ...]:
    """Return those calls whose answers came in pieces."""
    calls = [call for call in calls if call.answered]
    if not calls:
        return ()
    memo = case.rows.memo
    reads: dict[int, list[tuple[object, ...]]] = {}
    found = []
    for call in calls:
        key = ("stream", float(call.row))
        if key not in memo:
            memo[key] = _stream_of(case, call, reads)
        one = memo[key]
        if one is not None:
            found.append(one if one.call is call else replace(one, call=call))
    return tuple(found)


def _stream_of(case: Case, call: Asked, reads: dict[int, list[tuple[object, ...]]]) -> Streams | None:
    """Return a call whose answer came in pieces; `reads` keeps what was read on connections for the next call."""
    chunks, records, bursts = case.rows["chunks"], case.rows["records"], case.rows["bursts"]
    mine = chunks.of(call.row, "at_ns", "read_ns", "bytes", "kind", "events", "token_ns") if chunks else []
    maybe = mine or call.source == "sockets" or (call.source == "records" and call.stream is not None)
    if not maybe:
        return None
    at = call.link.row
    if at not in reads:
        rows = bursts.of(at, "direction", "arrived_ns", "began_ns", "ended_ns", "bytes", "tid")
        reads[at] = [row for row in rows if row[0] == "receive"]
    around = reads[at]
    if mine:
        pieces = _of_chunks(mine)
    elif call.source == "records":
        pieces = _of_records(call, records.of(at, "at_ns", "direction", "type", "length"))
    else:
        pieces = _of_reads(call, around)
    return Streams(call=call, pieces=pieces, lags=_lags(call, around, pieces)) if pieces else None


def _of_chunks(rows: Sequence[tuple[object, ...]]) -> tuple[Piece, ...]:
    found = []
    for at, read, size, kind, events, token in rows:
        arrived, had = number(at), number(read)
        when = arrived if known(arrived) else had
        if known(when):
            piece = Piece(
                at_ns=when,
                read_ns=had,
                bytes=number(size),
                kind=text(kind),
                events=number(events),
                token_ns=number(token),
            )
            found.append(piece)
    return tuple(sorted(found, key=lambda piece: piece.at_ns))


def _of_records(call: Asked, rows: Sequence[tuple[object, ...]]) -> tuple[Piece, ...]:
    """Return runs of records; the head of the answer is no piece of it where it came alone."""
    data = [
        (number(at), number(length) + _HEADER)
        for at, direction, kind, length in rows
        if direction == "receive" and kind == _APPLICATION_DATA and call.first_byte_ns <= number(at) <= call.ended_ns
    ]
    runs = _runs(data)
    return tuple(runs if known(call.fact("first_chunk_ms")) else runs[1:])


def _of_reads(call: Asked, rows: Sequence[tuple[object, ...]]) -> tuple[Piece, ...]:
    """Return runs of plain reads where they look like a stream."""
    inside = [
        (number(arrived) if known(number(arrived)) else number(began), number(size))
        for _, arrived, began, ended, size, _tid in rows
        if call.first_byte_ns - _SLACK_NS <= number(began) and number(ended) <= call.ended_ns + _SLACK_NS
    ]
    pieces = _runs(inside)
    if len(pieces) < _MIN_PIECES or pieces[-1].at_ns - pieces[0].at_ns < _MIN_LENGTH_NS:
        return ()
    sizes = sorted(piece.bytes for piece in pieces)
    return () if sizes[len(sizes) // 2] > _BULK else tuple(pieces)


def _runs(data: Sequence[tuple[float, float]]) -> list[Piece]:
    runs: list[Piece] = []
    last = NAN
    for at, size in sorted(data):
        if runs and at - last < _PAUSE_NS:
            before = runs.pop()
            runs.append(_run(before.at_ns, before.bytes + size))
        else:
            runs.append(_run(at, size))
        last = at
    return runs


def _run(at: float, size: float) -> Piece:
    return Piece(at_ns=at, read_ns=NAN, bytes=size, kind=None, events=NAN, token_ns=NAN)


def _lags(call: Asked, rows: Sequence[tuple[object, ...]], pieces: Sequence[Piece]) -> tuple[Lag, ...]:
    """Return when data lay unread during the answer: from the kernel's reads, else from the chunks. Overlaps joined."""
    spans: list[tuple[float, float, float]] = []
    for _, arrived, began, _ended, _size, tid in rows:
        start, end = number(arrived), number(began)
        if known(start) and call.first_byte_ns - _SLACK_NS <= end and start <= call.ended_ns:
            spans.append((max(start, call.first_byte_ns), end, number(tid)))
    if not rows:
        spans = [(p.at_ns, p.read_ns, NAN) for p in pieces if known(p.read_ns) and p.read_ns > p.at_ns]
    joined: list[Lag] = []
    for start, end, tid in sorted(spans, key=lambda span: span[:2]):
        if joined and start <= joined[-1].to_ns:
            before = joined.pop()
            joined.append(Lag(from_ns=before.from_ns, to_ns=max(before.to_ns, end), tid=before.tid))
        elif end > start:
            joined.append(Lag(from_ns=start, to_ns=end, tid=tid))
    return tuple(joined)
