# SPDX-License-Identifier: Apache-2.0
"""Which connection a TCP segment belongs to, for all segments of a batch at once.

The two ends of a connection are put in an order of their own (low, high), so that both directions have one key;
direction 0 goes from the low end to the high one. Who is the client is found out later. A SYN with another sequence
number on the same ends begins a new connection.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from netdiag.capture.layers import Segments

__all__ = ["ACK", "FIN", "RST", "SYN", "Flow", "Flows", "Sorted"]

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

FIN, SYN, RST, ACK = 1, 2, 4, 16
_MIX = tuple(np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9))
_GROW = 1024
_LEAST, _MOST, _BYTES_EACH = 2048, 1 << 15, 1280
"""Connections that are followed: at least and at most, and one for so many bytes. A flood of SYNs has more."""


@dataclass(slots=True, eq=False)
class Flow:
    """One connection, as far as its opening and closing tell; instants in ns, 0 = not seen. Pairs are by direction."""

    number: int
    ends: tuple[tuple[bytes, int], tuple[bytes, int]]
    """Address and port of the low end and the high one."""
    first_ns: int
    client: int = -1
    """Direction in which the client sends; -1 while nobody knows."""
    sure: bool = False
    """It is known who the client is, not guessed from ports."""
    syn_seq: int = -1
    syn_ns: int = 0
    last_syn_ns: int = 0
    syns: int = 0
    answer_ns: int = 0
    """SYN-ACK."""
    answers: int = 0
    established_ns: int = 0
    closing_ns: int = 0
    closing: int = -1
    """Direction of the first FIN or RST."""
    reset: bool = False
    """It was a RST."""
    fins: list[int] = field(default_factory=lambda: [0, 0])
    last_fins: list[int] = field(default_factory=lambda: [0, 0])
    broken_ns: int = 0
    """The first RST."""
    broken: tuple[int, int] = (-1, -1)
    """How far it says that each direction had spoken, a FIN counted; -1 = it does not say."""
    ended_ns: int = 0
    refused: bool = False
    barred: int = 0
    """Why its SYN did not get through, as ICMP said: a number of errno; 0 = nothing was said."""
    barred_ns: int = 0
    last_ns: int = 0
    segment: int = 0
    """The smaller of the two largest segments that the ends announced; 0 = not seen."""
    zero: list[int] = field(default_factory=lambda: [0, 0])
    """How long each direction's sender had no room, ns."""
    zero_since: list[int] = field(default_factory=lambda: [0, 0])
    probed: bool = False
    """Keep-alive probes passed."""
    replaced: bool = False
    """Another connection of the same ends came after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorted:
    """The segments of a batch by connection, then in order of time; columns have one element a segment."""

    starts: Ints
    """Where each connection's segments begin."""
    flows: Ints
    """Number of the flow of each of those runs."""
    run: Ints
    """Number of the run, for each segment."""
    flow: Ints
    direction: Ints
    time: Ints
    seq: Ints
    ack: Ints
    flags: Ints
    window: Ints
    length: Ints
    held: Ints
    payload: Ints
    number: Ints
    head: Bytes
    raw: bytes


