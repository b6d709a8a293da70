# SPDX-License-Identifier: Apache-2.0
"""Packets that are one record each stay columns, and tell the same as any others."""

from __future__ import annotations

import random

import pytest

from netdiag.capture import pieces, read
from netdiag.capture.flows import Flows
from netdiag.capture.pieces import Columns, pieces_of
from netdiag.capture.sequence import Sequences
from tests.fakes import packets as p
from tests.unit.capture.capturing import records
from tests.unit.capture.test_flows import sort

HELLO = bytes((22, 3, 1, 0, 40, 1, 0, 0, 36, 3, 3)) + bytes(34)
SERVER = bytes((22, 3, 3, 0, 42, 2, 0, 0, 38, 3, 3)) + bytes(36)


def data(size):
    return bytes((23, 3, 3)) + size.to_bytes(2, "big") + bytes(size)


def stream(seed=1):
    """Return a connection whose answers are records, mostly one a packet, over many batches' worth of time."""
    draw = random.Random(seed)
    talk = p.Talk().open()
    talk.say(True, HELLO, after=0.01)
    talk.say(False, SERVER + data(900), after=0.01)
    talk.say(True, data(60), after=0.01)
    for _ in range(200):
        kind = draw.randrange(12)
        if kind == 0:
            talk.say(True, data(draw.randrange(20, 900)), after=0.01)
        elif kind == 1:
            talk.say(False, data(30) + data(40), after=0.01)
        elif kind == 2:
            whole = data(2000)
            talk.say(False, whole[:1400], after=0.01)
            talk.say(False, whole[1400:], after=0.001)
        elif kind == 3:
            talk.say(False, bytes((21, 3, 3, 0, 2, 1, 0)), after=0.01)
        else:
            talk.say(False, data(draw.randrange(20, 300)), after=0.01)
    return talk.close()


def one_by_one(_s, at, _size):
    return at < 0


@pytest.mark.parametrize("seed", range(4))
def test_records_are_the_same_as_one_by_one(seed, monkeypatch):
    file = stream(seed).file()
    monkeypatch.setattr("netdiag.capture.container._MOST_PACKETS", 23)
    quick = records(file)
    monkeypatch.setattr(pieces, "_even", one_by_one)
    assert quick == records(file)
    assert len(quick) > 200


def test_what_is_lost_is_found_in_even_packets_too(monkeypatch):
    packets = stream().packets
    del packets[40:44]
    monkeypatch.setattr("netdiag.capture.container._MOST_PACKETS", 23)
    quick = read(p.pcap(packets))
    monkeypatch.setattr(pieces, "_even", one_by_one)
    slow = read(p.pcap(packets))
    at_once, one_each = quick.records("tls_record"), slow.records("tls_record")
    assert at_once is not None
    assert one_each is not None
    assert at_once.tolist() == one_each.tolist()
    assert quick.facts_of("hello") == slow.facts_of("hello")


def test_pieces_by_connection_and_direction():
    talk = p.Talk(server=("10.0.0.2", 443)).open()
    talk.say(True, data(10))
    talk.say(False, data(20), after=0.01)
    talk.say(False, b"x" * 30, after=0.01)
    flows, s = sort(talk.packets)
    found = pieces_of(s, Sequences(flows).order(s), flows.follow)
    ours, theirs = found[0][0], found[0][1]
    assert (ours.even, theirs.even) == (True, False)
    assert isinstance(ours, Columns)
    assert (ours.start, ours.end, ours.records()[:, 1].tolist()) == (0, 15, [10])
    assert [piece[:3] for piece in theirs.all()] == [(0, 25, 25), (25, 30, 30)]
    flows.follow[0] = False
    assert pieces_of(s, Sequences(Flows()).order(s), flows.follow) == {}
