# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from netdiag import testing
from tests.fakes import dashboards


def test_four_in_a_line_where_there_is_room_else_two():
    wide, narrow = dashboards.press(size=(160, 24)), dashboards.press(size=(80, 24))
    assert any("requests" in line and "errors" in line and "wait p95" in line for line in wide.splitlines())
    assert not any("requests" in line and "wait p95" in line for line in narrow.splitlines())
    assert "errors" in narrow


def test_what_nobody_could_tell_is_a_dash():
    exam = dashboards.examination(testing.tables(connections=[testing.connection()]), [])
    line = next(
        one for one in dashboards.press(shown=dashboards.snapshot(exam)).splitlines() if one.startswith("requests")
    )
    assert "–" in line
