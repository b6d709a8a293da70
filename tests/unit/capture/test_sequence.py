# SPDX-License-Identifier: Apache-2.0
"""What is new, what came again, what came out of turn, what never came: the same however the file is cut up."""

from __future__ import annotations

import random
from typing import Any, ClassVar, cast

import pytest

from netdiag.capture.sequence import Mender
from netdiag.capture.walker import Walker
from netdiag.tables.codes import RecordType
from tests.fakes import packets as p
from tests.unit.capture.capturing import connection, read, records, table

BODY = bytes(range(256)) * 40
"""10 KB."""


def download(parts, *, rtt=0.01):
    """Return a connection whose server sends segments of 1000 bytes: indexes in the order in which they pass."""
    talk = p.Talk(server=("10.0.0.2", 80), rtt=rtt).open()
    talk.say(True, p.REQUEST, after=0.001)
    start = talk.seqs[1]
    for after, index in parts:
        talk.say(False, BODY[index * 1000 : index * 1000 + 1000], after=after, seq=start + index * 1000)
    talk.seqs[1] = start + (max(index for _, index in parts) + 1) * 1000
    talk.say(True, after=0.0001)
    return talk


IN_ORDER = [(0.0005, index) for index in range(10)]


def test_segments_in_order():
    row = connection(download(IN_ORDER).file())
    assert (row.bytes_sent, row.bytes_received, row.retransmits) == (len(p.REQUEST), 10_000, 0)


def test_a_segment_sent_again_counts_once_in_bytes():
    talk = download([*IN_ORDER, (0.25, 9)])
    row = connection(talk.file())
    assert (row.bytes_received, row.retransmits) == (10_000, 1)
    assert len(table(talk.file(), "retransmits")) == 1


def test_a_segment_lost_before_the_file_and_sent_again_later():
    parts = [(0.0005, index) for index in (0, 1, 3, 4, 5)] + [(0.2, 2)]
    row = connection(download(parts).file())
    assert (row.bytes_received, row.retransmits) == (6000, 1)


def test_segments_out_of_turn_are_no_retransmissions():
    talk = download(IN_ORDER)
    late = talk.packets.pop(6)
    talk.packets.insert(7, (talk.packets[6][0] + 0.0001, late[1]))  # its number is the older one
    row = connection(talk.file())
    assert (row.bytes_received, row.retransmits) == (10_000, 0)


@pytest.mark.parametrize("together", [1, 3])
def test_packets_captured_twice_are_no_retransmissions(together):
    talk = download(IN_ORDER)
    doubled = []
    for start in range(0, len(talk.packets), together):
        part = talk.packets[start : start + together]
        doubled += part + [(at + 0.00002, frame) for at, frame in part]
    row = connection(p.pcap(sorted(doubled, key=lambda item: item[0])))
    assert (row.bytes_received, row.retransmits, row.syn_retransmits) == (10_000, 0, 0)


def test_bytes_that_the_file_lacks_are_a_gap_and_counted():
    parts = [(0.0005, index) for index in (0, 1, 4, 5)]
    recording = read(download(parts).file())
    [loss] = recording.facts_of("loss")
    assert loss["lost"] == 1
    assert connection(download(parts).file()).bytes_received == 4000


def test_sequence_numbers_wrap():
    talk = p.Talk(server=("10.0.0.2", 80), seqs=[0xFFFFFFF0, 0xFFFFFC00])
    talk.open().say(True, p.REQUEST)
    for index in range(10):
        talk.say(False, BODY[index * 1000 : index * 1000 + 1000], after=0.001)
    row = connection(talk.file())
    assert (row.bytes_sent, row.bytes_received, row.retransmits) == (len(p.REQUEST), 10_000, 0)


def test_keep_alive_probes_are_no_data():
    talk = p.Talk(server=("10.0.0.2", 80)).open().ask(p.REQUEST, p.ANSWER)
    for _ in range(3):
        talk.say(True, b"\0", after=30, seq=talk.seqs[0] - 1)
        talk.say(False, after=0.01)
    row = connection(talk.file())
    assert row.keepalive_probes is True
    assert (row.bytes_sent, row.retransmits) == (len(p.REQUEST), 0)
    assert connection(p.http().file()).keepalive_probes is None


def test_a_connection_met_in_the_middle_is_older():
    talk = download(IN_ORDER)
    row = connection(p.pcap(talk.packets[9:]))
    assert bool(row.preexisting)
    assert row.opened_ns != row.opened_ns
    assert row.bytes_received == 5000


@pytest.mark.parametrize("chunk", [700, 3000, 1 << 20])
def test_however_a_file_is_cut_up_it_says_the_same(chunk, monkeypatch):
    """Loss, repetition, disorder and copies, over boundaries of batches: the bytes are those that were sent."""
    draw = random.Random(chunk)
    stream = b"".join(p.record(23, draw.randbytes(draw.randrange(1, 900))) for _ in range(200))
    lengths = [int.from_bytes(stream[at + 3 : at + 5], "big") for at in starts(stream)]
    talk = p.Talk().open()
    talk.say(True, p.record(22, b"\x01\0\0\x04abcd"), after=0.001)
    start = talk.seqs[1]
    parts = [(at, stream[at : at + 700]) for at in range(0, len(stream), 700)]
    order = [*parts]
    for _ in range(15):
        place = draw.randrange(len(order) - 1)
        order[place], order[place + 1] = order[place + 1], order[place]
        order.insert(min(place + draw.randrange(3, 9), len(order)), order[place])
    for at, part in order:
        talk.say(False, part, after=draw.choice((0.00001, 0.001, 0.02)), seq=start + at)
    monkeypatch.setattr("netdiag.capture.container._CHUNK", chunk)
    seen = records(talk.file())
    assert [row["length"] for row in seen if row["direction"] == 2] == lengths
    assert not any(row["type"] == RecordType.GAP for row in seen)


def starts(stream):
    at = 0
    while at < len(stream):
        yield at
        at += 5 + int.from_bytes(stream[at + 3 : at + 5], "big")


def test_what_came_early_is_bounded():
    mender = Mender(0)

    class Rows:
        raw = bytes(70_000)
        new: ClassVar[dict[int, int]] = {}

        def rows(self, chosen):
            return chosen

    rows = [(index, 100 + index * 60_000, 60_000, 60_000, index, 0, 0) for index in range(40)]
    out = mender.take(cast("Any", Rows()), cast("Any", rows), 0, 0)
    assert mender._size <= 1 << 19
    assert sum(length for _, length, *_ in out) >= 1_000_000
    assert Walker(0, sure=True).records == []
