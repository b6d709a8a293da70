# SPDX-License-Identifier: Apache-2.0
"""Round trips from TCP's time stamps, for connections whose opening is not in the file."""

from __future__ import annotations

import struct

import pytest

from tests.fakes import packets as p
from tests.unit.capture.capturing import connection


def stamp(value, echo):
    return b"\x01\x01\x08\x0a" + struct.pack(">II", value, echo)


def stamped(*, at_server=False):
    """Return a conversation without its opening; the round trip is 30 ms, and 5 ms pass before an answer."""
    talk = p.Talk(server=("10.0.0.2", 80))
    for turn in range(4):
        now = 1000 + 100 * turn
        talk.say(True, b"GET / HTTP/1.1\r\n\r\n", after=0.1, options=stamp(now, 7000 + 100 * turn))
        talk.say(False, after=0.00005 if at_server else 0.03, options=stamp(7050 + 100 * turn, now))
        talk.say(False, b"HTTP/1.1 200 OK\r\n\r\n", after=0.005, options=stamp(7060 + 100 * turn, now))
        talk.say(True, after=0.03 if at_server else 0.00005, options=stamp(now + 50, 7060 + 100 * turn))
    return talk


@pytest.mark.parametrize("at_server", [False, True])
def test_stamps_and_their_echoes_add_up_to_the_round_trip(at_server):
    row = connection(stamped(at_server=at_server).file())
    assert bool(row.preexisting)
    assert row.min_rtt_ms == pytest.approx(30.05, abs=0.01)
    assert row.rtt_ms >= row.min_rtt_ms


def test_without_stamps_and_opening_nothing_is_known():
    talk = p.Talk(server=("10.0.0.2", 80)).ask(p.REQUEST, p.ANSWER)
    row = connection(talk.file())
    assert row.min_rtt_ms != row.min_rtt_ms
    assert row.rtt_ms != row.rtt_ms


def burst():
    """Return packets with one stamp in a row; the round trip of the first is 30 ms, and 20 ms on the other side."""
    talk = p.Talk(server=("10.0.0.2", 80))
    talk.say(True, b"x" * 400, after=0.1, options=stamp(1000, 7000))
    talk.say(True, b"x" * 400, after=0.0295, options=stamp(1000, 7000))
    talk.say(False, after=0.0005, options=stamp(7030, 1000))
    talk.say(True, b"x" * 400, after=0.0001, options=stamp(1000, 7030))
    talk.say(False, b"y" * 400, after=0.0001, options=stamp(7031, 1000))
    talk.say(True, after=0.02, options=stamp(1100, 7031))
    return talk.file()


@pytest.mark.parametrize("chunk", [100, 600, 1000, 1500, 8 << 20])
def test_an_echo_counts_from_the_first_packet_of_its_stamp_in_whatever_parts_a_file_is_read(monkeypatch, chunk):
    monkeypatch.setattr("netdiag.capture.container._CHUNK", chunk)
    row = connection(burst())
    assert row.min_rtt_ms == pytest.approx(50, abs=0.5)


def test_a_stamp_that_an_acknowledgement_carried_first_tells_nothing():
    """What echoes it may answer that, not the data behind it."""
    talk = p.Talk(server=("10.0.0.2", 80))
    talk.say(True, after=0.1, options=stamp(1000, 7000))
    talk.say(True, b"x" * 400, after=0.0001, options=stamp(1000, 7000))
    talk.say(False, b"y" * 400, after=0.0001, options=stamp(7030, 1000))
    talk.say(True, after=0.02, options=stamp(1100, 7030))
    row = connection(talk.file())
    assert row.min_rtt_ms != row.min_rtt_ms
