# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import csv
import io
import json

import pytest

from netdiag.render import Options, route
from netdiag.route import document
from netdiag.route.knowledge import Knowledge
from netdiag.route.survey import Inputs, examine
from netdiag.text import cells
from tests.fakes.routes import IP, NEW_YORK, NEW_YORK_NAMES, boomerang, connect, measured, trace

EVIL = "evil\x1b[31m\u202e<script>|`.newyork1.test"


@pytest.fixture(scope="module")
def shown():
    return document.build(examine(boomerang(), Knowledge(), Inputs(baseline_ms=12.0)))


@pytest.fixture(scope="module")
def hostile():
    names = NEW_YORK_NAMES | {"198.18.11.5": EVIL}
    connects = [connect([88.1] * 12, pop="FRA"), connect([None] * 12, ip="2001:db8:ffff:ffff:ffff:ffff:ffff:ffff")]
    six = trace([("2001:db8:ffff:ffff:ffff:ffff:ffff:fff1", 80.0), None], ip="2001:db8::1", reached=False)
    return document.build(examine(measured(traces=[trace(NEW_YORK), six], connects=connects, names=names), Knowledge()))


@pytest.mark.parametrize("name", route.FORMATS)
def test_no_format_lets_a_terminal_or_a_browser_be_told_what_to_do(hostile, name):
    text = route.render(name, hostile, Options(rows="hops"))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "<script>" not in text if name == "html" else True
    assert text.endswith("\n")


@pytest.mark.parametrize("verbose", [False, True])
def test_the_table_is_eighty_columns_wide(hostile, shown, verbose):
    for made in (hostile, shown):
        lines = route.render("table", made, Options(verbose=verbose, recording="/tmp/x.json")).splitlines()
        assert max(cells(line) for line in lines) <= 80


def test_json_is_the_document(shown):
    assert json.loads(route.render("json", shown, Options())) == shown


def test_every_line_of_ndjson_has_a_kind(shown):
    kinds = [json.loads(line)["kind"] for line in route.render("ndjson", shown, Options()).splitlines()]
    assert kinds[0] == "route"
    assert kinds.count("hop") == 7
    assert {"address", "pop", "finding"} <= set(kinds)


def test_csv_has_a_row_per_hop_and_silence_is_empty(shown):
    rows = list(csv.DictReader(io.StringIO(route.render("csv", shown, Options(rows="hops")))))
    assert [row["ip"] for row in rows] == [hop[0] if hop else "" for hop in NEW_YORK]
    assert rows[-1]["ip"] == IP
    assert (rows[3]["min_ms"], rows[3]["answers"]) == ("", "0")


def test_another_format(shown):
    with pytest.raises(ValueError, match="yaml"):
        route.render("yaml", shown, Options())
