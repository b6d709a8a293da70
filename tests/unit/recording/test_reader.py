# SPDX-License-Identifier: Apache-2.0
"""The reader takes what is whole, says where it stopped, and believes nothing that a file tells it."""

from __future__ import annotations

import io
import json
import struct
import zlib

import numpy as np
import pytest

from netdiag.errors import InputUnreadable
from netdiag.recording.format import BLOCK_HEADER, FILE_HEADER, MAGIC, BlockType
from netdiag.recording.reader import dtype_of, follow, is_recording, read, read_pieces
from netdiag.testing import START_NS, RecordingBuilder, header, layout, records_of

TCP = layout("tcp")


def small():
    return RecordingBuilder().process(100).connection([("send", 1, 200), ("receive", 20, 900)], closed=("local", 30))


def block(type_, payload, stream=0):
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return BLOCK_HEADER.pack(type_, 0, stream, len(data), zlib.crc32(data)) + data


def file_of(*blocks, major=1, minor=0):
    return FILE_HEADER.pack(MAGIC, major, minor, 0) + b"".join(blocks)


HEADER = block(BlockType.HEADER, header())
LAYOUT = block(BlockType.LAYOUT, TCP.to_json(), 1)


def record(word=TCP.size):
    return struct.pack("<II", word, 0) + bytes(TCP.stride - 8)


def test_streams_facts_and_end_come_back():
    recording = small().recording()
    assert set(recording.layouts) == {"tcp", "tcp_io", "process", "tls_record"}
    assert records_of(recording, "tcp")["sport"].tolist() == [40001]
    assert records_of(recording, "tcp_io")["bytes"].tolist() == [200, 900]
    assert recording.facts_of("process")[0]["pid"] == 100
    assert recording.facts_of("clock") == []
    assert (recording.start_ns, recording.end_ns) == (START_NS, START_NS + 10_000_000_000)
    assert recording.truncated_at is None


def test_a_stream_without_records_is_empty_and_an_unknown_one_is_none():
    recording = RecordingBuilder().recording()
    assert len(records_of(recording, "tcp")) == 0
    assert records_of(recording, "tcp").dtype.names == tuple(field.name for field in TCP.fields)
    assert recording.records("quic") is None


def test_one_run_is_not_copied():
    recording = read(file_of(HEADER, LAYOUT, block(BlockType.RECORDS, record() * 5, 1)))
    assert recording.records("tcp") is recording.runs["tcp"][0]
    assert not recording.runs["tcp"][0].flags.owndata


class Pipe(io.BytesIO):
    def seekable(self):
        return False


@pytest.mark.parametrize("wrap", [bytes, io.BytesIO, Pipe])
def test_bytes_files_and_pipes_are_read(wrap):
    assert len(records_of(read(wrap(small().to_bytes())), "tcp")) == 1


def test_a_path_is_read_and_a_missing_one_named(tmp_path):
    path = tmp_path / "a.netdiag"
    path.write_bytes(small().to_bytes())
    assert len(records_of(read(path), "tcp")) == 1
    with pytest.raises(InputUnreadable, match=r"missing\.netdiag: No such file"):
        read(tmp_path / "missing.netdiag")
    with pytest.raises(InputUnreadable, match="directory"):
        read(tmp_path)


def test_every_truncation_keeps_whole_blocks():
    data = small().to_bytes()
    blocks = file_of() + HEADER
    previous = -1
    for length in range(len(data)):
        try:
            recording = read(data[:length])
        except InputUnreadable:
            assert length < len(blocks)
            continue
        found = sum(len(run) for runs in recording.runs.values() for run in runs)
        assert previous <= found
        assert recording.end is None
        assert recording.truncated_at is None or 0 < recording.truncated_at <= length
        previous = max(previous, found)
    assert previous == 4


def test_a_wrong_checksum_ends_the_reading_there():
    data = bytearray(file_of(HEADER, LAYOUT, block(BlockType.RECORDS, record(), 1)))
    at = len(data)
    data += block(BlockType.RECORDS, record(), 1) + block(BlockType.END, {"exit_reason": "x", "at_ns": 1})
    data[at + BLOCK_HEADER.size + 40] ^= 1
    recording = read(bytes(data))
    assert (len(records_of(recording, "tcp")), recording.end) == (1, None)
    assert (recording.truncated_at, recording.truncated_why) == (at, "the checksum of a block is wrong")


def test_a_block_of_absurd_length_ends_the_reading():
    huge = BLOCK_HEADER.pack(BlockType.FACT, 0, 0, 0xFFFFFFFF, 0)
    recording = read(file_of(HEADER, huge))
    assert recording.truncated_at == len(file_of(HEADER))
    assert "4294967295 bytes" in (recording.truncated_why or "")


