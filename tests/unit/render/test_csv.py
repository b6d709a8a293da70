# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import csv
import io

import pytest

from netdiag.render import LISTS, Options, render
from tests.fakes import documents


def read(rows="connections", **changes):
    text = render("csv", documents.document(**changes), Options(rows=rows))
    return list(csv.DictReader(io.StringIO(text)))


def test_a_row_an_event_with_nested_members_side_by_side():
    rows = read()
    assert [row["id"] for row in rows] == ["c1", "c2", "c3", "c4", "c5"]
    assert rows[0]["remote_ip"] == "198.51.100.7"
    assert rows[0]["remote_port"] == "8080"


def test_unknown_is_an_empty_cell_and_zero_is_not():
    (row, *_) = read()
    assert row["remote_name"] == ""
    assert row["retransmits"] == "0"
    assert row["encrypted"] == "false"


@pytest.mark.parametrize("name", LISTS)
def test_every_list_can_be_written(name):
    read(name)


def test_an_empty_list_has_a_head_that_says_so():
    assert render("csv", documents.document(), Options(rows="handshakes")) == "no handshakes\r\n"


@pytest.mark.parametrize("evil", ["=1+1", "+1", "-1", "@SUM(A1)"])
def test_a_name_is_no_formula(evil):
    document = documents.document()
    document["connections"][0]["comm"] = evil
    assert read(connections=document["connections"])[0]["comm"] == f"'{evil}"


def test_quotes_and_backslashes_come_back_as_they_were():
    document = documents.document()
    document["connections"][0]["comm"] = 'a "b" \\c, d'
    assert read(connections=document["connections"])[0]["comm"] == 'a "b" \\c, d'


def test_control_characters_stay_escaped():
    document = documents.document()
    document["connections"][0]["comm"] = "a\nb\x1b"
    assert read(connections=document["connections"])[0]["comm"] == "a\\nb\\u001b"
