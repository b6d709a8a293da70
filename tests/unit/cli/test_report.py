# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from tests.fakes.commands import call, recording_file


def test_a_page_with_lanes(capsys, tmp_path):
    called = call(capsys, "report", recording_file(tmp_path), "-o", tmp_path / "x.html")
    assert called.status == 0
    assert called.out == ""
    text = (tmp_path / "x.html").read_text()
    assert text.startswith("<!doctype html>")
    assert 'class="wait"' in text


def test_to_standard_output(capsys, tmp_path):
    called = call(capsys, "report", recording_file(tmp_path), "-o", "-")
    assert called.out.startswith("<!doctype html>")
    assert called.err == ""


def test_it_needs_a_place(capsys, tmp_path):
    called = call(capsys, "report", recording_file(tmp_path))
    assert called.status == 2
    assert "-o" in called.err


def test_a_place_that_cannot_be(capsys, tmp_path):
    called = call(capsys, "report", recording_file(tmp_path), "-o", tmp_path / "no" / "x.html")
    assert called.status == 2