def test_discarded_records_are_left_out():
    data = record() + record(TCP.size | 1 << 30) + record()
    assert len(records_of(read(file_of(HEADER, LAYOUT, block(BlockType.RECORDS, data, 1))), "tcp")) == 2


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "ends in its header"),
        (b"GIF89a", "not a recording"),
        (file_of(HEADER, major=2), "version 2.0"),
        (file_of(HEADER, major=0), "version 0"),
        (file_of(LAYOUT), "first block is no header"),
        (file_of(block(BlockType.HEADER, {"clock": 1})), "clock lacks"),
        (file_of(block(BlockType.HEADER, header(clock={"monotonic_ns": -1}))), "clock lacks"),
        (file_of(block(BlockType.HEADER, header(host=[]))), "host of the header"),
        (file_of(block(BlockType.HEADER, header(command=7))), "command of the header"),
        (file_of(HEADER, HEADER), "second header"),
        (file_of(HEADER, LAYOUT, LAYOUT), "second or misplaced layout"),
        (file_of(HEADER, LAYOUT, block(BlockType.LAYOUT, {**TCP.to_json(), "stream": 2}, 2)), "two streams"),
        (file_of(HEADER, block(BlockType.LAYOUT, TCP.to_json(), 2)), "misplaced"),
        (file_of(HEADER, block(BlockType.LAYOUT, {**TCP.to_json(), "stride": 10}, 1)), "stride"),
        (file_of(HEADER, block(BlockType.RECORDS, record(), 1)), "before their layout"),
        (file_of(HEADER, LAYOUT, block(BlockType.RECORDS, record()[:-8], 1)), "bytes of records"),
        (file_of(HEADER, LAYOUT, block(BlockType.RECORDS, record(17), 1)), "another length"),
        (file_of(HEADER, LAYOUT, block(BlockType.RECORDS, record(TCP.size | 1 << 31), 1)), "not finished"),
        (file_of(HEADER, block(BlockType.FACT, {"pid": 1})), "without a kind"),
        (file_of(HEADER, block(BlockType.FACT, b"{")), "byte"),
        (file_of(HEADER, block(BlockType.END, {"exit_reason": 1, "at_ns": 1})), "end without"),
        (file_of(HEADER, block(BlockType.END, {"exit_reason": "x", "at_ns": 1 << 70})), "end without"),
    ],
)
def test_what_netdiag_did_not_write_is_refused_with_its_place(data, word):
    with pytest.raises(InputUnreadable, match=word) as caught:
        read(data)
    assert caught.value.exit_code == 6
    if data[:8] == MAGIC and data[8] == 1:
        assert "byte " in caught.value.message


def test_a_newer_version_says_what_to_do():
    with pytest.raises(InputUnreadable) as caught:
        read(file_of(HEADER, major=9))
    assert caught.value.hint == "Update netdiag."


def test_blocks_of_a_newer_minor_version_are_passed_over():
    recording = read(file_of(HEADER, block(77, b"\0\1"), block(BlockType.FACT, {"kind": "x"}), minor=9))
    assert recording.facts == [{"kind": "x"}]


def test_nothing_after_the_end_counts():
    end = block(BlockType.END, {"exit_reason": "x", "at_ns": START_NS})
    recording = read(file_of(HEADER, end, block(BlockType.FACT, {"kind": "x"})))
    assert (recording.facts, recording.truncated_at) == ([], None)


def test_members_become_numbers_text_and_bytes():
    made = dtype_of(TCP)
    assert made.itemsize == TCP.stride
    assert made["error"] == np.dtype("<i4")
    assert made["comm"] == np.dtype("S16")
    assert made["saddr"] == np.dtype(("u1", (16,)))


def test_a_growing_file_is_followed_to_its_end(tmp_path):
    data, path = small().to_bytes(), tmp_path / "grows.netdiag"
    path.write_bytes(b"")
    steps = iter([10, 30, 600, len(data) - 3, len(data)])

    def wait():
        path.write_bytes(data[: next(steps)])
        return True

    parts = list(follow(path, wait=wait))
    whole = read(data)
    assert sum(len(run) for part in parts for runs in part.runs.values() for run in runs) == 4
    assert [fact for part in parts for fact in part.facts] == whole.facts
    assert parts[-1].end == whole.end
    assert all(part.end is None for part in parts[:-1])


def test_following_a_file_that_stops_growing_says_where_it_breaks(tmp_path):
    path = tmp_path / "dead.netdiag"
    path.write_bytes(small().to_bytes()[:-5])
    parts = list(follow(path, wait=lambda: False))
    assert (parts[-1].end, parts[-1].truncated_why) == (None, "a block is incomplete")


def test_following_a_file_without_a_header_yields_nothing(tmp_path):
    path = tmp_path / "empty.netdiag"
    path.write_bytes(MAGIC[:3])
    assert list(follow(path, wait=lambda: False)) == []


def test_a_recording_is_known_by_its_first_bytes():
    assert is_recording(small().to_bytes()[:16])
    assert not is_recording(b"\xd4\xc3\xb2\xa1")


def test_an_unreadable_file_is_no_traceback():
    class Broken(io.BytesIO):
        def seek(self, *_):
            raise OSError(5, "Input/output error")

    with pytest.raises(InputUnreadable, match="Input/output error"):
        read(Broken(b"x"))


@pytest.mark.parametrize("size", [1, 300, 1 << 20])
def test_pieces_together_are_the_whole(tmp_path, size):
    data = small().to_bytes()
    path = tmp_path / "a.netdiag"
    for cut in (len(data), len(data) - 1, len(data) // 2, len(HEADER) + FILE_HEADER.size):
        path.write_bytes(data[:cut])
        whole, parts = read(path), list(read_pieces(path, size=size))
        assert parts[-1].end == whole.end
        assert parts[-1].truncated_at == whole.truncated_at
        assert [fact for part in parts for fact in part.facts] == whole.facts
        for stream in whole.layouts:
            told = [run.tobytes() for part in parts for run in part.runs.get(stream, ())]
            assert told == [run.tobytes() for run in whole.runs.get(stream, ())]


def test_pieces_of_what_has_no_header(tmp_path):
    path = tmp_path / "a.netdiag"
    path.write_bytes(MAGIC)
    with pytest.raises(InputUnreadable, match="ends in its header"):
        list(read_pieces(path, size=100))
