# SPDX-License-Identifier: Apache-2.0
"""Round trips from TCP time stamps (RFC 7323): when a stamp passed, and when its first echo did. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netdiag.capture.flows import ACK, RST, SYN, Flows, Sorted
from netdiag.capture.sequence import Order

__all__ = ["echoes"]

Ints = NDArray[np.int64]

_PLAIN = np.frombuffer(b"\x01\x01\x08\x0a", np.uint8)
"""Two blanks and the head of the option: how nearly every segment begins its options."""
_WORDS = 8
_WORD = 0xFFFFFFFF


def echoes(s: Sorted, order: Order, flows: Flows) -> None:
    """Note the least and the mean time to the echo of stamps that data carried, by connection and direction.

    Several packets in a row have one stamp: an echo answers the first of them, so those count that bring data at once.
    """
    stamped = (s.head[:, 12] >> 4 >= _WORDS) & (s.head[:, 20:24] == _PLAIN).all(axis=1)
    stamped &= s.flags & (SYN | RST) == 0
    said = order.groups[stamped[order.groups]]
    heard = np.flatnonzero(stamped & (s.flags & ACK != 0))
    if not len(heard):
        return
    words = np.ascontiguousarray(s.head[:, 24:32]).view(">u4").astype(np.int64)
    side = s.flow * 2 + s.direction
    said = said[_fresh(side[said], words[said, 0], flows)]
    before, since = _carried(s.flows, flows)
    value = np.concatenate((before, side[said] << 32 | words[said, 0]))
    start = np.concatenate((since, np.where(order.new[said] > 0, s.time[said], 0)))
    echo, back = _first((side[heard] ^ 1) << 32 | words[heard, 1])
    place = np.minimum(np.searchsorted(echo, value), len(echo) - 1)
    there = echo[place] == value
    took = s.time[heard[back[place]]] - start
    sound = there & (start > 0) & (took > 0)
    flow, direction = value >> 33, value >> 32 & 1
    # the last one of each side stays for the next batch
    flows.stamp[flow, direction] = (value & _WORD) + 1
    flows.stamp_ns[flow, direction] = np.where(there, 0, start)
    took, flow, direction = took[sound], flow[sound], direction[sound]
    np.add.at(flows.echoes, (flow, direction), 1)
    np.add.at(flows.echo_ns, (flow, direction), took)
    least = np.where(flows.fastest == 0, np.iinfo(np.int64).max, flows.fastest)
    np.minimum.at(least, (flow, direction), took)
    flows.fastest = np.where(least == np.iinfo(np.int64).max, 0, least)


def _fresh(side: Ints, word: Ints, flows: Flows) -> NDArray[np.bool_]:
    """Tell which stamps are later than all before them, where those of each side lie together in order of time."""
    if not len(side):
        return np.zeros(0, bool)
    key = np.cumsum(np.append(0, side[1:] != side[:-1])) << 32 | word
    fresh = np.ones(len(side), bool)
    fresh[1:] = key[1:] > np.maximum.accumulate(key)[:-1]
    last = flows.stamp[side >> 1, side & 1]
    later = (word - (last - 1)) & _WORD
    result: NDArray[np.bool_] = fresh & ((last == 0) | ((later > 0) & (later <= _WORD >> 1)))
    return result


def _carried(concerned: Ints, flows: Flows) -> tuple[Ints, Ints]:
    """Return the last stamp of each side in the batches before, and since when it has had no echo; 0 = it had."""
    side = (np.unique(concerned)[:, None] * 2 + np.arange(2)).ravel()
    last, since = flows.stamp[side >> 1, side & 1], flows.stamp_ns[side >> 1, side & 1]
    known = last > 0
    return side[known] << 32 | last[known] - 1, since[known]


def _first(values: Ints) -> tuple[Ints, Ints]:
    """Return the different values, in order, and where each is found first."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    fresh = np.ones(len(values), bool)
    fresh[1:] = ordered[1:] != ordered[:-1]
    return ordered[fresh], order[fresh]
