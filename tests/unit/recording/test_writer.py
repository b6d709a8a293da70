# SPDX-License-Identifier: Apache-2.0
"""The writer appends whole blocks, copies nothing, and leaves a readable file when the disk is full."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from netdiag.recording import reader, writer
from netdiag.recording.writer import RecordingWriter
from netdiag.testing import START_NS, header, layout, records_of

TCP = layout("tcp")


@pytest.fixture
def fd(tmp_path):
    number = os.open(tmp_path / "a.netdiag", os.O_RDWR | os.O_CREAT)
    yield number
    os.close(number)


def record(layout_=TCP, value=0):
    return layout_.size.to_bytes(4, "little") + bytes(4) + bytes([value]) * (layout_.stride - 8)


def content(fd):
    return os.pread(fd, 1 << 24, 0)


def test_what_is_written_is_read(fd):
    made = RecordingWriter(fd, header(tier="btf"))
    made.layout(1, TCP)
    made.records(1, [record(value=1) * 2, memoryview(record(value=2))])
    made.fact("clock", {"monotonic_ns": 5})
    made.end("ctrl-c", START_NS + 1)
    recording = reader.read(content(fd))
    assert made.size == os.fstat(fd).st_size
    assert records_of(recording, "tcp")["tgid"].tolist() == [0x01010101, 0x01010101, 0x02020202]
    assert recording.facts == [{"kind": "clock", "monotonic_ns": 5}]
    assert recording.end == {"exit_reason": "ctrl-c", "at_ns": START_NS + 1}


def test_many_pieces_and_empty_ones_make_no_difference(fd):
    made = RecordingWriter(fd, header())
    made.layout(1, TCP)
    made.records(1, [b"", *[record()] * 1500, b""])
    made.records(1, [])
    assert len(records_of(reader.read(content(fd)), "tcp")) == 1500


def test_a_run_longer_than_a_block_becomes_two(fd, monkeypatch):
    monkeypatch.setattr(writer, "MAX_RECORDS_BYTES", 5 * TCP.stride + 3)
    made = RecordingWriter(fd, header())
    made.layout(1, TCP)
    made.records(1, [record() * 12, record()])
    assert [len(run) for run in reader.read(content(fd)).runs["tcp"]] == [5, 5, 3]


def test_a_torn_record_and_a_foreign_layout_are_the_callers_mistakes(fd):
    made = RecordingWriter(fd, header())
    made.layout(1, TCP)
    with pytest.raises(ValueError, match="multiple"):
        made.records(1, [record()[:-1]])
    with pytest.raises(KeyError):
        made.records(2, [record()])
    with pytest.raises(ValueError, match="stream 9"):
        made.layout(9, TCP)


def test_short_writes_are_continued(fd, monkeypatch):
    real = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda fd, buffers, at: real(fd, [buffers[0][:7]], at))
    made = RecordingWriter(fd, header())
    made.layout(1, TCP)
    made.records(1, [record(value=3)])
    assert records_of(reader.read(content(fd)), "tcp")["tid"].tolist() == [0x03030303]


def test_a_full_disk_is_an_error_and_the_file_stays_readable(fd, monkeypatch):
    made = RecordingWriter(fd, header())
    made.layout(1, TCP)
    made.records(1, [record()])
    real, room = os.pwritev, [100]

    def nearly_full(fd, buffers, at):
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        part = memoryview(b"".join(buffers))[: room[0]]
        room[0] -= len(part)
        return real(fd, [part], at)

    monkeypatch.setattr(os, "pwritev", nearly_full)
    with pytest.raises(OSError, match="No space"):
        made.records(1, [record() * 4])
    assert os.fstat(fd).st_size == made.size
    monkeypatch.setattr(os, "pwritev", real)
    made.end("disk full", START_NS)
    recording = reader.read(content(fd))
    assert (len(records_of(recording, "tcp")), recording.truncated_at) == (1, None)
    assert recording.end == {"exit_reason": "disk full", "at_ns": START_NS}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_the_error_of_a_full_disk_is_not_hidden_by_the_clean_up():
    with Path("/dev/full").open("r+b", buffering=0) as full, pytest.raises(OSError, match="No space"):
        RecordingWriter(full.fileno(), header())


def test_the_writer_costs_the_recorder_no_numpy():
    code = "import sys, netdiag.recording.writer, netdiag.btf, netdiag.manifest; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
