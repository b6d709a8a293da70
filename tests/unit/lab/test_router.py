# SPDX-License-Identifier: Apache-2.0
"""The router that holds packets back, on pipes: the devices need root."""

from __future__ import annotations

import os
import random
import socket
import time

from netdiag.lab import router


def pair():
    """Return two datagram ends, one for the router."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    theirs.setblocking(False)
    return ours, theirs


def test_what_is_there_is_read_and_no_more():
    ours, theirs = pair()
    ours.send(b"a")
    ours.send(b"b")
    assert router.drain(theirs.fileno()) == [b"a", b"b"]
    assert router.drain(theirs.fileno()) == []
    ours.close()
    theirs.close()


def test_a_device_that_is_gone_loses_packets_silently():
    reading, writing = os.pipe()
    os.close(writing)
    os.close(reading)
    router.send(writing, b"a")  # raises nothing


def test_packets_cross_late_and_in_order():
    left, left_end = pair()
    right, right_end = pair()
    right.setblocking(False)
    crossing = router.Router((left_end.fileno(), right_end.fileno()), 30_000_000, 0.0, random.Random(1))
    began = time.monotonic()
    left.send(b"one")
    left.send(b"two")
    got: list[bytes] = []
    while len(got) < 2 and time.monotonic() < began + 5:
        crossing.step()
        got += router.drain(right.fileno())
    assert got == [b"one", b"two"]
    assert time.monotonic() - began >= 0.03
    for end in (left, left_end, right, right_end):
        end.close()


def test_a_share_of_the_packets_is_lost():
    left, left_end = pair()
    right, right_end = pair()
    right.setblocking(False)
    crossing = router.Router((left_end.fileno(), right_end.fileno()), 0, 0.5, random.Random(1))
    for _ in range(60):
        left.send(b"packet")
        crossing.step()
    arrived = len(router.drain(right.fileno()))
    assert 10 < arrived < 50
    for end in (left, left_end, right, right_end):
        end.close()
