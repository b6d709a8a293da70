# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.render import Options, render
from netdiag.render.markdown import escape
from tests.fakes import documents, goldens


@pytest.mark.golden
def test_the_whole_text(update_goldens):
    goldens.compare("report.md", render("markdown", documents.document(), Options()), update=update_goldens)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a|b", "a\\|b"), ("<b>", "\\<b\\>"), ("[x](y)", "\\[x\\]\\(y\\)"), ("a\nb", "a\\\\nb"), ("&lt;", "&amp;lt;")],
)
def test_foreign_text_has_no_markup(text, shown):
    assert escape(text) == shown


def test_back_quotes_in_a_command_end_no_code():
    recording = documents.recording(header={**documents.recording().header, "command": {"argv": ["a``b"]}}, facts=[])
    text = render("markdown", documents.build(recording, documents.tables([]), []), Options())
    assert text.startswith("# netdiag: ```a``b```")


def test_no_finding_is_said():
    one = documents.build(documents.recording(), documents.tables([documents.connection(1)]), [])
    assert "No finding." in render("markdown", one, Options())
    none = documents.build(documents.recording(), documents.tables([]), [])
    assert "No TCP connection was seen." in render("markdown", none, Options())
