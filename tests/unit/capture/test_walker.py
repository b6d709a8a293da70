# SPDX-License-Identifier: Apache-2.0
"""TLS records are found from header to header, however the bytes come in pieces, and lost threads are said."""

from __future__ import annotations

import random

import pytest

from netdiag.capture.walker import Walker, is_header
from netdiag.tables.codes import RecordType
from tests.fakes import packets as p

HELLO = p.record(22, b"\x01\0\0\x26" + bytes(38), version=1)
STREAM = [HELLO, p.record(20, b"\x01"), p.record(23, bytes(300)), p.record(23, bytes(5000)), p.record(21, b"\x01\0")]
KINDS = [(22, 42, 1, 0), (20, 1, 1, 0), (23, 300, 0, 0), (23, 5000, 0, 0), (21, 2, 1, 0)]


def pieces(data, sizes, *, start=0):
    at = 0
    found = []
    for number, size in enumerate(sizes):
        part = data[at : at + size]
        if part:
            found.append((start + at, len(part), len(part), number + 1, part, 0))
        at += size
    return found


def walk(parts, **more):
    walker = Walker(0, **{"sure": True, **more})
    for part in parts:
        walker.feed([part])
    return walker


def seen(walker):
    return [(kind, length, first, second) for _, kind, length, first, second, _, _ in walker.records]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 7, 8, 100, 1448, 100_000])
def test_pieces_of_any_size(size):
    data = b"".join(STREAM)
    walker = walk(pieces(data, [size] * (len(data) // size + 1)))
    assert seen(walker) == KINDS
    hello, _, whole = walker.hello()
    assert (hello, whole) == (HELLO, True)
    assert walker.hello() is None


def test_all_pieces_at_once_are_as_one_by_one():
    draw = random.Random(1)
    data = b"".join(p.record(23, bytes(draw.randrange(1, 700))) for _ in range(300))
    sizes = [draw.randrange(1, 900) for _ in range(1000)]
    together = Walker(0, sure=True)
    together.feed(pieces(data, sizes))
    assert seen(together) == seen(walk(pieces(data, sizes)))
    assert [record[0] for record in together.records] == [record[0] for record in walk(pieces(data, sizes)).records]


def test_a_gap_is_said_once_and_the_thread_found_again_at_a_packet():
    first, second = b"".join(STREAM[:3]), b"".join(STREAM[2:])
    parts = pieces(first + bytes(400), [100, 100]) + pieces(b"\x55" * 200 + second, [200, 9000], start=2000)
    walker = walk(parts)
    found = seen(walker)
    assert found.count((RecordType.GAP, 0, 0, 0)) == 1
    assert found[-3:] == KINDS[2:]
    assert [flags for *_, flags in walker.records][-3:] == [1, 0, 0]  # found again


def test_a_gap_inside_a_record_loses_nothing():
    data = b"".join(STREAM)
    parts = pieces(data, [100, 500, 500, 500, 9000])
    del parts[2]
    assert seen(walk(parts)) == KINDS


def test_a_hello_with_a_hole_is_not_whole():
    data = p.record(22, b"\x0b" + bytes(3000)) + p.record(23, bytes(9))
    parts = pieces(data, [1000, 1000, 5000])
    del parts[1]
    walker = walk(parts)
    raw, _, whole = walker.hello()
    assert not whole
    assert len(raw) <= 1000


def test_what_the_snap_length_cut_off_is_skipped_where_its_length_is_known():
    data = b"".join(STREAM)
    whole = pieces(data, [len(HELLO) + 6 + 305 + 5005, 99])
    cut = [(offset, length, min(length, 100), at, part, place) for offset, length, _, at, part, place in whole]
    assert seen(walk(cut))[:3] == KINDS[:3]
    assert (22, 42, 1, 0) in seen(walk(cut))


def test_a_header_that_is_cut_is_a_gap():
    data = b"".join(STREAM)
    cut = [(0, len(data), len(HELLO) + 3, 1, data, 0)]
    assert seen(walk(cut)) == [KINDS[0], (RecordType.GAP, 0, 0, 0)]


def test_a_second_hello_behind_a_change_of_ciphers_is_kept():
    retry = HELLO + p.record(20, b"\x01") + HELLO + p.record(22, b"\x77" * 40) + p.record(23, bytes(60))
    walker = walk(pieces(retry, [50, 60, 500]))
    assert walker.hello()[0] == HELLO + HELLO
    assert walker.told


def test_hellos_are_bounded():
    data = b"".join(p.record(22, b"\x0b" + bytes(16_000)) for _ in range(9))
    assert len(walk(pieces(data, [1448] * 200)).hello()[0]) <= 16_384


@pytest.mark.parametrize(
    "data", [b"\x16\x03\x05\0\x05..", b"\x18\x03\x03\0\x05..", b"\x16\x03\x03\0\0..", b"\x16\x03\x03\xff\xff.."]
)
def test_what_is_no_header(data):
    assert not is_header(data, 0)
    assert seen(walk([(0, len(data), len(data), 1, data, 0)])) == [(RecordType.GAP, 0, 0, 0)]
