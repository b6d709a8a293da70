# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import json
import sys
from types import SimpleNamespace

import jsonschema
import pytest

from tests.fakes.commands import builder, call, recording_file


def test_json_of_a_recording_follows_the_schema(capsys, tmp_path, root):
    called = call(capsys, "analyze", recording_file(tmp_path), "--format", "json")
    document = json.loads(called.out)
    schema = json.loads((root / "reports/schemas/netdiag.trace-1.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(document)
    assert called.status == 0
    assert document["summary"]["requests"] == 6
    assert document["summary"]["reuse"] == 0


def test_twice_the_same_bytes_whatever_the_file_is_called(capsys, tmp_path):
    first = recording_file(tmp_path)
    second = tmp_path / "other.netdiag"
    second.write_bytes(first.read_bytes())
    outputs = {call(capsys, "analyze", path, "--format", "json").out for path in (first, first, second)}
    assert len(outputs) == 1


def test_standard_input(capsys, tmp_path, monkeypatch):
    data = recording_file(tmp_path).read_bytes()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    called = call(capsys, "analyze", "-")
    assert called.status == 0
    assert "python3 app.py" in called.out


def test_last(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("SUDO_UID", raising=False)
    assert call(capsys, "analyze", "last").status == 6
    (tmp_path / "netdiag").mkdir()
    recording_file(tmp_path / "netdiag")
    called = call(capsys, "analyze", "last")
    assert called.status == 0
    assert "netdiag report last" in called.out


def test_several_recordings(capsys, tmp_path):
    path = recording_file(tmp_path)
    assert call(capsys, "analyze", path, path, "--format", "ndjson").out.count('"kind": "trace"') == 2
    refused = call(capsys, "analyze", path, path, "--format", "json")
    assert refused.status == 2
    assert "ndjson" in refused.err


def test_gates_of_several_recordings(capsys, tmp_path):
    path = recording_file(tmp_path)
    assert call(capsys, "analyze", path, path, "--assert", "connections<=1").status == 3


@pytest.mark.parametrize("name", ["table", "json", "ndjson", "csv", "markdown"])
def test_every_format_on_every_cut_of_a_small_recording(capsys, tmp_path, name):
    """Wherever a file breaks off: results or a clear error, never a traceback."""
    data, path = builder(2).to_bytes(end="command-exited"), tmp_path / "cut.netdiag"
    for length in range(0, len(data), max(1, len(data) // 60)):
        path.write_bytes(data[:length])
        called = call(capsys, "analyze", path, "--format", name)
        assert called.status in {0, 6}
        assert called.out if called.status == 0 else "byte" in called.err


def test_a_missing_file(capsys):
    called = call(capsys, "analyze", "/nothing/here.netdiag")
    assert called.status == 6
    assert "No such file" in called.err
