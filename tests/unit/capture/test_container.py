# SPDX-License-Identifier: Apache-2.0
"""Packets out of pcap and pcapng: byte orders, resolutions, blocks, and files that end or lie."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from netdiag.capture.container import PAD, Notes, batches
from netdiag.capture.source import open_source
from netdiag.errors import InputUnreadable
from tests.fakes import packets as p

FRAMES = [(0.0, b"a" * 60), (0.5, b"b" * 61), (1.25, b"c" * 1500)]
START = p.START_S * 1_000_000_000


def read(data):
    notes = Notes()
    found = []
    for batch in batches(open_source(data), notes):
        for at, held, passed, time, link in zip(
            batch.at, batch.captured, batch.passed, batch.time_ns, batch.link, strict=True
        ):
            found.append((int(time) - START, batch.raw[at : at + held], int(passed), int(link)))
        assert batch.raw[-PAD:] == bytes(PAD)
    return found, notes


def expected(frames=FRAMES, link=1):
    return [(round(at * 1e9), frame, len(frame), link) for at, frame in frames]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nano", [False, True])
def test_pcap_of_either_order_and_resolution(order, nano):
    found, notes = read(p.pcap(FRAMES, order=order, nano=nano, link=113))
    assert found == expected(link=113)
    assert (notes.packets, notes.cut, notes.stopped_at) == (3, 0, None)


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_of_either_order(order):
    assert read(p.pcapng(FRAMES, order=order))[0] == expected()


def test_what_the_snap_length_cut_off_is_known_to_have_passed():
    found, notes = read(p.pcap(FRAMES, snap=100))
    assert [(len(frame), passed) for _, frame, passed, _ in found] == [(60, 60), (61, 61), (100, 1500)]
    assert notes.cut == 1


@pytest.mark.parametrize(
    ("resolution", "ticks_a_second"),
    [
        (6, 10**6), (9, 10**9), (3, 10**3), (0, 1), (10, 10**10),
        (0x80 | 10, 1 << 10), (0x80 | 20, 1 << 20), (0x80 | 33, 1 << 33),
    ],
)  # fmt: skip
def test_resolutions(resolution, ticks_a_second):
    ticks = p.START_S * ticks_a_second + ticks_a_second // 2
    data = p.section() + p.interface(resolution=resolution) + p.enhanced(ticks, b"x" * 60)
    assert read(data)[0][0][0] == (500_000_000 if ticks_a_second > 1 else 0)


def test_interfaces_have_their_own_links_resolutions_and_offsets():
    data = p.section() + p.interface(1) + p.interface(101, resolution=9, offset_s=10)
    data += p.enhanced(p.START_S * 10**6, b"x" * 60)
    data += p.enhanced((p.START_S - 9) * 10**9, b"y" * 60, owner=1)
    assert [(at, link) for at, _, _, link in read(data)[0]] == [(0, 1), (1_000_000_000, 101)]


def test_sections_of_both_orders_follow_each_other():
    data = p.pcapng(FRAMES) + p.pcapng(FRAMES, order=">", link=101) + p.pcapng(FRAMES)
    found, notes = read(data)
    assert found == expected() + expected(link=101) + expected()
    assert notes.stopped_at is None


def test_older_packet_blocks_are_read():
    simple = p.block(3, struct.pack("<I", 61) + b"s" * 61)
    old = p.block(2, struct.pack("<HHIIII", 0, 7, *divmod(p.START_S * 10**6 + 250_000, 1 << 32), 60, 90) + b"o" * 60)
    data = p.section() + p.interface() + p.enhanced(p.START_S * 10**6, b"e" * 60) + simple + old
    found, _ = read(data)
    assert found[1] == (0, b"s" * 61, 61, 1)  # no time of its own: its neighbour's
    assert found[2] == (250_000_000, b"o" * 60, 90, 1)


def test_other_blocks_are_taken_or_skipped():
    names = p.block(4, struct.pack("<HH", 1, 16) + bytes([10, 0, 0, 2]) + b"api.example\0" + struct.pack("<HH", 0, 0))
    secrets = p.block(10, struct.pack("<II", 0x544C534B, 5) + b"LINE\n")
    lost = p.block(5, struct.pack("<III", 0, 0, 0) + p.options([(4, struct.pack("<Q", 9)), (5, struct.pack("<Q", 3))]))
    unknown = p.block(0x0BAD, b"whatever")
    data = p.section() + names + p.interface() + secrets + unknown + p.enhanced(p.START_S * 10**6, b"x" * 60) + lost
    found, notes = read(data)
    assert len(found) == 1
    assert notes.names == {bytes([10, 0, 0, 2]): "api.example"}
    assert notes.secrets == [(0x544C534B, b"LINE\n")]
    assert sum(notes.dropped.values()) == 3


@pytest.mark.parametrize("make", [p.pcap, p.pcapng])
def test_a_file_that_ends_in_a_packet_gives_those_before_and_the_offset(make):
    whole = make(FRAMES)
    for cut in range(1, 1400, 97):
        found, notes = read(whole[:-cut])
        assert found == expected()[:2]
        assert notes.stopped_at == len(make(FRAMES[:2]))
        assert "middle" in notes.stopped_why


def test_an_absurd_length_stops_reading_there():
    good = p.pcap(FRAMES)
    found, notes = read(good + struct.pack("<IIII", 1, 2, 0x7FFFFFFF, 4) + bytes(100))
    assert found == expected()
    assert (notes.stopped_at, notes.stopped_why) == (len(good), f"a packet of {0x7FFFFFFF} bytes")
    good = p.pcapng(FRAMES)
    found, notes = read(good + struct.pack("<II", 6, 7) + bytes(100))
    assert found == expected()
    assert (notes.stopped_at, notes.stopped_why) == (len(good), "a block of 7 bytes")


def test_a_packet_of_an_interface_that_is_not_described_stops_reading():
    data = p.section() + p.enhanced(1, b"x" * 60)
    assert "interface 0" in read(data)[1].stopped_why


@pytest.mark.parametrize(
    "data", [b"", b"\xd4", b"GIF89a" * 9, b"\xd4\xc3\xb2\xa1" + bytes(5), b"\x0a\x0d\x0d\x0a" + bytes(40)]
)
def test_what_is_no_capture_is_refused_with_an_offset(data):
    with pytest.raises(InputUnreadable, match=r"byte [0-9]+") as error:
        read(data)
    assert error.value.exit_code == 6


def test_many_stretches_are_one_file(monkeypatch):
    monkeypatch.setattr("netdiag.capture.container._CHUNK", 1000)
    frames = [(number / 1e3, bytes([number % 256]) * (60 + number % 700)) for number in range(500)]
    for make in (p.pcap, p.pcapng):
        assert read(make(frames))[0] == expected(frames)


def test_a_batch_holds_a_bounded_number_of_packets(monkeypatch):
    monkeypatch.setattr("netdiag.capture.container._MOST_PACKETS", 100)
    frames = [(number / 1e3, b"x" * 60) for number in range(950)]
    sizes = [len(batch.at) for batch in batches(open_source(p.pcapng(frames)), Notes())]
    assert sizes == [100] * 9 + [50]


def test_absurd_stamps_stay_numbers():
    data = p.section() + p.interface(resolution=0) + p.enhanced((1 << 64) - 1, b"x" * 60)
    [batch] = batches(open_source(data), Notes())
    assert batch.time_ns.dtype == np.int64
    assert 0 <= batch.time_ns[0] <= 1 << 62
