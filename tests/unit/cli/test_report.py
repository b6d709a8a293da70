# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

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


def test_without_a_place_it_is_a_summary_for_the_terminal(capsys, tmp_path):
    kept = recording_file(tmp_path)
    called = call(capsys, "report", kept)
    assert called.status == 0
    assert called.out == call(capsys, "analyze", kept).out
    assert max(map(len, called.out.splitlines())) <= 80


def test_a_template_is_of_pages(capsys, tmp_path):
    assert call(capsys, "report", recording_file(tmp_path), "--template", tmp_path).status == 2


def test_the_stored_way_to_a_host(capsys, tmp_path, monkeypatch):
    from netdiag.route import history
    from tests.fakes.routes import checked

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    kept = recording_file(tmp_path)
    document = json.loads(call(capsys, "analyze", kept, "--format", "json").out)
    host = document["summary"]["by_host"][0]["host"]
    store = history.open_store()
    assert store is not None
    store.keep(history.target_of(host, 443, "tcp"), checked())
    store.close()
    page = call(capsys, "report", kept, "-o", "-").out
    assert f"The way to {host}" in page
    assert "New York" in page
    assert "New York" not in call(capsys, "report", kept, "-o", "-", "--no-routes").out


def test_a_place_that_cannot_be(capsys, tmp_path):
    called = call(capsys, "report", recording_file(tmp_path), "-o", tmp_path / "no" / "x.html")
    assert called.status == 2


def test_several_recordings_on_one_page(capsys, tmp_path):
    one = recording_file(tmp_path)
    called = call(capsys, "report", one, one, "-o", tmp_path / "x.html")
    assert called.status == 0
    text = (tmp_path / "x.html").read_text()
    assert text.count('<div class="report">') == 2
    assert "2 recordings" in text


def test_markdown_for_a_ticket(capsys, tmp_path):
    assert call(capsys, "report", recording_file(tmp_path), "-o", tmp_path / "x.md").status == 0
    assert (tmp_path / "x.md").read_text().startswith("# netdiag:")


def test_own_templates(capsys, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "style.css").write_text("body { color: teal }")
    words = ["report", recording_file(tmp_path), "-o", "-", "--template", tmp_path / "own"]
    assert "color: teal" in call(capsys, *words).out
    (tmp_path / "own" / "style.css").write_text("{% nothing %}")
    called = call(capsys, *words)
    assert called.status == 2
    assert "nothing" in called.err
    assert call(capsys, *words[:-1], tmp_path / "none").status == 2
