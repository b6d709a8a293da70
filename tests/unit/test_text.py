# SPDX-License-Identifier: Apache-2.0
"""Foreign text cannot reach the terminal as anything but text."""

from __future__ import annotations

import unicodedata

import hypothesis
import hypothesis.strategies as st
import pytest

from netdiag.text import cells, cut, cut_middle, fit, safe


@pytest.mark.parametrize(
    ("foreign", "shown"),
    [
        ("curl", "curl"),
        ("naïve 漢字 🙂", "naïve 漢字 🙂"),
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("a\x9b31mb", r"a\x9b31mb"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("user\u202etxt.exe", r"user\u202etxt.exe"),
        ("zero\u200bwidth", r"zero\u200bwidth"),
        ("\ud800", r"\ud800"),
        ("\U000e0001", r"\U000e0001"),
        (b"\xffabc\x00", r"\xffabc\x00"),
        ("e\u0301\u0301\u0301\u0301", "e\u0301\u0301\\u0301\\u0301"),
    ],
)
def test_what_would_act_is_shown_as_an_escape(foreign, shown):
    assert safe(foreign) == shown


@hypothesis.given(st.text())
def test_nothing_that_acts_comes_through(foreign):
    for char in safe(foreign):
        assert unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}


@hypothesis.given(st.text(), st.integers(0, 30))
def test_text_fits_its_cells(foreign, width):
    assert cells(safe(foreign, width)) <= width
    assert cells(fit(safe(foreign), width)) == width
    assert cells(fit(safe(foreign), width, right=True)) == width


@hypothesis.given(st.text(), st.integers(0, 30), st.integers(1, 12))
def test_what_is_cut_in_the_middle_keeps_its_end(foreign, width, tail):
    text = safe(foreign)
    short = cut_middle(text, width, tail=tail)
    assert text == short or (short.endswith(text[-tail:]) and cells(short) <= max(width, cells(text[-tail:])))


def test_wide_characters_take_two_cells_and_marks_none():
    assert (cells("abc"), cells("漢字"), cells("e\u0301")) == (3, 4, 1)
    assert (cut("漢字漢字", 5), cut("abcdef", 4), cut("abc", 3), cut("abc", 0)) == ("漢字…", "abc…", "abc", "")
    assert (fit("漢字", 3), fit("7", 3, right=True)) == ("漢…", "  7")
