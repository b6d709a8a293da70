# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.tui import look


def test_a_sparkline_has_its_width_and_the_newest_at_the_right():
    assert look.spark((0, 1, 2), 5, look.FANCY) == "  ▁▅█"
    assert look.spark((0, 1, 2), 2, look.FANCY) == "▅█"
    assert look.spark((), 3, look.FANCY) == "   "
    assert look.spark((1.0,), 0, look.FANCY) == ""


def test_what_is_missing_is_blank_and_little_is_not_nothing():
    assert look.spark((None, 0.001, 0, 1000), 4, look.FANCY) == " ▂▁█"


def test_plain_signs_are_ascii():
    glyphs = look.PLAIN
    assert (glyphs.bars + glyphs.block + glyphs.arrow + glyphs.stall + glyphs.tick + glyphs.mark).isascii()
    assert "".join(look.PART_LETTERS.values()).isascii()


@pytest.mark.parametrize(("value", "text"), [(None, "–"), (0, "0"), (0.5, "0.50"), (12.34, "12.3"), (4321.0, "4,321")])
def test_rates_are_short(value, text):
    assert look.rate(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0.0, "0 %"), (0.001, "<1 %"), (0.999, ">99 %"), (1.0, "100 %"), (0.5, "50 %")]
)
def test_a_share_never_rounds_to_all_or_nothing(value, text):
    assert look.share(value) == text


def test_each_part_has_name_colour_and_letter():
    assert set(look.PART_NAMES) == set(look.PART_STYLES) == set(look.PART_LETTERS)
    assert len(set(look.PART_LETTERS.values())) == len(look.PART_LETTERS)
    assert [look.count(one) for one in (99_999, 123_456, 1_234_567)] == ["99,999", "123k", "1.2M"]
    assert look.count(None) == "–"
    assert look.ms(None) == "–"


def test_what_has_an_end_is_folded_into_the_room_there_is():
    assert look.folded((1.0, 9.0, None, None, 2.0, 3.0), 3) == (9.0, None, 3.0)
    assert look.folded((1.0, 2.0), 5) == (1.0, 2.0)
    assert len(look.folded(tuple(map(float, range(60))), 17)) == 17
