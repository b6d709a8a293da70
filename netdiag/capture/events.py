# SPDX-License-Identifier: Apache-2.0
"""How connections open and close: SYN, FIN, RST, shut windows, probes; one rare segment after the other."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from netdiag.capture.flows import ACK, FIN, RST, SYN, Flow, Flows, Sorted
from netdiag.capture.refusals import Refusal
from netdiag.capture.sequence import Order

__all__ = ["Events"]

Ints = NDArray[np.int64]

_HALF = 1 << 31
_COPY_NS = 1_000_000
"""The same SYN again within this is one that was captured twice."""
_MSS, _MSS_BYTES = 2, 4


class Events:
    """Follows the state of all connections."""

    def __init__(self, flows: Flows) -> None:
        self._flows = flows
        self._waiting: set[int] = set()
        """Connections whose SYN-ACK was not answered yet."""
        self._shut: set[int] = set()
        """Connections with a window that is shut."""

    def take(self, s: Sorted, order: Order) -> None:
        """Take the segments of a batch that open or close something."""
        everyone = self._flows.all
        if len(s.starts):
            last = s.time[np.append(s.starts[1:], len(s.run)) - 1]
            for number, at in zip(s.flows.tolist(), last.tolist(), strict=True):
                everyone[number].last_ns = at
        marked = np.flatnonzero(s.flags & (SYN | FIN | RST) != 0)
        rows = zip(
            marked.tolist(), s.flow[marked].tolist(), s.direction[marked].tolist(), s.time[marked].tolist(),
            s.flags[marked].tolist(), strict=True,
        )  # fmt: skip
        for index, number, direction, at, flags in rows:
            flow = everyone[number]
            if flags & RST:
                self._reset(flow, direction, at, self._places(s, index))
            elif flags & SYN:
                self._open(s, flow, index, direction, at, flags)
            else:
                self._close(flow, direction, at, self._places(s, index), bare=int(s.length[index]) == 0)
        self._answer(s)
        self._probes(s, order, self._windows(s))

    def refused(self, refusals: Iterable[Refusal]) -> None:
        """Note on connections whose SYN ICMP refused that it did, and when: the first time."""
        for one in refusals:
            flow = self._flows.find(one.source, one.target)
            if flow is None or flow.barred or not flow.syns or flow.answers or flow.established_ns:
                continue
            if flow.syn_seq == one.seq and flow.ends[flow.client] == one.source:
                flow.barred, flow.barred_ns = one.error, one.at_ns

    def _open(self, s: Sorted, flow: Flow, index: int, direction: int, at: int, flags: int) -> None:
        segment = _segment(s.head[index])
        flow.segment = min(flow.segment or segment, segment or flow.segment)
        if not flags & ACK:
            if flow.syns and at - flow.last_syn_ns <= _COPY_NS:
                return
            flow.client, flow.sure = direction, True
            flow.syns += 1
            flow.syn_ns, flow.last_syn_ns = flow.syn_ns or at, at
            flow.syn_seq = int(s.seq[index])
            self._waiting.add(flow.number)
            return
        if flow.answers and at - flow.answer_ns <= _COPY_NS:
            return
        if flow.client < 0:
            flow.client, flow.sure = 1 - direction, True
        flow.answers += 1
        flow.answer_ns = flow.answer_ns or at
        if not flow.established_ns:
            self._waiting.add(flow.number)

    def _answer(self, s: Sorted) -> None:
        """Find the client's first acknowledgement: then the connection stands, wherever the packets were captured."""
        if not self._waiting:
            return
        runs = np.flatnonzero(np.isin(s.flows, np.fromiter(self._waiting, np.int64)))
        ends = np.append(s.starts[1:], len(s.run))
        for run in runs.tolist():
            flow = self._flows.all[int(s.flows[run])]
            self._stand(s, flow, int(s.starts[run]), int(ends[run]))
            if flow.established_ns or flow.ended_ns:
                self._waiting.discard(flow.number)

    def _stand(self, s: Sorted, flow: Flow, start: int, end: int) -> None:
        part = slice(start, end)
        plain = s.flags[part] & (SYN | RST) == 0
        later = s.time[part] >= (flow.answer_ns or flow.last_syn_ns)
        ours = np.flatnonzero((s.direction[part] == flow.client) & plain & later & (s.flags[part] & ACK != 0))
        theirs = np.flatnonzero((s.direction[part] != flow.client) & plain & later)
        if len(ours):
            index = start + int(ours[0])
            alone = s.length[index] == 0 or not flow.answer_ns
            flow.established_ns = int(s.time[index]) if alone else flow.answer_ns
        elif len(theirs):  # the client's packets are not in the file
            flow.established_ns = flow.answer_ns or int(s.time[start + int(theirs[0])])

    def _places(self, s: Sorted, index: int) -> tuple[int, int]:
        """Return how far its side had spoken before a segment, and how far it had heard the other; -1 = not known."""
        number, direction = int(s.flow[index]), int(s.direction[index])
        found = []
        for side, value, known in (
            (direction, int(s.seq[index]), True),
            (1 - direction, int(s.ack[index]), bool(s.flags[index] & ACK)),
        ):
            base = int(self._flows.base[number, side])
            ahead = (value - base - int(self._flows.next[number, side]) + _HALF) % (2 * _HALF) - _HALF
            found.append(ahead + int(self._flows.next[number, side]) if known and base >= 0 else -1)
        return found[0], found[1]

    def _reset(self, flow: Flow, direction: int, at: int, places: tuple[int, int]) -> None:
        if flow.ended_ns:
            return
        flow.broken_ns, flow.broken = flow.broken_ns or at, places if direction == 0 else places[::-1]
        flow.ended_ns = at
        flow.refused = flow.syns > 0 and not flow.answer_ns and direction != flow.client
        if flow.closing_ns:
            return
        flow.closing_ns, flow.closing = at, direction
        for side in (1 - direction, direction):  # a FIN that the file lacks counts as one byte
            heard = max(int(self._flows.acked[flow.number, side]), flow.broken[side])
            if heard == self._flows.next[flow.number, side] + 1:
                flow.fins[side], flow.closing = at, side
                return
        flow.reset = True

    def _close(self, flow: Flow, direction: int, at: int, places: tuple[int, int], *, bare: bool) -> None:
        """Take a FIN; `bare`: without data, so that only this tells that it was sent again."""
        if flow.reset and 0 <= places[0] < flow.broken[direction]:
            # the RST knows of it: it was sent later, and came into the file before
            flow.closing, flow.reset = direction, False
        before = flow.last_fins[direction]
        if before and bare and at - before > _COPY_NS:
            self._flows.resent[flow.number, direction] += 1
        flow.last_fins[direction] = at
        if not flow.closing_ns:
            flow.closing_ns, flow.closing = at, direction
        if not flow.fins[direction]:
            flow.fins[direction] = at
        if flow.fins[0] and flow.fins[1] and not flow.ended_ns:
            flow.ended_ns = max(flow.fins)

    def _windows(self, s: Sorted) -> set[int]:
        """Add up how long each side had no room for more; return the connections of which one had none."""
        shut = (s.window == 0) & (s.flags & (SYN | RST | FIN) == 0)
        concerned = {int(number) for number in np.unique(s.flow[shut]).tolist()} | self._shut
        if not concerned:
            return concerned
        runs = np.flatnonzero(np.isin(s.flows, np.fromiter(concerned, np.int64)))
        ends = np.append(s.starts[1:], len(s.run))
        for run in runs.tolist():
            flow = self._flows.all[int(s.flows[run])]
            part = slice(int(s.starts[run]), int(ends[run]))
            known = s.flags[part] & (SYN | RST) == 0
            for direction in (0, 1):
                mine = known & (s.direction[part] == direction)
                _shut_times(flow, direction, s.time[part][mine], s.window[part][mine] == 0)
            if any(flow.zero_since) and not flow.ended_ns:
                self._shut.add(flow.number)
            else:
                self._shut.discard(flow.number)
        return concerned

    def _probes(self, s: Sorted, order: Order, shut: set[int]) -> None:
        for number in np.unique(s.flow[order.probes]).tolist():
            flow = self._flows.all[number]
            # what asks whether there is room again looks the same
            if not flow.closing_ns and number not in shut:
                flow.probed = True


def _shut_times(flow: Flow, direction: int, time: Ints, shut: NDArray[np.bool_]) -> None:
    since = flow.zero_since[direction]
    previous = bool(since)
    changes = np.flatnonzero(np.diff(shut.astype(np.int8), prepend=np.int8(previous)) != 0) if len(shut) else ()
    for index in changes:
        at = int(time[index])
        if shut[index]:
            since = at
        else:
            flow.zero[direction] += at - since
            since = 0
    flow.zero_since[direction] = since


def _segment(head: NDArray[np.uint8]) -> int:
    """Return the largest segment that a SYN announces, 0 where it does not say."""
    end = min(int(head[12] >> 4) * 4, len(head))
    at = 20
    while at < end:
        kind = int(head[at])
        if kind == 0:
            return 0
        size = 1 if kind == 1 else int(head[at + 1]) if at + 1 < end else 0
        if size == 0:
            return 0
        if kind == _MSS and size == _MSS_BYTES and at + size <= end:
            return int(head[at + 2]) << 8 | int(head[at + 3])
        at += size
    return 0
