# SPDX-License-Identifier: Apache-2.0
"""Streamed answers as they arrived: their pieces, when the program read them, and when data lay unread.

The pieces are chunks where the plaintext was seen; else runs of TLS records, or of plain reads, with pauses of a
millisecond between them: then nobody knows what they say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import sub
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from netdiag.analysis.http_calls import Asked
from netdiag.analysis.http_rows import Rows
from netdiag.analysis.links import NAN, known, number, text

if TYPE_CHECKING:
    from netdiag.analysis.case import Case

__all__ = ["SPOKEN", "Lag", "Piece", "Runs", "Streams", "streams_of"]

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
SPOKEN = frozenset({"content", "reasoning"})
_SILENT = frozenset({"role", HEARTBEAT, "done"})


Floats = NDArray[np.float64]


class Piece(NamedTuple):
    """One piece of a streamed answer. Instants in ns since the start, NaN = not known.

    A tuple, for a trace may have hundreds of thousands of them.
    """

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


class Runs(Sequence[Piece]):
    """Pieces of which only instants and sizes are known, as columns: a trace may have millions."""

    def __init__(self, at: Floats, size: Floats) -> None:
        """Hold instants and bytes, by time."""
        self.at, self._size = at, size

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.at)

    @overload
    def __getitem__(self, index: int) -> Piece: ...
    @overload
    def __getitem__(self, index: slice) -> Runs: ...
    def __getitem__(self, index: int | slice) -> Piece | Runs:
        """Return one piece, or some."""
        if isinstance(index, slice):
            return Runs(self.at[index], self._size[index])
        return Piece(float(self.at[index]), NAN, float(self._size[index]), None, NAN, NAN)

    def __iter__(self) -> Iterator[Piece]:
        """Return all of them, one by one."""
        for at, size in zip(self.at.tolist(), self._size.tolist(), strict=True):
            yield Piece(at, NAN, size, None, NAN, NAN)

    def gaps_ms(self) -> tuple[float, ...]:
        """Return the pauses between them."""
        return tuple((np.diff(self.at) / _MS).tolist())


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
    pieces: Sequence[Piece]
    lags: tuple[Lag, ...]
    told: bool = field(init=False, compare=False, repr=False)
    """What the pieces say is known."""
    tokens: Sequence[Piece] = field(init=False, compare=False, repr=False)
    """The pieces with content or reasoning; where none is told, all but those that hold nothing."""
    _gaps: tuple[float, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Work out what is asked for again and again."""
        if isinstance(self.pieces, Runs):
            object.__setattr__(self, "told", False)
            object.__setattr__(self, "tokens", self.pieces)
            object.__setattr__(self, "_gaps", ())
            return
        kinds = {piece.kind for piece in self.pieces}
        tokens = self.pieces
        if kinds & SPOKEN:
            tokens = tuple(piece for piece in tokens if piece.kind in SPOKEN)
        elif kinds & _SILENT:
            tokens = tuple(piece for piece in tokens if piece.kind not in _SILENT)
        at = [piece.at_ns for piece in tokens]
        object.__setattr__(self, "told", any(kinds))
        object.__setattr__(self, "tokens", tokens)
        object.__setattr__(self, "_gaps", tuple([pause / _MS for pause in map(sub, at[1:], at)]))

    @property
    def gaps_ms(self) -> tuple[float, ...]:
        """Pauses between the arrivals of tokens, ms."""
        return self.pieces.gaps_ms() if isinstance(self.pieces, Runs) else self._gaps

    @property
    def counted(self) -> bool:
        """Events in its pieces may have been counted."""
        return not isinstance(self.pieces, Runs)

    @property
    def first_token_ms(self) -> float:
        """From the last byte of the request to the first token's arrival (the first piece where none is told)."""
        tokens = self.tokens
        if not tokens or not known(self.call.sent_ns):
            return NAN
        first = tokens[0].token_ns if known(tokens[0].token_ns) else tokens[0].at_ns
        return (first - self.call.sent_ns) / _MS


def streams_of(case: Case, calls: Iterable[Asked]) -> tuple[Streams, ...]:
    """Return those calls whose answers came in pieces."""
    calls = [call for call in calls if call.answered]
    if not calls:
        return ()
    memo = case.rows.memo
    found = []
    for call in calls:
        key = ("stream", float(call.row))
        if key not in memo:
            memo[key] = _stream_of(case, call)
        one = memo[key]
        if one is not None:
            found.append(one if one.call is call else replace(one, call=call))
    return tuple(found)


