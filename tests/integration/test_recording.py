# SPDX-License-Identifier: Apache-2.0
"""Recordings that were cut or mangled: a reader and the tables never fail with a traceback."""

from __future__ import annotations

import contextlib
import struct
import zlib

import hypothesis
import hypothesis.strategies as st
import pytest

from netdiag.errors import InputUnreadable
from netdiag.recording.format import BLOCK_HEADER, FILE_HEADER
from netdiag.recording.reader import read
from netdiag.tables import build
from netdiag.testing import RecordingBuilder


def sample() -> bytes:
    """Return a small recording with every kind of block."""
    builder = RecordingBuilder().process(100).fact("loss", probe="tcp", seen=2, lost=0)
    builder.connection([("send", 1, 200), ("receive", 20, 900)], closed=("local", 30))
    calls = [("send", 1, 517), ("receive", 2, 2100), ("send", 3, 380), ("receive", 50, 900)]
    builder.connection(calls, closed=("remote", 90), dport=443)
    for at, side, kind, length, first in (
        (1, "send", 22, 512, 1), (2, "receive", 22, 122, 2), (2, "receive", 23, 1200, 0), (3, "send", 23, 69, 0),
        (3.1, "send", 23, 300, 0), (50, "receive", 23, 870, 0),
    ):  # fmt: skip
        builder.wire(2, side, at, kind, length, first)
    return builder.to_bytes()


DATA = sample()


def analysed(data: bytes) -> tuple[int, int]:
    """Return how many connections and requests a recording gives; InputUnreadable where it is refused."""
    tables = build(read(data))
    return len(tables.connections), len(tables.requests)


def test_the_sample_is_what_the_tests_below_assume():
    assert analysed(DATA) == (2, 2)


def test_a_file_cut_at_any_byte_is_used_up_to_there():
    most, seen = (0, 0), None
    for length in range(len(DATA)):
        with contextlib.suppress(InputUnreadable):
            recording = read(DATA[:length])
            if recording.truncated_at == seen:
                continue  # the same whole blocks as one byte before
            seen = recording.truncated_at
            tables = build(recording)
            assert tables.truncated
            assert len(tables.connections) >= most[0]
            most = max(most, (len(tables.connections), len(tables.requests)))
    assert most == (2, 2)


@pytest.mark.fuzz
@hypothesis.given(st.integers(0, len(DATA) - 1), st.integers(1, 255))
def test_a_flipped_byte_ends_the_reading_or_is_refused(at, flip):
    data = bytearray(DATA)
    data[at] ^= flip
    with contextlib.suppress(InputUnreadable):
        analysed(bytes(data))


def blocks(data: bytes) -> list[tuple[int, int, bytes]]:
    """Return type, stream and payload of each block."""
    found, at = [], FILE_HEADER.size
    while at < len(data):
        type_, _, stream, length, _ = BLOCK_HEADER.unpack_from(data, at)
        at += BLOCK_HEADER.size
        found.append((type_, stream, data[at : at + length]))
        at += length
    return found


def file_of(parts: list[tuple[int, int, bytes]]) -> bytes:
    """Return a file of these blocks, with right checksums."""
    body = b"".join(
        BLOCK_HEADER.pack(type_, 0, stream, len(payload), zlib.crc32(payload)) + payload
        for type_, stream, payload in parts
    )
    return DATA[: FILE_HEADER.size] + body


@pytest.mark.fuzz
@hypothesis.given(st.data())
def test_mangled_content_with_right_checksums_gives_tables_or_a_plain_refusal(data):
    parts = blocks(DATA)
    for _ in range(data.draw(st.integers(1, 3))):
        number = data.draw(st.integers(0, len(parts) - 1))
        type_, stream, payload = parts[number]
        changed = bytearray(payload)
        at = data.draw(st.integers(0, max(len(changed) - 4, 0)))
        patch = data.draw(st.sampled_from([b"\0", b"\xff", b"9", b'"', b"}", struct.pack("<I", 0x7FFFFFFF), b"[" * 40]))
        changed[at : at + len(patch)] = patch
        parts[number] = (type_, stream, bytes(changed))
    with contextlib.suppress(InputUnreadable):
        analysed(file_of(parts))


@pytest.mark.fuzz
@hypothesis.given(st.permutations(range(len(blocks(DATA)))))
def test_blocks_in_any_order_give_tables_or_a_plain_refusal(order):
    parts = blocks(DATA)
    with contextlib.suppress(InputUnreadable):
        analysed(file_of([parts[number] for number in order]))


@pytest.mark.fuzz
@hypothesis.given(st.binary(max_size=200))
def test_any_bytes_after_the_header_give_tables_or_a_plain_refusal(tail):
    for start in (DATA[: FILE_HEADER.size], DATA[: FILE_HEADER.size + 400], b""):
        with contextlib.suppress(InputUnreadable):
            analysed(start + tail)
