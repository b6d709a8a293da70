# SPDX-License-Identifier: Apache-2.0
"""The ring reader against a ring in ordinary memory, filled as kernel/bpf/ringbuf.c fills it."""

from __future__ import annotations

import mmap
import os
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netdiag.ebpf.ring import HEADER_BYTES, Ring

RECORD_BYTES = 20
STRIDE = HEADER_BYTES + 24
SIZE = mmap.PAGESIZE
BUSY, DISCARD = 1 << 31, 1 << 30


class Producer:
    """Writes records as the kernel does: header, body, position; wraps by the byte. The data is there twice."""

    def __init__(self, size: int = SIZE) -> None:
        self.fd = os.memfd_create("ring")
        self.size = size
        os.ftruncate(self.fd, 2 * mmap.PAGESIZE + 2 * size)
        self._all = mmap.mmap(self.fd, 2 * mmap.PAGESIZE + 2 * size)
        self.position = 0

    def close(self) -> None:
        os.close(self.fd)

    @property
    def consumed(self) -> int:
        return int(struct.unpack_from("=Q", self._all, 0)[0])

    def room(self) -> int:
        return (self.size - (self.position - self.consumed)) // STRIDE

    def write(self, number: int, flags: int = 0) -> None:
        record = struct.pack("=II", RECORD_BYTES | flags, 0) + struct.pack("=I", number) * 6
        for at, byte in enumerate(record):
            place = 2 * mmap.PAGESIZE + (self.position + at) % self.size
            self._all[place] = self._all[place + self.size] = byte
        self.position += STRIDE
        struct.pack_into("=Q", self._all, mmap.PAGESIZE, self.position)

    def finish(self, position: int) -> None:
        for copy in (0, self.size):
            struct.pack_into("=I", self._all, 2 * mmap.PAGESIZE + copy + position % self.size, RECORD_BYTES)


def numbers(runs: list[memoryview]) -> list[int]:
    data = b"".join(runs)
    assert len(data) % STRIDE == 0
    return [struct.unpack_from("=I", data, at + HEADER_BYTES)[0] for at in range(0, len(data), STRIDE)]


def drain(ring: Ring) -> list[int]:
    runs, count = ring.take()
    found = numbers(runs)
    ring.release(count)
    return found


def test_empty_ring_gives_nothing() -> None:
    producer = Producer()
    ring = Ring(producer.fd, SIZE, RECORD_BYTES)
    assert ring.take() == ([], 0)
    assert ring.unread == 0
    producer.close()


def test_many_times_around_every_record_once_and_in_order() -> None:
    producer = Producer()
    ring = Ring(producer.fd, SIZE, RECORD_BYTES)
    written = 0
    seen: list[int] = []
    for turn in range(200):
        for _ in range(min(producer.room(), 1 + turn % 97)):
            producer.write(written)
            written += 1
        seen += drain(ring)
    assert seen == list(range(written))
    assert written > 10 * SIZE // STRIDE
    producer.close()


def test_a_ring_larger_than_the_window_is_read_in_turns() -> None:
    producer = Producer(1 << 20)
    ring = Ring(producer.fd, producer.size, RECORD_BYTES)
    for lap in range(2):
        count = producer.room()
        for number in range(count):
            producer.write(lap * count + number)
        turns = [drain(ring) for _ in range(ring.turns)]
        assert all(0 < len(turn) < count // 2 for turn in turns[:-1])
        assert [number for turn in turns for number in turn] == list(range(lap * count, (lap + 1) * count))
        assert ring.take() == ([], 0)
    producer.close()


def test_a_busy_record_holds_back_those_after_it() -> None:
    producer = Producer()
    ring = Ring(producer.fd, SIZE, RECORD_BYTES)
    producer.write(1)
    at = producer.position
    producer.write(2, BUSY)
    producer.write(3)
    assert drain(ring) == [1]
    assert drain(ring) == []
    producer.finish(at)
    assert drain(ring) == [2, 3]
    producer.close()


def test_discarded_records_are_left_out_and_their_room_released() -> None:
    producer = Producer()
    ring = Ring(producer.fd, SIZE, RECORD_BYTES)
    for number in range(6):
        producer.write(number, DISCARD if number in (0, 2, 5) else 0)
    assert drain(ring) == [1, 3, 4]
    assert producer.consumed == producer.position
    producer.close()


def test_what_take_returned_stays_until_release() -> None:
    producer = Producer()
    ring = Ring(producer.fd, SIZE, RECORD_BYTES)
    producer.write(7)
    runs, count = ring.take()
    assert producer.consumed == 0
    assert numbers(runs) == [7]
    ring.release(count)
    assert producer.consumed == count == STRIDE
    producer.close()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from([0, 0, 0, DISCARD])), max_size=40))
def test_any_mix_of_kept_and_discarded(batches: list[tuple[int, int]]) -> None:
    producer = Producer()
    ring = Ring(producer.fd, SIZE, RECORD_BYTES)
    expected: list[int] = []
    seen: list[int] = []
    number = 0
    for count, flags in batches:
        for index in range(min(count, producer.room())):
            discarded = flags if index % 3 == 0 else 0
            producer.write(number, discarded)
            if not discarded:
                expected.append(number)
            number += 1
        seen += drain(ring)
    assert seen == expected
    producer.close()


def test_wrong_size_is_refused_by_the_kernel_side() -> None:
    fd = os.memfd_create("short")
    with pytest.raises(ValueError, match="mmap"):
        Ring(fd, SIZE, RECORD_BYTES)
    os.close(fd)
