# SPDX-License-Identifier: Apache-2.0
"""`netdiag analyze` of packet captures: what a person and a program read of them."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
from types import SimpleNamespace

import jsonschema
import pytest

from tests.fakes import packets as p
from tests.fakes.commands import call, recording_file


@pytest.fixture
def captures(root):
    return root / "tests" / "captures"


def test_json_of_a_capture_follows_the_schema(capsys, captures, root):
    schema = json.loads((root / "reports/schemas/netdiag.trace-1.json").read_text())
    for path in sorted(captures.glob("*.pcap"))[::3]:
        called = call(capsys, "analyze", path, "--format", "json")
        document = json.loads(called.out)
        jsonschema.Draft202012Validator(schema).validate(document)
        assert called.status == 0
        assert document["coverage"]["tier"] == "capture"
        assert {row["pid"] for row in document["connections"]} == {None}
        assert {finding["subject"]["pid"] for finding in document["findings"]} <= {None}


@pytest.mark.parametrize("form", ["table", "markdown", "csv", "ndjson"])
def test_no_form_shows_what_is_none(capsys, captures, form):
    for path in sorted(captures.glob("*.pcap"))[::5]:
        called = call(capsys, "analyze", path, "--format", form)
        assert called.status == 0
        assert "None" not in called.out
        assert "nan" not in called.out.lower().replace("nanoseconds", "")
        assert "whole machine" not in called.out


def test_the_same_from_a_file_a_packed_one_and_a_pipe(capsys, captures, tmp_path, monkeypatch):
    path = captures / "own_server_idle3_gap4.2.pcap"
    expected = call(capsys, "analyze", path, "--format", "json").out
    packed = tmp_path / "x.pcap.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert call(capsys, "analyze", packed, "--format", "json").out == expected
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(path.read_bytes())))
    assert call(capsys, "analyze", "-", "--format", "json").out == expected
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    if os.fork() == 0:
        fifo.write_bytes(path.read_bytes())
        os._exit(0)
    assert call(capsys, "analyze", fifo, "--format", "json").out == expected
    os.wait()


def test_recordings_and_captures_side_by_side(capsys, captures, tmp_path):
    called = call(capsys, "analyze", recording_file(tmp_path), captures / "own_sse_plain_ok.pcap")
    assert called.status == 0
    assert "python3 app.py" in called.out
    assert "a capture" in called.out


@pytest.mark.parametrize(
    ("options", "connections"),
    [
        ((), 3),
        (("--port", "8483"), 3),
        (("--port", "1"), 0),
        (("--host", "127.0.0.1"), 3),
        (("--host", "localhost"), 3),
        (("--host", "10.0.0.0/8"), 0),
        (("--from", "4"), 2),
        (("--to", "1.5s"), 1),
        (("--to", "2026-12-01T00:00:00Z"), 0),
        (("--from", "2020-01-01T00:00:00+01:00", "--host", "elsewhere.test"), 0),
    ],
)
def test_limits(capsys, captures, options, connections):
    path = captures / "own_server_idle3_gap4.2.pcap"
    document = json.loads(call(capsys, "analyze", path, "--format", "json", *options).out)
    assert len([row for row in document["connections"] if not row["preexisting"]]) == connections


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--from", "yesterday"), "no time"),
        (("--from", "5", "--to", "2"), "later than"),
        (("--port", "0"), "0"),
        (("--keylog", "/nowhere/keys"), "no such file"),
    ],
)
def test_wrong_words_are_refused_before_reading(capsys, captures, options, says):
    called = call(capsys, "analyze", captures / "own_sse_plain_ok.pcap", *options)
    assert called.status == 2
    assert says in called.err


@pytest.mark.parametrize(
    "data", [b"", b"junk" * 9, p.pcap([])[:10], p.pcapng([])[:20], gzip.compress(b"neither"), gzip.compress(b"")]
)
def test_what_cannot_be_read_is_said_with_the_place(capsys, tmp_path, data):
    path = tmp_path / "broken.pcap"
    path.write_bytes(data)
    called = call(capsys, "analyze", path)
    assert called.status == 6
    assert "broken.pcap" in called.err
    assert "byte" in called.err
    assert "Traceback" not in called.err


def test_a_capture_that_breaks_off_is_analysed_and_said_to(capsys, captures, tmp_path):
    path = tmp_path / "half.pcap"
    path.write_bytes((captures / "own_server_idle3_gap4.2.pcap").read_bytes()[:-30])
    called = call(capsys, "analyze", path)
    assert called.status == 0
    assert "reuse.server-idle-timeout" in called.out
    document = json.loads(call(capsys, "analyze", path, "--format", "json").out)
    assert document["truncated_at"] > 15_000
    assert "breaks off" in document["exit_reason"]


def test_a_big_file_shows_how_far_it_is_on_a_terminal_alone(capsys, captures, monkeypatch):
    monkeypatch.setattr("netdiag.cli.progress._QUIET_S", 0)
    monkeypatch.setattr("netdiag.cli.progress._AGAIN_S", 0)
    quiet = call(capsys, "analyze", captures / "own_sse_plain_ok.pcap")
    assert quiet.err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    shown = call(capsys, "analyze", captures / "own_sse_plain_ok.pcap")
    assert "100 %" in shown.err
    assert shown.err.endswith("\r\x1b[K")


def test_a_large_capture_says_the_same(capsys, captures, monkeypatch, tmp_path):
    """It is read in another process, and its tables are made part by part in two."""
    path = captures / "own_openai_sync_stream_conn_per_call.pcap"
    whole = call(capsys, "analyze", path, "--format", "json")
    monkeypatch.setattr("netdiag.cli.results._LARGE", 0)
    monkeypatch.setattr("netdiag.capture.spool.SPOOL_BYTES", 500)
    monkeypatch.setattr("netdiag.tables.parts.PART", 20)
    assert call(capsys, "analyze", path, "--format", "json").out == whole.out
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(path.read_bytes()[:10])
    broken = call(capsys, "analyze", cut)
    assert broken.status == 6
    assert "ends in its header, at byte 10" in broken.err
