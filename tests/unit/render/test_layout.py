# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from netdiag.render.layout import Paper, whole_words, wrap
from netdiag.text import cells, safe


@given(st.text(max_size=200), st.integers(10, 60))
def test_wrapping_keeps_every_word_and_the_width(text, width):
    text = safe(text)
    lines = list(wrap(text, width))
    assert all(cells(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


@given(st.lists(st.text("ab{}…", min_size=1, max_size=9), min_size=1, max_size=9), st.integers(11, 60))
def test_a_command_is_cut_between_its_words(words, width):
    text = " ".join(words)
    short = whole_words(text, width)
    assert cells(short) <= width
    assert short == text or (short.endswith("…") and text.startswith(short[:-1]))
    assert short == text or short.endswith(" …") or cells(short) == width


def test_a_single_long_word_is_cut_anywhere():
    assert whole_words("x" * 40 + " y", 10) == "x" * 9 + "…"


def test_a_label_stands_beside_the_first_line_only():
    paper = Paper(width=30, color=False)
    paper.labelled("proof", "one two three four five six seven", indent=2)
    assert paper.text() == "  proof  one two three four\n         five six seven\n"


def test_parts_break_between_each_other():
    paper = Paper(width=40, color=False)
    paper.listed("what", ["first part", "second part", "third part"])
    assert paper.text() == "what     first part · second part\n         third part\n"


def test_code_is_neither_wrapped_nor_cut():
    paper = Paper(width=20, color=False)
    paper.verbatim("x" * 50)
    assert "x" * 50 in paper.text()


def test_a_line_is_cut_with_a_sign():
    paper = Paper(width=10, color=False)
    paper.line("0123456789abc")
    assert paper.text() == "012345678…\n"


def test_colour_only_where_allowed():
    assert Paper(width=10, color=True).paint("x", "warning") == "\x1b[1;33mx\x1b[0m"
    assert Paper(width=10, color=False).paint("x", "warning") == "x"
