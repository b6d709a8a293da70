# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from netdiag import testing
from tests.fakes import dashboards


def test_classes_and_their_counts_are_shown():
    text = dashboards.press("w", "home", "enter", size=(100, 40))
    rows = [
        line.split()[:3]
        for line in text.splitlines()
        if line.startswith("  ") and ("50 ms " in line or "1.00 s" in line)
    ]
    assert ["1.00", "s", "1"] in rows


def test_the_stall_stands_out_over_time():
    text = dashboards.press("w", "home", "enter", size=(100, 40))
    assert max(line.count("█") for line in text.splitlines() if "pauses" not in line) > 60


def test_a_stream_of_one_chunk_has_no_pauses():
    exam = dashboards.examination(
        testing.tables(
            connections=[testing.connection()],
            requests=[testing.request(0, 1, stream=dashboards.STREAM)],
            chunks=[testing.chunk(0, 5)],
        ),
        [],
        stalls={},
    )
    assert "too few chunks" in dashboards.press("w", "enter", shown=dashboards.snapshot(exam))
