# SPDX-License-Identifier: Apache-2.0
"""The router that holds packets back, on pipes: the devices need root."""

from __future__ import annotations

import os
import random
import socket
import time

import pytest

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


@pytest.mark.parametrize(
    ("since_s", "left_s"), [(0.0, 0.0), (0.99, 0.0), (1.0, 0.5), (1.2, 0.3), (1.5, 0.0), (2.6, 0.4), (3.0, 0.0)]
)
def test_troubles_come_again_and_again(since_s, left_s):
    troubles = router.Troubles(every_s=1.0, outage_s=0.5)
    assert troubles.trouble_ns(int(since_s * 1e9)) == pytest.approx(left_s * 1e9, abs=10)


def test_without_troubles_there_are_none():
    assert router.Troubles().trouble_ns(10**12) == 0
    assert router.Troubles(outage_s=1.0).trouble_ns(10**12) == 0


def carried(troubles, packets, until_s):
    """Return when packets that are sent at once come out at the other end, s."""
    left, left_end = pair()
    right, right_end = pair()
    right.setblocking(False)
    crossing = router.Router((left_end.fileno(), right_end.fileno()), 0, 0.0, random.Random(1), troubles)
    began = time.monotonic()
    for packet in packets:
        left.send(packet)
    came: list[float] = []
    while len(came) < len(packets) and time.monotonic() < began + until_s:
        crossing.step()
        came += [time.monotonic() - began] * len(router.drain(right.fileno()))
    for end in (left, left_end, right, right_end):
        end.close()
    return came


def test_a_narrow_line_lets_packets_through_one_after_the_other():
    came = carried(router.Troubles(rate_kbit=80.0), [b"x" * 1000] * 3, 5)  # 0.1 s each
    assert came == sorted(came)
    assert came[-1] >= 0.29
    assert came[0] < came[-1] - 0.15


def test_a_hold_keeps_packets_to_its_end():
    first, *others = carried(router.Troubles(every_s=1e-9, hold_s=0.1), [b"a", b"b", b"c"], 5)
    assert first < min(others)
    assert min(others) >= 0.09


def test_an_outage_loses_them():
    assert len(carried(router.Troubles(every_s=1e-9, outage_s=30.0), [b"a", b"b", b"c"], 0.2)) == 1
