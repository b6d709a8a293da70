# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import csv
import io
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading

import pytest

from netdiag.testing import START_NS
from tests.fakes.commands import builder, call, recording_file


@pytest.mark.parametrize("form", ["csv", "json", "har", "otlp"])
def test_to_standard_output_and_to_a_file(capsys, tmp_path, form):
    recording = recording_file(tmp_path)
    printed = call(capsys, "export", recording, "--to", form, *(["--rows", "requests"] if form == "csv" else []))
    assert printed.status == 0
    assert printed.err == ""
    rows = ["--rows", "requests"] if form == "csv" else []
    written = call(capsys, "export", recording, "--to", form, "-o", tmp_path / "x", *rows)
    assert written.out == ""
    assert (tmp_path / "x").read_bytes().decode() == printed.out
    assert {path.name for path in tmp_path.iterdir()} == {"calls.netdiag", "x"}


@pytest.mark.parametrize("form", ["json", "har", "csv"])
def test_a_pipe_is_written_to_and_not_replaced(capsys, tmp_path, form):
    recording, pipe = recording_file(tmp_path), tmp_path / "pipe"
    rows = ["--rows", "requests"] if form == "csv" else []
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
    reader.start()
    assert call(capsys, "export", recording, "--to", form, "-o", pipe, *rows).status == 0
    reader.join(timeout=10)
    assert pipe.is_fifo()
    assert got[0].decode() == call(capsys, "export", recording, "--to", form, *rows).out


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_a_place_that_cannot_be_written_is_told(capsys, tmp_path, form):
    (tmp_path / "file").write_text("")
    called = call(capsys, "export", recording_file(tmp_path), "--to", form, "-o", tmp_path / "file" / "x")
    assert called.status == 2
    assert "Not a directory" in called.err


def test_without_standard_output_there_is_nowhere_to_go(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    called = call(capsys, "export", recording_file(tmp_path), "--to", "har")
    assert called.status == 1
    assert "nowhere to go" in called.err


def test_json_is_what_analyze_prints(capsys, tmp_path):
    recording = recording_file(tmp_path)
    exported = call(capsys, "export", recording, "--to", "json").out
    assert exported == call(capsys, "analyze", recording, "--format", "json").out
    assert len(json.loads(exported)["requests"]) == 6


def test_csv_of_all_lists_goes_into_a_folder(capsys, tmp_path):
    assert call(capsys, "export", recording_file(tmp_path), "--to", "csv", "-o", tmp_path / "out").status == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out" / "requests.csv").read_text())))
    assert len(rows) == 6
    assert len(list((tmp_path / "out").iterdir())) == 6


def test_parquet(capsys, tmp_path):
    called = call(capsys, "export", recording_file(tmp_path), "--to", "parquet", "-o", tmp_path / "lake")
    assert called.status == 0
    assert "files below" in called.err
    assert list((tmp_path / "lake" / "requests" / "host=127.0.0.1").glob("date=*/*.parquet"))


@pytest.mark.parametrize(
    "words",
    [
        ["--to", "parquet"],
        ["--to", "har", "--rows", "requests"],
        ["--to", "har", "--endpoint", "http://127.0.0.1:1"],
        ["--to", "otlp", "--endpoint", "http://127.0.0.1:1", "-o", "x"],
        ["--to", "har", "-o", "."],
        ["--to", "xml"],
        ["--to", "otlp", "--endpoint", "ftp://127.0.0.1"],
    ],
)
def test_wrong_words(capsys, tmp_path, words):
    assert call(capsys, "export", recording_file(tmp_path), *words).status == 2


def test_an_endpoint_that_is_not_there(capsys, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        called = call(
            capsys, "export", recording_file(tmp_path), "--to", "otlp", "--endpoint",
            f"http://127.0.0.1:{free.getsockname()[1]}",
        )  # fmt: skip
    assert called.status == 1
    assert "cannot be reached" in called.err


def test_a_recording_without_packets_says_how_to_get_them(capsys, tmp_path):
    called = call(capsys, "export", recording_file(tmp_path), "--to", "pcapng", "-o", tmp_path / "x")
    assert called.status == 1
    assert "--save-packets" in called.err


def test_packets_are_read_by_tshark_with_comments(capsys, tmp_path):
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    made = builder()
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40, 0, 0, 64, 6, 0, b"\x7f\0\0\1", b"\x7f\0\0\1")
    data = head + struct.pack(">HHIIBBHHH", 40001, 8080, 1, 0, 0x50, 2, 64, 0, 0)
    made.fact("packet", at_ns=START_NS + 5, length=40, data=base64.b64encode(data).decode())
    (tmp_path / "p.netdiag").write_bytes(made.to_bytes(end="command-exited"))
    called = call(capsys, "export", tmp_path / "p.netdiag", "--to", "pcapng", "-o", tmp_path / "p.pcapng")
    assert called.status == 0, called.err
    fields = ["-T", "fields", "-e", "tcp.srcport", "-e", "frame.comment"]
    out = subprocess.check_output(
        ["tshark", "-r", tmp_path / "p.pcapng", *fields], text=True, stderr=subprocess.DEVNULL, timeout=60
    )
    assert "40001" in out
    assert "reuse.client-per-call" in out
