# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import csv
import json

import pytest

from netdiag.tui import export

TABLES = {"hosts": [["host", "wait p50", "p95", "token p50", "p95"], ["=evil()", "1 ms", "2 ms", "3 ms", "4 ms"]]}


def test_cells_are_no_formulas_of_spreadsheets():
    rows = list(csv.reader(export.to_csv(TABLES).splitlines()))
    assert rows[1][0] == "'=evil()"
    assert rows[1][1:] == ["1 ms", "2 ms", "3 ms", "4 ms"]


def test_columns_of_one_title_stay_apart():
    (row,) = json.loads(export.to_json(TABLES))["hosts"]
    assert row == {"host": "=evil()", "wait p50": "1 ms", "wait p95": "2 ms", "token p50": "3 ms", "token p95": "4 ms"}


def test_no_file_is_overwritten(tmp_path):
    first = export.free_name(tmp_path, "netdiag-x", "csv")
    export.write(first, "one")
    second = export.free_name(tmp_path, "netdiag-x", "csv")
    assert second.name == "netdiag-x-2.csv"
    with pytest.raises(FileExistsError):
        export.write(first, "two")
    assert first.read_text() == "one"


def test_a_picture_asks_nobody():
    svg = "<style>@font-face { src: url(https://example.com/f) } .a { fill: red }</style>"
    assert export.self_contained(svg) == "<style> .a { fill: red }</style>"
