# SPDX-License-Identifier: Apache-2.0
"""Sequence numbers: what each segment brings that is new, what came again, what came out of turn, what never came.

Most directions of most connections are in order within a batch, and are judged for all segments at once. A direction
with a gap or a repetition is put in order one segment after the other, by a `Mender`, which keeps what came early until
what lies before it is there - or until the other side acknowledged it although the file does not hold it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netdiag.capture.flows import ACK, FIN, RST, SYN, Flows, Sorted

__all__ = ["Mender", "Order", "Piece", "Sequences"]

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

Piece = tuple[int, int, int, int, bytes, int]
"""Offset in the direction, bytes that passed, bytes that are held, instant, and where they are: buffer, place."""

_WORD = 0xFFFFFFFF
_SPREAD = 1 << 33
_FARTHEST = 1 << 30
"""A segment farther ahead than this belongs to nothing that was seen."""
_LONGEST_COPY_NS = 1_000_000
_BLIND_COPY_NS = 500_000
"""A packet that was captured twice is there again after less than this; the shorter time where no number tells."""
_OUT_OF_TURN_NS = 3_000_000
_MOST_EARLY = 1 << 19
"""Bytes of one direction that are kept because something before them is missing."""
_MOST_PARTS = 4096
_REMEMBERED = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a batch's segments are; columns as in `Sorted`, one element a segment."""

    offset: Ints
    """Of the first payload byte in its direction."""
    new: Ints
    """Bytes that were not seen before."""
    groups: Ints
    """Indexes of the segments by direction of each connection, then in order of time."""
    group_starts: Ints
    """Where each of those groups begins in `groups`."""
    group_ends: Ints
    mended: dict[int, list[Piece]]
    """By number of the group: what became whole in directions that were not in order."""
    resent: list[tuple[int, int, int, int]]
    """Flow, direction, instant and bytes of each segment that was sent again before it had been acknowledged."""
    probes: Ints
    """Indexes of keep-alive probes."""


