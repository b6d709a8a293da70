# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from netdiag.export import source as module
from tests.fakes import calls, documents


@pytest.mark.parametrize("kind", ["connections", "requests", "processes", "resolutions", "handshakes"])
@pytest.mark.parametrize("piece", [1, 2, 1000])
def test_pieces_are_the_lists_of_the_document(monkeypatch, kind, piece):
    monkeypatch.setattr(module, "PIECE", piece)
    source = calls.source()
    assert [row for rows in source.pieces(kind) for row in rows] == source.document()[kind]


def test_rows_out_of_turn_come_in_order_of_time_with_their_own_stalls():
    source = calls.source()
    upside_down = source.tables.requests.iloc[::-1].reset_index(drop=True)
    last = len(upside_down) - 1
    turned = replace(source, tables=replace(source.tables, requests=upside_down), stalls={1: source.stalls[5]})
    rows = [row for rows in turned.pieces("requests") for row in rows]
    assert rows == turned.document()["requests"]
    assert [row["started"] for row in rows] == sorted(row["started"] for row in rows)
    assert rows[last - 1]["stream"]["stalls"][0]["gap_ms"] == 400.0


def test_progress_is_told():
    told = []
    list(calls.source().pieces("requests", lambda *words: told.append(words)))
    assert told[-1] == ("requests", 7, 7)


def test_hosts_are_names_where_there_are_any():
    assert list(calls.source(calls=1).hosts) == ["198.51.100.7", "api.example.com"]


def test_an_empty_recording():
    empty = replace(calls.source(), tables=documents.tables([]), findings=[], stalls={})
    assert [row for rows in empty.pieces("requests") for row in rows] == []
    assert empty.count("requests") == 0
