# SPDX-License-Identifier: Apache-2.0
"""Clocks, counters and control data that all channels share."""

from __future__ import annotations

import socket
import struct
import time

from netdiag.route.engine.channel import SO_TIMESTAMPNS, Stamps, Tally, hop_limit, kernel_stamp, source_address
from netdiag.route.model import Clock, Ignored


def test_the_kernels_stamp_makes_the_round_trip():
    stamps = Stamps()
    stamps.sent(3)
    stamp = time.time_ns()
    time.sleep(0.02)  # read late: the stamp does not care
    rtt_ms, clock = stamps.round_trip(3, stamp)
    assert clock is Clock.KERNEL
    assert rtt_ms < 10
    assert 3 in stamps
    assert 4 not in stamps


def test_a_stamp_of_a_clock_that_was_set_is_not_used():
    stamps = Stamps()
    stamps.sent(1)
    for stamp in (time.time_ns() + 3_600_000_000_000, time.time_ns() - 3_600_000_000_000, None):
        rtt_ms, clock = stamps.round_trip(1, stamp)
        assert clock is Clock.USER
        assert 0 <= rtt_ms < 5000


def test_control_messages():
    time_stamp = (socket.SOL_SOCKET, SO_TIMESTAMPNS, struct.pack("@qq", 2, 5))
    limit = (socket.IPPROTO_IPV6, socket.IPV6_HOPLIMIT, struct.pack("@i", 57))
    assert kernel_stamp([limit, time_stamp]) == 2_000_000_005
    assert hop_limit([time_stamp, limit]) == 57
    assert kernel_stamp([(socket.SOL_SOCKET, SO_TIMESTAMPNS, b"short")]) is None
    assert hop_limit([(socket.IPPROTO_IP, socket.IP_TTL, b"")]) is None


def test_errors_without_a_name_count_as_mismatched():
    tally = Tally(mismatched=1, malformed=2, foreign=3, unclaimed=4)
    assert tally.ignored(5, 6) == Ignored(duplicates=5, mismatched=5, malformed=2, foreign=3, late=6)


def test_the_address_towards_loopback():
    assert source_address("127.0.0.1") == "127.0.0.1"
