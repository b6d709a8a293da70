# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from html.parser import HTMLParser

from netdiag.render import Options
from netdiag.render.route_html import render
from netdiag.route import document
from netdiag.route.knowledge import Knowledge
from netdiag.route.survey import Inputs, examine
from tests.fakes.routes import boomerang, measured


def page(measurement):
    return render(document.build(examine(measurement, Knowledge(), Inputs(baseline_ms=12.0))), Options())


def test_a_page_with_a_map():
    text = page(boomerang())
    assert "DETOUR SUSPECTED" in text
    assert text.count("<circle") == 3
    assert "New York" in text
    assert "silent, not loss" in text


def test_nothing_is_loaded_and_nothing_runs():
    text = page(boomerang())
    assert re.findall(r"(?:src|href)=|https?://|<script|@import|url\(", text) == []
    assert "default-src 'none'" in text


def test_it_is_well_formed():
    class Reader(HTMLParser):
        depth = 0

        def handle_starttag(self, tag, _attrs):
            self.depth += tag not in ("meta", "line", "circle")

        def handle_startendtag(self, _tag, _attrs):
            return

        def handle_endtag(self, _tag):
            self.depth -= 1

    reader = Reader()
    reader.feed(page(boomerang()))
    assert reader.depth == 0


def test_without_places_there_is_no_map():
    assert "<svg" not in page(measured())
