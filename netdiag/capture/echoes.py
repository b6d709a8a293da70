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


def echoes(s: Sorted, order: Order, flows: Flows) -> None:
    """Note the least and the mean time to the echo of stamps that data carried, by connection and direction."""
    stamped = (s.head[:, 12] >> 4 >= _WORDS) & (s.head[:, 20:24] == _PLAIN).all(axis=1)
    stamped &= s.flags & (SYN | RST) == 0
    said = np.flatnonzero(stamped & (order.new > 0))
    heard = np.flatnonzero(stamped & (s.flags & ACK != 0))
    if not len(said) or not len(heard):
        return
    words = np.ascontiguousarray(s.head[:, 24:32]).view(">u4").astype(np.int64)
    side = s.run * 2 + s.direction
    value = side[said] << 32 | words[said, 0]
    echo = (side[heard] ^ 1) << 32 | words[heard, 1]
    value, first = _first(value)
    echo, back = _first(echo)
    place = np.searchsorted(echo, value)
    place = np.minimum(place, len(echo) - 1)
    there = echo[place] == value
    start, end = s.time[said[first[there]]], s.time[heard[back[place[there]]]]
    took, index = end - start, said[first[there]]
    sound = took > 0
    took, flow, direction = took[sound], s.flow[index[sound]], s.direction[index[sound]]
    np.add.at(flows.echoes, (flow, direction), 1)
    np.add.at(flows.echo_ns, (flow, direction), took)
    least = np.where(flows.fastest == 0, np.iinfo(np.int64).max, flows.fastest)
    np.minimum.at(least, (flow, direction), took)
    flows.fastest = np.where(least == np.iinfo(np.int64).max, 0, least)


def _first(values: Ints) -> tuple[Ints, Ints]:
    """Return the different values, in order, and where each is found first."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    fresh = np.ones(len(values), bool)
    fresh[1:] = ordered[1:] != ordered[:-1]
    return ordered[fresh], order[fresh]