def _stream_of(case: Case, call: Asked) -> Streams | None:
    """Return a call whose answer came in pieces."""
    chunks, records, bursts = case.rows["chunks"], case.rows["records"], case.rows["bursts"]
    mine = chunks.of(call.row, "at_ns", "read_ns", "bytes", "kind", "events", "token_ns") if chunks else []
    maybe = mine or call.source == "sockets" or (call.source == "records" and call.stream is not None)
    if not maybe:
        return None
    pieces: Sequence[Piece]
    if mine:
        pieces = _of_chunks(mine)
    elif call.source == "records":
        pieces = _of_records(call, records)
    else:
        pieces = _of_reads(call, bursts)
    return Streams(call=call, pieces=pieces, lags=_lags(call, bursts, pieces)) if pieces else None


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


def _of_records(call: Asked, records: Rows) -> Runs:
    """Return runs of records; the head of the answer is no piece of it where it came alone."""
    row = call.link.row
    at = records.part(row, "at_ns")
    mine = (at >= call.first_byte_ns) & (at <= call.ended_ns)
    mine &= records.received(row) & (records.part(row, "type") == _APPLICATION_DATA)
    runs = _runs(at[mine], records.part(row, "length")[mine] + _HEADER)
    return runs if known(call.fact("first_chunk_ms")) else runs[1:]


def _of_reads(call: Asked, bursts: Rows) -> Sequence[Piece]:
    """Return runs of plain reads where they look like a stream."""
    row = call.link.row
    began, arrived = bursts.part(row, "began_ns"), bursts.part(row, "arrived_ns")
    mine = bursts.received(row) & (began >= call.first_byte_ns - _SLACK_NS)
    mine &= bursts.part(row, "ended_ns") <= call.ended_ns + _SLACK_NS
    pieces = _runs(np.where(np.isnan(arrived), began, arrived)[mine], bursts.part(row, "bytes")[mine])
    if len(pieces) < _MIN_PIECES or pieces[-1].at_ns - pieces[0].at_ns < _MIN_LENGTH_NS:
        return ()
    sizes = sorted(piece.bytes for piece in pieces)
    return () if sizes[len(sizes) // 2] > _BULK else pieces


def _runs(at: Floats, size: Floats) -> Runs:
    """Return what came with pauses before it as one piece each."""
    if not len(at):
        return Runs(at, size)
    if (at[1:] < at[:-1]).any():
        order = np.argsort(at, kind="stable")
        at, size = at[order], size[order]
    starts = np.flatnonzero(np.append(True, ~(at[1:] - at[:-1] < _PAUSE_NS)))
    return Runs(at[starts], np.add.reduceat(size, starts))


def _lags(call: Asked, bursts: Rows, pieces: Sequence[Piece]) -> tuple[Lag, ...]:
    """Return when data lay unread during the answer: from the kernel's reads, else from the chunks. Overlaps joined."""
    row = call.link.row
    mine = bursts.received(row)
    start, end = bursts.part(row, "arrived_ns"), bursts.part(row, "began_ns")
    lay = mine & (end >= call.first_byte_ns - _SLACK_NS) & (start <= call.ended_ns)
    spans: list[tuple[float, float, float]] = []
    if lay.any():
        columns = (np.maximum(start[lay], call.first_byte_ns), end[lay], bursts.part(row, "tid")[lay])
        spans = list(zip(*(column.tolist() for column in columns), strict=True))
    elif not mine.any():
        spans = [(p.at_ns, p.read_ns, NAN) for p in pieces if known(p.read_ns) and p.read_ns > p.at_ns]
    joined: list[Lag] = []
    for start_ns, end_ns, tid in sorted(spans, key=lambda span: span[:2]):
        if joined and start_ns <= joined[-1].to_ns:
            before = joined.pop()
            joined.append(Lag(from_ns=before.from_ns, to_ns=max(before.to_ns, end_ns), tid=before.tid))
        elif end_ns > start_ns:
            joined.append(Lag(from_ns=start_ns, to_ns=end_ns, tid=tid))
    return tuple(joined)
