# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys

import pytest

from netdiag.render import FORMATS, Options, render
from tests.fakes import documents


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_renders_and_ends_with_a_line_feed(name):
    assert render(name, documents.document(), Options()).endswith("\n")


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_takes_a_trace_that_saw_nothing(name):
    empty = documents.build(documents.recording(facts=[], end=None), documents.tables([], losses=()), [])
    assert render(name, empty, Options())


@pytest.mark.parametrize("name", FORMATS)
def test_hostile_names_reach_no_terminal_and_no_browser(name):
    bad = "\x1b]0;owned\x07<script>alert(1)</script>\u202e\n|`x`"
    rows = [documents.connection(1, comm=bad, remote_name=bad)]
    recording = documents.recording(
        header={**documents.recording().header, "command": {"argv": [bad]}, "target": {"exe": [bad]}}, facts=[]
    )
    text = render(name, documents.build(recording, documents.tables(rows), [documents.finding(title=bad)]), Options())
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text
    if name == "html":
        assert "<script>alert" not in text
        assert text.count("<script") == 1  # the page's own


def test_an_unknown_format_is_refused():
    with pytest.raises(ValueError, match="no format"):
        render("xml", {}, Options())


def test_a_table_loads_no_template_engine():
    code = "import sys, netdiag.render.table; sys.exit('jinja2' in sys.modules or 'pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