class Flows:
    """All connections of a file."""

    def __init__(self) -> None:
        self.all: list[Flow] = []
        self._ids: dict[bytes, int] = {}
        self.base = np.zeros((_GROW, 2), np.int64)
        """Sequence number of the first byte of each direction; -1 = not known. Two columns: by direction."""
        self.next = np.zeros((_GROW, 2), np.int64)
        """Offset of the byte that is expected next: one behind the last that was seen, a FIN counted."""
        self.acked = np.zeros((_GROW, 2), np.int64)
        """Offset up to which the other side has acknowledged."""
        self.bytes = np.zeros((_GROW, 2), np.int64)
        self.first = np.zeros((_GROW, 2), np.int64)
        """When the first and last data of each direction passed; 0 = never."""
        self.last = np.zeros((_GROW, 2), np.int64)
        self.resent = np.zeros((_GROW, 2), np.int64)
        self.fastest = np.zeros((_GROW, 2), np.int64)
        """Least time from a time stamp in this direction to its echo; 0 = not seen."""
        self.echoes = np.zeros((_GROW, 2), np.int64)
        self.echo_ns = np.zeros((_GROW, 2), np.int64)
        self.stamp = np.zeros((_GROW, 2), np.int64)
        """One more than the last time stamp of each direction, and since when it has had no echo; 0 = none."""
        self.stamp_ns = np.zeros((_GROW, 2), np.int64)
        self.follow = np.zeros(_GROW, bool)
        """Whether somebody reads its bytes."""
        self.most = _LEAST
        """So many connections are followed, the first ones: `room` raises it with the file."""
        self.left_out = 0
        """Segments of others."""

    def room(self, size: int) -> None:
        """Let there be as many connections as so many bytes of packets can hold that did something."""
        self.most = min(_MOST, _LEAST + size // _BYTES_EACH)

    def sort(self, segments: Segments) -> Sorted:
        """Return the segments by connection; new connections get numbers."""
        low_ends, direction, ports = _canonical(segments)
        mixed = _mix(low_ends, ports)
        order = np.argsort(mixed, kind="stable")
        starts = _starts(mixed[order], low_ends[order], ports[order])
        if starts is None:  # two connections with one mark: sort by all that tells them apart
            columns = (ports, *(low_ends[:, column] for column in (3, 2, 1, 0)))
            order = np.lexsort(columns)
            starts = np.flatnonzero(_changes(low_ends[order], ports[order]))
        if len(starts) > self.most - len(self.all):
            order, starts = self._bounded(order, starts, segments)
        head = segments.head[order]
        seq, flags = _word(head, 4), head[:, 13].astype(np.int64)
        time, direction = segments.time_ns[order], direction[order]
        starts, flows = self._number(starts, order, segments, seq, flags, time, direction)
        lengths = np.diff(np.append(starts, len(order)))
        run = np.repeat(np.arange(len(starts)), lengths)
        return Sorted(
            starts=starts,
            flows=flows,
            run=run,
            flow=flows[run] if len(run) else run,
            direction=direction,
            time=time,
            seq=seq,
            ack=_word(head, 8),
            flags=flags,
            window=head[:, 14].astype(np.int64) << 8 | head[:, 15],
            length=segments.length[order],
            held=segments.held[order],
            payload=segments.payload[order],
            number=segments.number[order],
            head=head,
            raw=segments.raw,
        )

    def _bounded(self, order: Ints, starts: Ints, segments: Segments) -> tuple[Ints, Ints]:
        """Leave out the segments of connections that are too many."""
        first = order[starts]
        keys, room = _keys(segments, first), self.most - len(self.all)
        keep = np.array([key in self._ids for key in keys], bool)
        news = np.flatnonzero(~keep)
        keep[news[np.argsort(first[news], kind="stable")[: max(room, 0)]]] = True
        lengths = np.diff(np.append(starts, len(order)))
        stay = np.repeat(keep, lengths)
        self.left_out += int(np.count_nonzero(~stay))
        ends = np.cumsum(lengths[keep])
        return order[stay], ends - lengths[keep]

    def find(self, one: tuple[bytes, int], other: tuple[bytes, int]) -> Flow | None:
        """Return the latest connection between two ends."""
        number = self._ids.get(_key(one[0] + other[0], one[1], other[1]))
        return None if number is None else self.all[number]

    def passed(self, number: int, direction: int) -> int:
        """Return how many bytes passed in a direction, whether the file holds them or not; -1 where it holds no packet.

        What the other side acknowledged has passed, and what the numbers of a FIN or a RST count.
        """
        if self.base[number, direction] < 0:
            return -1
        flow, reach = self.all[number], int(self.next[number, direction])
        heard = max(int(self.acked[number, direction]), flow.broken[direction])
        # one more than what was seen is a FIN that the file lacks
        return heard if heard > reach + 1 else reach - (flow.last_fins[direction] > 0)

    def _number(
        self,
        starts: Ints,
        order: Ints,
        segments: Segments,
        seq: Ints,
        flags: Ints,
        time: Ints,
        direction: Ints,
    ) -> tuple[Ints, Ints]:
        """Return where runs start and their flows: a run of segments with equal ends may hold several connections."""
        opens = np.flatnonzero(flags & (SYN | ACK) == SYN)
        owner = np.searchsorted(starts, opens, side="right") - 1
        by_run: dict[int, list[int]] = {}
        for place, run in zip(opens.tolist(), owner.tolist(), strict=True):
            by_run.setdefault(run, []).append(place)
        first = order[starts]
        keys = _keys(segments, first)
        places, times, ids = starts.tolist(), time[starts].tolist(), self._ids
        found: list[list[tuple[int, int]]] = [[] for _ in keys]
        # connections are numbered in the order in which the file brings them
        for run in np.argsort(first, kind="stable").tolist():
            current = ids.get(keys[run], -1)
            news = by_run.get(run, ())
            if current < 0 and not (news and news[0] == places[run]):
                current = self._add(keys[run], times[run])
            if current >= 0:
                found[run].append((places[run], current))
            for place in news:
                if found[run] and self._overtaken(found[run][-1], place, flags):
                    self._begin(current, int(seq[place]), int(direction[place]))
                    continue
                current = self._open(keys[run], current, int(seq[place]), int(time[place]), int(direction[place]))
                if found[run] and found[run][-1][0] == place:
                    found[run][-1] = (place, current)
                elif not found[run] or found[run][-1][1] != current:
                    found[run].append((place, current))
        parts = [part for run in found for part in run]
        return np.array([place for place, _ in parts], np.int64), np.array([flow for _, flow in parts], np.int64)

    def _open(self, key: bytes, current: int, seq: int, at: int, direction: int) -> int:
        """Return the connection that a SYN belongs to: the present one of its ends, or a new one."""
        if current >= 0 and (self.all[current].syn_seq == seq or len(self.all) >= self.most):
            return current
        if current >= 0:
            self.all[current].replaced = True
        number = self._add(key, at)
        self._begin(number, seq, direction)
        return number

    def _begin(self, number: int, seq: int, direction: int) -> None:
        flow = self.all[number]
        flow.syn_seq, flow.client, flow.sure = seq, direction, True

    def _overtaken(self, part: tuple[int, int], place: int, flags: Ints) -> bool:
        """Tell whether the answer to this SYN was captured before it: nothing but that of its connection came yet."""
        start, number = part
        flow = self.all[number]
        return not flow.sure and start < place and bool((flags[start:place] & (SYN | ACK) == SYN | ACK).all())

    def _add(self, key: bytes, at: int) -> int:
        number = len(self.all)
        low_port, high_port = struct.unpack_from(">HH", key, 32)
        self.all.append(
            Flow(number=number, ends=((key[:16], low_port), (key[16:32], high_port)), first_ns=at, last_ns=at)
        )
        self._ids[key] = number
        if number >= len(self.follow):
            self._grow()
        self.base[number] = -1
        self.follow[number] = True
        return number

    def _grow(self) -> None:
        for name in (
            "base",
            "next",
            "acked",
            "bytes",
            "first",
            "last",
            "resent",
            "fastest",
            "echoes",
            "echo_ns",
            "stamp",
            "stamp_ns",
        ):
            values = getattr(self, name)
            setattr(self, name, np.concatenate((values, np.zeros_like(values))))
        self.follow = np.concatenate((self.follow, np.zeros_like(self.follow)))


def _canonical(segments: Segments) -> tuple[NDArray[np.uint64], Ints, Ints]:
    """Return the ends as four numbers a row, low end first; the direction; both ports as one number."""
    ends = np.ascontiguousarray(segments.ends).view(">u8").astype(np.uint64)
    source, target = segments.source, segments.destination
    swap = _greater(ends, source, target)
    ends = np.where(swap[:, None], ends[:, [2, 3, 0, 1]], ends)
    ports = np.where(swap, target << 16 | source, source << 16 | target)
    return ends, swap.astype(np.int64), ports


def _greater(ends: NDArray[np.uint64], source: Ints, target: Ints) -> Bools:
    """Tell where the source end comes behind the target end."""
    high, low = ends[:, 0], ends[:, 1]
    other_high, other_low = ends[:, 2], ends[:, 3]
    by_port = (low == other_low) & (source > target)
    result: Bools = (high > other_high) | ((high == other_high) & ((low > other_low) | by_port))
    return result


def _mix(ends: NDArray[np.uint64], ports: Ints) -> NDArray[np.uint64]:
    mixed = ports.astype(np.uint64) * _MIX[0]
    for column in range(4):
        mixed = (mixed ^ (mixed >> np.uint64(29))) * _MIX[1] + ends[:, column] * _MIX[2]
    return mixed ^ (mixed >> np.uint64(32))


def _changes(ends: NDArray[np.uint64], ports: Ints) -> Bools:
    changed = np.ones(len(ports), bool)
    changed[1:] = (ports[1:] != ports[:-1]) | (ends[1:] != ends[:-1]).any(axis=1)
    return changed


def _starts(mixed: NDArray[np.uint64], ends: NDArray[np.uint64], ports: Ints) -> Ints | None:
    """Return where each connection begins; None where one mark stands for several."""
    changed = np.ones(len(mixed), bool)
    changed[1:] = mixed[1:] != mixed[:-1]
    return np.flatnonzero(changed) if (changed == _changes(ends, ports)).all() else None


def _keys(segments: Segments, first: Ints) -> list[bytes]:
    """Return the keys of the connections of these segments."""
    packed, sources, targets = segments.ends[first].tobytes(), segments.source[first], segments.destination[first]
    return [
        _key(packed[at : at + 32], source, target)
        for at, source, target in zip(range(0, len(packed), 32), sources.tolist(), targets.tolist(), strict=True)
    ]


def _key(ends: bytes, source: int, target: int) -> bytes:
    one, other = (ends[:16], source), (ends[16:], target)
    low, high = (other, one) if one > other else (one, other)
    return low[0] + high[0] + struct.pack(">HH", low[1], high[1])


def _word(head: Bytes, column: int) -> Ints:
    return np.ascontiguousarray(head[:, column : column + 4]).view(">u4")[:, 0].astype(np.int64)