class Sequences:
    """Follows the sequence numbers of all connections."""

    def __init__(self, flows: Flows) -> None:
        self._flows = flows
        self._menders: dict[tuple[int, int], Mender] = {}

    def order(self, s: Sorted) -> Order:
        """Judge the segments of a batch, and keep for the next one what is needed."""
        flows, key = self._flows, s.run * 2 + s.direction
        groups = np.argsort(key, kind="stable")
        starts = np.flatnonzero(_changed(key[groups]))
        ends = np.append(starts[1:], len(groups)) if len(starts) else starts
        first = groups[starts]
        flow, direction = s.flow[first], s.direction[first]
        self._begin(s, first, flow, direction)
        base, expected = flows.base[flow, direction], flows.next[flow, direction]
        heard = flows.acked[flow, direction]  # before this batch
        group = np.repeat(np.arange(len(starts)), ends - starts)
        seq, flags, length = s.seq[groups], s.flags[groups], s.length[groups]
        syn, fin = (flags & SYN != 0).astype(np.int64), (flags & FIN != 0).astype(np.int64)
        ahead = (seq - base[group] - expected[group]) & _WORD
        ahead = np.where(ahead > _WORD >> 1, ahead - _WORD - 1, ahead)
        place = ahead + syn  # of the payload, from what was expected when the batch began
        end = place + length + fin
        moves = ((length + fin + syn) > 0) & (flags & RST == 0) & (place < _FARTHEST)
        seen = _running(np.where(moves, end, -_SPREAD // 2), group, starts)
        data = moves & (length > 0)
        odd = data & (place != seen)
        probes = (length <= 1) & (place == seen - 1) & (flags & (SYN | FIN | RST) == 0) & (flags & ACK != 0)
        new = np.where(data, length, 0)
        offset = place + expected[group]
        dirty = np.zeros(len(starts), bool)
        dirty[group[odd & ~probes]] = True
        new[probes] = 0
        if self._menders:
            for number, pair in enumerate(zip(flow.tolist(), direction.tolist(), strict=True)):
                dirty[number] |= pair in self._menders and self._menders[pair].waits
        reach = np.maximum.reduceat(np.where(moves, end, -_SPREAD // 2), starts) if len(starts) else starts
        flows.next[flow, direction] = np.maximum(expected, expected + reach)
        self._acknowledge(s, groups, starts, group, flow, direction)
        columns = _Columns(s, groups, offset, length, new)
        mended: dict[int, list[Piece]] = {}
        resent: list[tuple[int, int, int, int]] = []
        for number in np.flatnonzero(dirty).tolist():
            one, side = int(flow[number]), int(direction[number])
            mender = self._menders.get((one, side))
            if mender is None:
                mender = self._menders[one, side] = Mender(int(expected[number]))
            elif not mender.waits:
                mender.next = mender.high = int(expected[number])
            span = slice(int(starts[number]), int(ends[number]))
            chosen = np.arange(span.start, span.stop)[data[span] & ~probes[span]]
            mended[number] = mender.take(columns, chosen, self._round_trip(one), int(flows.acked[one, side]))
            again = _unheard(s, groups, mender.resent, int(first[number]), int(base[number]), int(heard[number]))
            resent += [(one, side, at, size) for at, size in again]
            flows.resent[one, side] += len(mender.resent)
        self._note(s, groups, starts, flow, direction, new)
        result_offset, result_new = np.empty_like(offset), np.empty_like(new)
        result_offset[groups], result_new[groups] = offset, new
        return Order(
            offset=result_offset,
            new=result_new,
            groups=groups,
            group_starts=starts,
            group_ends=ends,
            mended=mended,
            resent=resent,
            probes=groups[probes],
        )

    def rest(self) -> Iterator[tuple[int, int, list[Piece]]]:
        """Yield flow, direction and what came early and was never joined to what lies before it."""
        for (flow, direction), mender in self._menders.items():
            if mender.waits:
                yield flow, direction, mender.give_up()

    @property
    def holes(self) -> int:
        """How many times packets passed that the file does not hold: what they brought was acknowledged."""
        return sum(mender.holes for mender in self._menders.values())

    def _begin(self, s: Sorted, first: Ints, flow: Ints, direction: Ints) -> None:
        """Learn where directions begin that were not seen before."""
        flows = self._flows
        unknown = flows.base[flow, direction] < 0
        if not unknown.any():
            return
        index, flow, direction = first[unknown], flow[unknown], direction[unknown]
        syn = s.flags[index] & SYN != 0
        flows.base[flow, direction] = (s.seq[index] + syn) & _WORD
        answered = syn & (s.flags[index] & ACK != 0)
        other = 1 - direction
        alone = answered & (flows.base[flow, other] < 0)
        flows.base[flow[alone], other[alone]] = s.ack[index[alone]]

    def _acknowledge(self, s: Sorted, groups: Ints, starts: Ints, group: Ints, flow: Ints, direction: Ints) -> None:
        """Note how far each side has acknowledged what the other one sent."""
        flows, other = self._flows, 1 - direction
        base, at = flows.base[flow, other], flows.acked[flow, other]
        known = base >= 0
        ahead = (s.ack[groups] - base[group] - at[group]) & _WORD
        ahead = np.where((ahead > _FARTHEST) | (s.flags[groups] & ACK == 0), 0, ahead)
        reach = np.maximum.reduceat(ahead, starts) if len(starts) else starts
        flows.acked[flow[known], other[known]] = (at + reach)[known]

    def _round_trip(self, number: int) -> int:
        """Return the round trip of a connection's opening, ns; 0 where it was not seen."""
        flow = self._flows.all[number]
        return max(flow.established_ns - flow.last_syn_ns, 0) if flow.last_syn_ns and flow.established_ns else 0

    def _note(self, s: Sorted, groups: Ints, starts: Ints, flow: Ints, direction: Ints, new: Ints) -> None:
        """Count the bytes of each direction, and note when the first and the last ones passed."""
        flows = self._flows
        if not len(starts):
            return
        time = s.time[groups]
        flows.bytes[flow, direction] += np.add.reduceat(new, starts)
        has = new > 0
        late = np.maximum.reduceat(np.where(has, time, 0), starts)
        early = np.minimum.reduceat(np.where(has, time, np.iinfo(np.int64).max), starts)
        some = late > 0
        flows.last[flow[some], direction[some]] = late[some]
        fresh = some & (flows.first[flow, direction] == 0)
        flows.first[flow[fresh], direction[fresh]] = early[fresh]


class _Columns:
    """Columns of the segments by group, for those that are looked at one by one."""

    def __init__(self, s: Sorted, groups: Ints, offset: Ints, length: Ints, new: Ints) -> None:
        self.raw, self.new = s.raw, new
        self._s, self._groups, self._offset, self._length = s, groups, offset, length

    def rows(self, chosen: Ints) -> list[tuple[int, int, int, int, int, int, int]]:
        """Return index, offset, length, bytes held, instant, place and IP number of the chosen segments."""
        at = self._groups[chosen]
        s = self._s
        columns = (chosen, self._offset[chosen], self._length[chosen], s.held[at], s.time[at], s.payload[at])
        return list(zip(*(column.tolist() for column in columns), s.number[at].tolist(), strict=True))


class Mender:
    """Puts one direction in order."""

    def __init__(self, expected: int) -> None:
        self.next = expected
        """Up to here all is there."""
        self.high = expected
        """Up to here something was seen."""
        self._early: list[tuple[int, int, bytes, int]] = []
        """What came before its turn, by offset: offset, length, what is held of it, instant."""
        self._size = 0
        self._recent: dict[tuple[int, int], tuple[int, int]] = {}
        self._last_number = 0
        self._high_ns = 0
        self._now = 0
        self.holes = 0
        """Places where bytes passed that the file does not hold."""
        self.resent: list[tuple[int, int, int, int]] = []
        """Instant, bytes, offset of the end and index of the segments that `take` found to be sent again."""

    @property
    def waits(self) -> bool:
        """Something is missing before what is there."""
        return bool(self._early)

    def take(self, columns: _Columns, chosen: Ints, round_trip: int, acked: int) -> list[Piece]:
        """Take segments in order of time; return what is in order now. Corrects which bytes are new."""
        self.resent = []
        out: list[Piece] = []
        patience = max(_OUT_OF_TURN_NS, round_trip * 9 // 10)
        for index, offset, length, held, at, place, number in columns.rows(chosen):
            end = offset + length
            if self._is_copy(offset, length, at, number):
                columns.new[index] = 0
                continue
            if offset < self.high and offset + length > 0:
                soon = at - self._high_ns < patience
                later = number and self._last_number and 0 < (number - self._last_number) & 0xFFFF < 0x8000
                if not soon or later or end <= self.next:
                    self.resent.append((at, length, end, index))
            self._remember(offset, length, at, number)
            if end <= self.next:
                columns.new[index] = 0
            elif offset <= self.next:
                skip = self.next - offset
                columns.new[index] = length - skip
                self._now = max(self._now, at)
                out.append((self.next, length - skip, max(held - skip, 0), self._now, columns.raw, place + skip))
                self.next = end
                self._join(out)
            else:
                columns.new[index] = self._keep(offset, length, columns.raw[place : place + held], at)
            if end > self.high:
                self.high, self._high_ns = end, at
        while self._early and (
            self._early[0][0] <= acked or self._size > _MOST_EARLY or len(self._early) > _MOST_PARTS
        ):
            self.holes += 1
            self.next = self._early[0][0]
            self._join(out)
        self.high = max(self.high, self.next)
        return out

    def give_up(self) -> list[Piece]:
        """Return all that is kept, with gaps before it."""
        out: list[Piece] = []
        while self._early:
            self.holes += 1
            self.next = max(self.next, self._early[0][0])
            self._join(out)
        return out

    def _is_copy(self, offset: int, length: int, at: int, number: int) -> bool:
        before = self._recent.get((offset, length))
        if before is None:
            return False
        passed, its_number = before
        if number or its_number:
            return number == its_number and at - passed <= _LONGEST_COPY_NS
        return at - passed <= _BLIND_COPY_NS

    def _remember(self, offset: int, length: int, at: int, number: int) -> None:
        if len(self._recent) >= _REMEMBERED:
            del self._recent[next(iter(self._recent))]
        self._recent[offset, length] = (at, number)
        if number:
            self._last_number = number

    def _keep(self, offset: int, length: int, data: bytes, at: int) -> int:
        """Keep what came early; return how many bytes of it are new."""
        place = bisect_right(self._early, offset, key=_offset)
        if place:
            before, size, _, _ = self._early[place - 1]
            skip = before + size - offset
            if skip >= length:
                return 0
            if skip > 0:
                offset, length, data = offset + skip, length - skip, data[skip:]
        if place < len(self._early):
            room = self._early[place][0] - offset
            if room <= 0:
                return 0
            length, data = min(length, room), data[: min(len(data), room)]
        self._early.insert(place, (offset, length, data, at))
        self._size += len(data)
        return length

    def _join(self, out: list[Piece]) -> None:
        """Hand out what came early and is in order now."""
        count = 0
        for offset, length, data, at in self._early:
            if offset > self.next:
                break
            count += 1
            self._size -= len(data)
            skip = self.next - offset
            if skip < length:
                self._now = max(self._now, at)  # before what came late was here, nobody could read it
                out.append((self.next, length - skip, max(len(data) - skip, 0), self._now, data, skip))
                self.next = offset + length
        del self._early[:count]


def _offset(part: tuple[int, int, bytes, int]) -> int:
    return part[0]


def _changed(values: Ints) -> Bools:
    changed = np.ones(len(values), bool)
    changed[1:] = values[1:] != values[:-1]
    return changed


def _unheard(
    s: Sorted, groups: Ints, resent: list[tuple[int, int, int, int]], index: int, base: int, before: int
) -> list[tuple[int, int]]:
    """Return instant and bytes of what was sent again before the file shows its acknowledgement: the rest cost nothing.

    `index`: a segment of that direction, `before`: how far it had been acknowledged before this batch.
    """
    if not resent:
        return []
    run = int(s.run[index])
    start = int(s.starts[run])
    span = slice(start, int(s.starts[run + 1]) if run + 1 < len(s.starts) else len(s.run))
    ahead = (s.ack[span] - base - before) & _WORD
    told = (s.direction[span] != s.direction[index]) & (s.flags[span] & ACK != 0) & (ahead <= _FARTHEST)
    reach = before + np.maximum.accumulate(np.where(told, ahead, 0))
    return [(at, size) for at, size, end, place in resent if end > reach[int(groups[place]) - start]]


def _running(values: Ints, group: Ints, starts: Ints) -> Ints:
    """Return the greatest value before each element in its group, at least 0."""
    if not len(values):
        return values
    before = np.empty_like(values)
    before[1:] = values[:-1]
    before[starts] = 0
    spread = group * _SPREAD
    return np.maximum(np.maximum.accumulate(np.clip(before, -_SPREAD // 4, _SPREAD // 4) + spread) - spread, 0)
