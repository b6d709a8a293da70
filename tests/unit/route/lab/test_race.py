# SPDX-License-Identifier: Apache-2.0
"""What other tools print, counted; the race itself needs root and the tools."""

from __future__ import annotations

import pytest

from netdiag.route.lab.race import Run, distances, markdown, table


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("  1.|-- 198.18.1.1   0.0%  1  3.3\n  2.|-- ???  100.0  1\n  3.|-- 198.18.3.1  0.0%  1\n", 2),
        ("traceroute to 203.0.113.10 (203.0.113.10), 30 hops max\n 1  198.18.1.1  3.2 ms\n 2  *\n", 1),
        (" 1  198.18.1.1  3.234 ms\n 2  * * *\n30  203.0.113.10 [open]  95.2 ms\n", 2),
        ("traceroute from 198.18.255.2 to 203.0.113.10\n 1  198.18.1.1  3.2 ms\n 2  198.18.2.1  6.4 ms\n", 2),
        ("1 198.18.1.1\n1 198.18.1.1\n", 1),
        ("", 0),
    ],
)
def test_distances_that_show_an_address(text, count):
    assert distances(text) == count


def test_the_table_leaves_out_what_a_tool_does_not_say():
    lines = table(
        [Run(tool="a", seconds=0.3, inside_s=0.19, found=29), Run(tool="b", seconds=8.0, inside_s=None, found=3)]
    )
    assert lines.splitlines()[1].split() == ["a", "0.30", "0.190", "29"]
    assert lines.splitlines()[2].split() == ["b", "8.00", "3"]


def test_as_markdown_every_row_has_every_cell():
    runs = [
        Run(tool="a", seconds=0.3, inside_s=0.19, found=29, peak_mb=20.4),
        Run(tool="b", seconds=8, inside_s=None, found=3),
    ]
    lines = markdown(runs).splitlines()
    assert [line.count("|") for line in lines] == [6, 6, 6, 6]
    assert len({len(line) for line in lines}) == 1
    assert [cell.strip() for cell in lines[2].strip("|").split("|")] == ["a", "0.30", "0.190", "29", "20"]
