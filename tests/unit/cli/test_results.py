# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import stat
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from netdiag.cli import results
from netdiag.cli.options import Output
from netdiag.errors import InputUnreadable, UsageError
from tests.fakes import documents
from tests.fakes.commands import builder, recording_file

DOCUMENT = documents.document()


@pytest.mark.parametrize(
    ("output", "status"),
    [
        (Output(), 0),
        (Output(fail_on="critical"), 0),
        (Output(fail_on="warning"), 3),
        (Output(fail_on="info"), 3),
        (Output(assertions=("connections<=5",)), 0),
        (Output(assertions=("connections<=4",)), 3),
        (Output(assertions=("connections<=5", "errors==0")), 3),
    ],
)
def test_gates(capsys, output, status):
    assert results.gate(DOCUMENT, output) == status
    assert bool(capsys.readouterr().err) is bool(status)


def test_every_gate_that_fails_is_told(capsys):
    results.gate(DOCUMENT, Output(fail_on="warning", assertions=("connections<=4", "reuse>=0.5")))
    assert capsys.readouterr().err.splitlines() == [
        "netdiag: --fail-on warning: reuse.client-per-call",
        "netdiag: assertion failed: connections<=4 (the value is 5)",
        "netdiag: assertion failed: reuse>=0.5 (the value is 0)",
    ]


def test_a_file_is_replaced_as_a_whole_and_keeps_its_mode(tmp_path):
    path = tmp_path / "out.json"
    path.write_text("old")
    path.chmod(0o600)
    results.write_text("new", path, io.StringIO())
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_keeps_pointing(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    results.write_text("new", link, io.StringIO())
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_what_cannot_be_written_is_a_wrong_call_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(UsageError, match="No space left"):
        results.write_text("new", tmp_path / "out", io.StringIO())
    assert list(tmp_path.iterdir()) == []


def test_a_device_is_written_to():
    results.write_text("x", Path("/dev/null"), io.StringIO())
    assert Path("/dev/null").is_char_device()


def test_bytes_do_not_depend_on_the_locale():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    results.write_text("→ é", None, stream)
    assert raw.getvalue() == "→ é".encode()


@pytest.mark.parametrize("start", [b"", b"#!/bin/sh\n", b"PK\x03\x04 and more"])
def test_what_is_no_input_is_said_with_its_offset(start, tmp_path):
    path = tmp_path / "x"
    path.write_bytes(start)
    with pytest.raises(InputUnreadable, match="at byte 0") as error:
        results.open_input(str(path))
    assert "neither a recording of netdiag nor a packet capture" in error.value.message
    assert error.value.exit_code == 6


def test_ignored_findings_are_counted_out(tmp_path):
    path = tmp_path / "netdiag.toml"
    recording = builder().recording()
    code = results.examine(recording, Output()).document["findings"][0]["code"]
    path.write_text(f'[[ignore]]\ncode = "{code}"\nreason = "known"\nexpires = 2027-01-31\n')
    document = results.examine(recording, Output(config=path), today=date(2026, 12, 1)).document
    assert [entry["code"] for entry in document["ignored"]] == [code]
    assert code not in [finding["code"] for finding in document["findings"]]
    expired = results.examine(recording, Output(config=path), today=date(2027, 1, 31)).document
    assert expired["ignored"] == []


def test_several_documents_in_one_stream():
    out = io.StringIO()
    results.write([(None, DOCUMENT), (None, DOCUMENT)], Output(format="ndjson"), fallback=out)
    lines = out.getvalue().splitlines()
    assert len(lines) % 2 == 0
    assert "" not in lines


@pytest.mark.parametrize("target", [">/dev/full", ">&-"])
def test_results_that_cannot_be_written_are_told(tmp_path, target):
    command = f"{sys.executable} -m netdiag analyze {recording_file(tmp_path)} {target}"
    done = subprocess.run(["bash", "-c", command], check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("netdiag: error: the results")
