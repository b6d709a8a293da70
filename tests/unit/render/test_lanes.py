# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pytest

from netdiag.findings import Evidence
from netdiag.render.lanes import LABEL_PX, MAX_LANES, PLOT_PX, draw
from tests.fakes import documents


def picture(rows, activity=None, span_ms=1000.0):
    tables = documents.tables(rows, span_ms=span_ms)
    return draw(documents.build(documents.recording(), tables, []), activity or {})


def test_bars_lie_where_time_passed():
    (lane,) = picture([documents.connection(1, 500.0)], {"c1": [("wait", 510.0, 540.0)]}).lanes
    by_kind = {bar.kind: bar for bar in lane.bars}
    assert by_kind["open"].x == pytest.approx(LABEL_PX + PLOT_PX * 0.5, abs=0.01)
    assert by_kind["open"].width == pytest.approx(PLOT_PX * 0.05, abs=0.01)
    assert by_kind["connect"].width == pytest.approx(PLOT_PX * 0.004, abs=0.01)
    assert by_kind["wait"].width == pytest.approx(PLOT_PX * 0.03, abs=0.01)


def test_nothing_lies_outside():
    rows = [
        documents.connection(1, -500.0),
        documents.connection(2, 5000.0),
        documents.connection(3, opened_ns=math.nan),
    ]
    for lane in picture(rows, {"c1": [("send", -10.0, 9e9)]}).lanes:
        assert all(LABEL_PX <= bar.x <= LABEL_PX + PLOT_PX for bar in lane.bars)


@pytest.mark.parametrize(
    ("changes", "mark"),
    [
        ({"closed_by": "local"}, "local"),
        ({"closed_by": "remote"}, "remote"),
        ({"closed_by": "remote", "close": "rst"}, "reset-remote"),
        ({"closed_by": None, "close": "timeout"}, "timeout"),
        ({"closed_by": None, "close": "open", "closing_ns": math.nan, "ended_ns": math.nan}, None),
        ({"outcome": "refused", "closed_by": "remote", "close": "rst"}, "failed"),
    ],
)
def test_the_mark_says_who_closed(changes, mark):
    (lane,) = picture([documents.connection(1, **changes)]).lanes
    assert lane.mark == mark


def test_an_open_connection_reaches_to_the_end():
    open_one = documents.connection(1, 0.0, closed_by=None, close="open", closing_ns=math.nan, ended_ns=math.nan)
    (lane,) = picture([open_one]).lanes
    assert lane.bars[0].width == pytest.approx(PLOT_PX)


def test_lanes_are_bounded_and_the_rest_is_counted():
    drawn = picture([documents.connection(number) for number in range(1, MAX_LANES + 8)])
    assert len(drawn.lanes) == MAX_LANES
    assert drawn.left_out == 7


@pytest.mark.parametrize("span_ms", [0.001, 0.7, 3.0, 999.0, 61_400.0, 86_400_000.0])
def test_the_axis_has_a_few_round_instants(span_ms):
    ticks = picture([], span_ms=span_ms).ticks
    assert 2 <= len(ticks) <= 9
    assert len({tick.label for tick in ticks}) == len(ticks)


def test_a_lane_tells_its_story():
    (lane,) = picture([documents.connection(1)]).lanes
    assert "198.51.100.7:8080 · established · 1 request · 240 B sent" in lane.title
    assert "closed by this side after 1.5 ms idle" in lane.title


def test_connections_that_findings_name_are_drawn_wherever_they_are():
    rows = [documents.connection(number, 10.0 * number) for number in range(1, 400)]
    named = documents.finding(evidence=(Evidence(kind="connection", id="c390", note="late"),))
    built = documents.build(documents.recording(), documents.tables(rows, span_ms=9000.0), [named])
    drawn = draw(built, {})
    assert [lane.id for lane in drawn.lanes][-2:] == ["c149", "c390"]
    assert drawn.lanes[-1].mark_x == pytest.approx(LABEL_PX + PLOT_PX, abs=1)


def test_the_axis_ends_with_the_last_lane_that_is_drawn():
    rows = [documents.connection(number, 10.0 * number) for number in range(1, 400)]
    assert picture(rows, span_ms=9000.0).ticks[-1].label == "1.4 s"
