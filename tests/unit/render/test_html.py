# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from netdiag.render import Options, html, render
from netdiag.render.activity import activity
from netdiag.render.html import Part
from netdiag.tables.model import Loss
from tests.fakes import calls, documents, goldens

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Page(HTMLParser):
    """Collects what a browser would see, and fails on tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self._open):
            self.words += data

    def named(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def page(document=None, **options):
    return render("html", document or documents.document(), Options(**options))


@pytest.mark.golden
def test_the_whole_page(update_goldens):
    text = page(activity=activity(documents.per_call_tables()))
    goldens.compare("report.html", text, update=update_goldens)


def test_it_is_well_formed_and_has_one_title_and_one_heading():
    found = Page(page())
    assert len(found.named("title")) > 0
    assert len(found.named("h1")) == 1
    assert found.named("html") == [{"lang": "en"}]


def test_nothing_is_loaded_from_elsewhere_and_only_the_pages_own_script_runs():
    text = page()
    found = Page(text)
    assert found.named("script") == [{}]
    assert found.named("link") == []
    assert not [attributes for _, attributes in found.tags if {"src", "xlink:href"} & set(attributes)]
    targets = {attributes["href"] for _, attributes in found.tags if "href" in attributes}
    assert targets
    ids = {f"#{attributes['id']}" for _, attributes in found.tags if "id" in attributes}
    assert targets <= ids
    assert not re.search(r"url\(|@import|https?://", text)
    (policy,) = [meta["content"] for meta in found.named("meta") if meta.get("http-equiv")]
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)
    assert script
    print_ = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{print_}'"


def test_no_identifier_stands_twice_where_there_are_several_recordings():
    parts = [Part(document=documents.document(), name=f"<{number}>") for number in range(3)]
    found = Page(html.page(parts))
    ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert len(found.named("h1")) == 1
    assert "3 recordings" in found.words
    assert "<2>" in found.words


def test_own_templates_take_the_place_of_the_shipped_ones(tmp_path):
    (tmp_path / "style.css").write_text("body { color: teal }")
    text = html.page([Part(document=documents.document(), name="x")], templates=tmp_path)
    assert "color: teal" in text
    assert "--critical" not in text
    (tmp_path / "report.html.j2").write_text("<p>{{ verdict.title }} {{ document.connections[0].comm }}</p>")
    assert "<p>A new connection for every call" in html.page(
        [Part(document=documents.document(), name="x")], templates=tmp_path
    )


def test_streams_ladders_and_hostile_words():
    source = calls.source(calls=9, hostile=calls.HOSTILE)
    text = html.page([Part(document=source.document(), name=calls.HOSTILE, arrived={"r10": (0.0, 250.0)})])
    found = Page(text)
    assert found.named("img") == []
    assert len(found.named("script")) == 1
    assert "\x1b" not in text
    assert 'class="pieces"' in text
    assert "σ/μ" in found.words


def test_foreign_text_has_no_markup():
    bad = "<img src=x onerror=alert(1)>'\"&"
    rows = [documents.connection(1, comm=bad, remote_name=bad)]
    document = documents.build(
        documents.recording(), documents.tables(rows), [documents.finding(title=bad, what_if=bad)]
    )
    found = Page(page(document))
    assert found.named("img") == []
    assert bad in found.words


def test_pictures_have_words():
    found = Page(page())
    assert all(
        svg.get("aria-label") or svg.get("aria-labelledby") or svg.get("aria-hidden") for svg in found.named("svg")
    )
    ids = {attributes["id"] for _, attributes in found.tags if "id" in attributes}
    referenced = {attributes["aria-labelledby"] for _, attributes in found.tags if "aria-labelledby" in attributes}
    assert referenced <= ids
    assert len(found.named("table")) >= 3


def test_it_is_made_for_dark_light_and_paper():
    text = page()
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_ten_thousand_connections_stay_below_two_megabytes_and_say_what_is_left_out():
    rows = [documents.connection(number, number / 10) for number in range(1, 10_001)]
    turns = [
        {
            "connection": row,
            "began_ns": 1e6,
            "sent_ns": 2e6,
            "first_byte_ns": 3e6,
            "last_byte_ns": 4e6,
            "answered": True,
        }
        for row in range(10_000)
    ]
    tables = documents.tables(rows, turns=documents.rows("turns", turns))
    text = page(documents.build(documents.recording(), tables, []), activity=activity(tables))
    assert len(text.encode()) < 2_000_000
    assert "9,850 more connections are not drawn" in text


def test_losses_and_ends_are_told():
    tables = documents.tables([documents.connection(1)], losses=(Loss(probe="tcp", seen=3, lost=4),))
    document = documents.build(documents.recording(end=None, truncated_at=9), tables, [])
    words = Page(page(document)).words
    assert "4 events were lost" in words
    assert "breaks off at byte 9" in words


def test_a_healthy_run_and_an_empty_one():
    healthy = documents.build(documents.recording(), documents.tables([documents.connection(1)]), [])
    assert "Nothing to change was found." in Page(page(healthy)).words
    empty = documents.build(documents.recording(), documents.tables([]), [])
    assert "No TCP connection was seen" in Page(page(empty)).words
