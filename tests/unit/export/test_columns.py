# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import pytest

from netdiag.export.columns import SCHEMAS, Column
from netdiag.render import LISTS

KINDS = {"text", "int", "ms", "bool", "instant", "texts", "json"}


def column(table, name):
    (found,) = (one for one in SCHEMAS[table] if one.name == name)
    return found


def test_every_list_of_the_document_has_columns():
    assert set(SCHEMAS) == set(LISTS)


@pytest.mark.parametrize("table", sorted(SCHEMAS))
def test_columns_are_well_formed(table):
    columns = SCHEMAS[table]
    assert len({one.name for one in columns}) == len(columns)
    assert {one.kind for one in columns} <= KINDS
    assert [one.name for one in columns if not re.fullmatch(r"[a-z][a-z0-9_]*", one.name)] == []


@pytest.mark.parametrize("table", sorted(SCHEMAS))
def test_a_name_that_ends_with_a_unit_has_its_kind(table):
    assert [one.name for one in SCHEMAS[table] if one.name.endswith("_ms") and one.kind != "ms"] == []
    assert [one.name for one in SCHEMAS[table] if one.name.endswith("_bytes") and one.kind != "int"] == []


@pytest.mark.parametrize(
    ("table", "name", "kind", "source"),
    [
        ("requests", "id", "text", "id"),
        ("requests", "http_host", "text", "host"),
        ("requests", "started", "instant", "started_ns"),
        ("requests", "stream_ttft_ms", "ms", "stream.ttft_ms"),
        ("connections", "closed", "instant", "ended_ns"),
    ],
)
def test_where_a_column_comes_from(table, name, kind, source):
    assert column(table, name) == Column(name=name, kind=kind, source=source)
