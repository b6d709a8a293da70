# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from netdiag import testing
from tests.fakes import dashboards


def test_the_largest_part_is_named_first_and_the_bar_fills_the_line():
    lines = dashboards.press(size=(80, 24)).splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith("request time 1.01 s"))
    assert len(lines[at]) == 80
    assert lines[at + 1].startswith("■ receive 89 %")


def test_without_requests_nothing_is_drawn():
    exam = dashboards.examination(testing.tables(), [])
    assert "request time" not in dashboards.press(shown=dashboards.snapshot(exam))
