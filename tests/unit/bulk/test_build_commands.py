# SPDX-License-Identifier: Apache-2.0
"""Commands on a recording that is taken for a long one say what they say of it as a short one."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from netdiag.bulk import cut
from netdiag.cli.main import run
from tests.unit.bulk import longs


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in this process: a new one for each part takes longer than these parts."""
    monkeypatch.setattr(sys.modules["netdiag.bulk.build"], "_each", lambda work, items, _: map(work, items))


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    path = tmp_path / "long.netdiag"
    recording = longs.recording
    path.write_bytes(_bytes(recording))
    return path


def _bytes(make: Any) -> bytes:
    from netdiag.testing import RecordingBuilder

    taken: list[bytes] = []
    original = RecordingBuilder.recording

    def keep(builder: RecordingBuilder, *, end: str | None = "command ended", end_at: float = 10_000) -> Any:
        taken.append(builder.to_bytes(end=end, end_at=end_at))
        return original(builder, end=end, end_at=end_at)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RecordingBuilder, "recording", keep)
        make()
    return taken[0]


def _long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cut, "LONG", 10)
    monkeypatch.setattr(cut, "parts_of", lambda recording, real=cut.parts_of: real(recording, 60))


def _told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(list(arguments)) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("form", ["csv", "json", "har", "otlp"])
def test_texts_are_the_same(kept, capsys, monkeypatch, form):
    before = _told(capsys, "export", str(kept), "--to", form, *(["--rows", "requests"] if form == "csv" else []))
    _long(monkeypatch)
    after = _told(capsys, "export", str(kept), "--to", form, *(["--rows", "requests"] if form == "csv" else []))
    if form == "json":
        _same(json.loads(after), json.loads(before))
    elif form == "csv":
        _same(list(csv.DictReader(io.StringIO(after))), list(csv.DictReader(io.StringIO(before))))
    else:
        assert after == before


def _same(one: Any, other: Any) -> None:
    if isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            _same(one[key], other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for first, second in zip(one, other, strict=True):
            _same(first, second)
    else:
        assert one == (pytest.approx(other, abs=2e-6) if isinstance(other, float) else other)


def test_parquet_is_the_same(kept, tmp_path, capsys, monkeypatch):
    _told(capsys, "export", str(kept), "--to", "parquet", "-o", str(tmp_path / "before"))
    _long(monkeypatch)
    _told(capsys, "export", str(kept), "--to", "parquet", "-o", str(tmp_path / "after"))
    names = [{path.relative_to(tmp_path / side) for path in (tmp_path / side).rglob("*.parquet")}
             for side in ("before", "after")]  # fmt: skip
    assert names[0] == names[1]
    for name in names[0]:
        one, two = (pd.read_parquet(tmp_path / side / name) for side in ("before", "after"))
        pd.testing.assert_frame_equal(one, two)


def test_a_comparison_is_the_same(kept, capsys, monkeypatch):
    before = _told(capsys, "compare", str(kept), str(kept), "--format", "json")
    _long(monkeypatch)
    _same(json.loads(_told(capsys, "compare", str(kept), str(kept), "--format", "json")), json.loads(before))


def test_a_report_has_the_same_figures_and_says_what_findings_rest_on(kept, tmp_path, capsys, monkeypatch):
    pages = []
    for side in ("before", "after"):
        _told(capsys, "report", str(kept), "-o", str(tmp_path / f"{side}.html"))
        pages.append((tmp_path / f"{side}.html").read_text())
        _long(monkeypatch)
    assert "findings rest on 84 of 84 requests" in pages[1]
    figures = [re.findall(r"<dd>[^<]*</dd>", page) for page in pages]
    assert figures[0][:8] == figures[1][:8]
    assert pages[1].count("<svg") == pages[0].count("<svg")


def test_markdown_of_a_long_recording(kept, tmp_path, capsys, monkeypatch):
    _long(monkeypatch)
    _told(capsys, "report", str(kept), "-o", str(tmp_path / "a.md"))
    assert "84 requests" in (tmp_path / "a.md").read_text()
