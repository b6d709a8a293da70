# SPDX-License-Identifier: Apache-2.0
"""`netdiag weights show`: a recorded load again, the same each time, and two loads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from netdiag.testing import RecordingBuilder
from tests.fakes import loads
from tests.fakes.commands import call


@pytest.fixture
def recording(tmp_path: Path) -> str:
    path = tmp_path / "load.netdiag"
    path.write_bytes(loads.builder().to_bytes(end="command-exited", end_at=2_000.0))
    return str(path)


def test_a_recording_is_shown_the_same_each_time(capsys: pytest.CaptureFixture[str], recording: str) -> None:
    first = call(capsys, "weights", "show", recording, "--format", "json")
    assert first.status == 0
    assert first.out == call(capsys, "weights", "show", recording, "--format", "json").out
    document = json.loads(first.out)
    assert document["load"]["wall_ms"] == 2_000.0
    assert document["files"][0]["filesystem"] is None
    assert "GPU" in {row["what"] for row in document["tier"]["missing"]}


@pytest.mark.parametrize("form", ["table", "ndjson", "csv", "markdown"])
def test_every_form_has_it(capsys: pytest.CaptureFixture[str], recording: str, form: str) -> None:
    called = call(capsys, "weights", "show", recording, "--format", form)
    assert called.status == 0
    assert "m.gguf" in called.out


def test_a_gate_counts(capsys: pytest.CaptureFixture[str], recording: str) -> None:
    assert call(capsys, "weights", "show", recording, "--assert", "wall_ms<1000").status == 3


def test_two_are_compared(capsys: pytest.CaptureFixture[str], recording: str) -> None:
    table = call(capsys, "weights", "show", recording, recording)
    assert "change" in table.out
    made = json.loads(call(capsys, "weights", "show", recording, recording, "--format", "json").out)
    assert {row["change"] for row in made["rows"] if row["a"] is not None} == {0}


def test_what_is_refused(capsys: pytest.CaptureFixture[str], recording: str, tmp_path: Path) -> None:
    other = tmp_path / "other.netdiag"
    other.write_bytes(RecordingBuilder().to_bytes())
    assert call(capsys, "weights", "show", str(other)).status == 6
    assert call(capsys, "weights", "show", recording, recording, recording).status == 2
    assert call(capsys, "weights", "show", recording, recording, "--format", "csv").status == 2


def test_analyze_says_where_a_load_is_shown(capsys: pytest.CaptureFixture[str], recording: str) -> None:
    called = call(capsys, "analyze", recording)
    assert f"netdiag weights show {recording}" in called.err
