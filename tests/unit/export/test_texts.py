# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import csv
import json

import pytest

from netdiag.export import LISTS, texts
from tests.fakes import calls


def table(kind, **changes):
    return list(csv.DictReader("".join(texts.csv_lines(calls.source(**changes), kind)).splitlines()))


def test_numbers_are_those_of_the_document():
    rows, expected = table("requests"), calls.source().document()["requests"]
    assert [float(row["total_ms"]) for row in rows] == [row["total_ms"] for row in expected]
    assert [row["status"] for row in rows] == ["", "", "", "", "", "200", "503"]
    assert json.loads(rows[5]["headers"])["x-request-id"] == "r-1"
    assert rows[5]["stream_first_token_ms"] == "250.25"
    assert rows[5]["host"] == "api.example.com"


def test_nested_ends_are_columns():
    row = table("connections")[0]
    assert (row["local_ip"], row["remote_port"]) == ("192.0.2.10", "8080")


@pytest.mark.parametrize("kind", LISTS)
def test_every_list_has_a_head_and_nothing_that_a_spreadsheet_computes(kind):
    rows = table(kind, hostile="=1+1")
    assert len(rows) == calls.source().count(kind)
    assert not [cell for row in rows for cell in row.values() if cell and cell.startswith("=")]


def test_json_is_the_document():
    source = calls.source()
    assert json.loads("".join(texts.json_lines(source))) == source.document()
