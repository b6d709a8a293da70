# SPDX-License-Identifier: Apache-2.0
"""Two writers on one recording: whole blocks of both, in the order in which they came."""

from __future__ import annotations

import os

import pytest

from netdiag.recording.appender import Appender, Packer
from netdiag.recording.reader import read
from netdiag.recording.writer import RecordingWriter
from netdiag.testing import header, layout, records_of


def test_what_both_wrote_is_read(tmp_path):
    path = tmp_path / "x.netdiag"
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    writer, appender, packer = RecordingWriter(fd, header(), shared=True), Appender(fd), Packer(layout("http_chunk"))
    appender.layout(layout("http_chunk"))
    for number in range(50):
        writer.fact("clock", {"number": number})
        appender.records(8, [packer.pack({"exchange": number, "kind": 7})])
        appender.fact("strings", {"first": 1, "values": ["é"]})
    appender.records(8, [])
    writer.end("done", 5)
    os.close(fd)
    recording = read(path)
    assert recording.truncated_at is None
    assert records_of(recording, "http_chunk")["exchange"].tolist() == list(range(50))
    assert len(recording.facts_of("clock")) == len(recording.facts_of("strings")) == 50


def test_numbers_that_do_not_fit_are_the_nearest_that_do():
    packer = Packer(layout("http_request"))
    record = packer.pack({"status": 1 << 40, "began": -5, "number": 7})
    assert len(record) == layout("http_request").stride
    offset = {field.name: field for field in layout("http_request").fields}
    at = layout("http_request").offset
    assert int.from_bytes(record[at + offset["status"].offset :][:2], "little") == 0xFFFF
    assert int.from_bytes(record[at + offset["began"].offset :][:8], "little") == 0
    assert int.from_bytes(record[at + offset["number"].offset :][:4], "little") == 7


def test_texts_have_no_place_in_such_records():
    with pytest.raises(ValueError, match="no unsigned number"):
        Packer(layout("tcp"))


def test_after_an_error_nothing_more_is_written(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"")
    fd = os.open(path, os.O_RDONLY)
    appender = Appender(fd)
    appender.fact("x", {})
    appender.fact("x", {})
    assert appender.failed
    os.close(fd)
    assert path.read_bytes() == b""
