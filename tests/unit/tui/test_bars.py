# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.tui.bars import BLAME_STYLES, Extent, Pieces, bar, pieces_of, ruler
from netdiag.tui.look import FANCY, PART_STYLES, PLAIN
from tests.fakes import dashboards

EXAM = dashboards.examination()


def drawn(extent, width=100, glyphs=FANCY, pieces=None, at=0):
    return bar(EXAM.calls, at, extent, width, glyphs, pieces or Pieces())


def text(runs):
    return "".join(run[0] for run in runs)


@pytest.mark.parametrize(
    "extent",
    [Extent(start=0, end=1e9), Extent(start=5e8, end=5.1e8), Extent(start=5e9, end=6e9), Extent(start=0, end=0)],
)
def test_a_bar_is_as_wide_as_its_cell(extent):
    assert len(text(drawn(extent, pieces=pieces_of(EXAM, 0)))) == 100


def test_parts_lie_where_they_passed():
    runs = drawn(Extent(start=0, end=1e9))
    styles = [style for run, style in runs for _ in run]
    assert styles[5] == PART_STYLES["wait"]
    assert styles[60] == PART_STYLES["receive"]
    assert styles[0] == ""
    assert styles[99] == ""


def test_a_stall_has_the_colour_of_who_is_to_blame():
    pieces = pieces_of(EXAM, 0)
    assert pieces.chunks == (62e6, 82e6, 102e6, 802e6, 822e6)
    assert pieces.stalls == ((102e6, 802e6, "server"),)
    styles = [style for run, style in drawn(Extent(start=0, end=1e9), pieces=pieces) for _ in run]
    assert styles[50] == BLAME_STYLES["server"]


def test_what_is_out_of_sight_is_not_drawn():
    assert text(drawn(Extent(start=5e9, end=6e9))).strip() == ""


def test_a_short_request_takes_one_cell_at_least():
    assert len(text(drawn(Extent(start=0, end=1e12), at=1)).strip()) == 1


def test_plain_mode_draws_letters():
    assert set(text(drawn(Extent(start=0, end=1e9), glyphs=PLAIN))) <= set(" CTSWQR")


def test_a_request_that_was_not_examined_has_no_pieces():
    assert pieces_of(EXAM, -1) == Pieces()
    assert pieces_of(None, 0) == Pieces()


def test_the_ruler_tells_times_in_its_width():
    line = ruler(Extent(start=0, end=1e9), 40)
    assert len(line) == 40
    assert line.split() == ["0", "ms", "500", "ms"]
    assert ruler(Extent(start=0, end=1e9), 0) == ""
