# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from netdiag.analysis import http_rows
from netdiag.analysis.http_rows import Index, Rows
from netdiag.testing import burst, tables


@pytest.mark.parametrize("keys", [[0, 0, 1, 3], [3, 0, 1, 0]])
def test_rows_of_a_number_in_their_order(keys):
    rows = Rows(pd.DataFrame({"key": keys, "value": [10, 11, 12, 13]}), "key")
    expected = [value for key, value in zip(keys, [10, 11, 12, 13], strict=True) if key == 0]
    assert [value for (value,) in rows.of(0, "value")] == expected
    assert rows.of(2, "value") == []
    assert rows.numbers() == [0, 1, 3]


def test_a_column_that_is_not_there_is_unknown():
    assert Rows(pd.DataFrame({"key": [1]}), "key").of(1, "key", "other") == [(1, None)]


def test_an_empty_table():
    rows = Rows(pd.DataFrame({"key": []}), "key")
    assert not rows
    assert rows.of(0, "key") == []


def test_tables_by_name():
    index = Index(tables(bursts=[burst(0, "send", 1), burst(1, "send", 2)]))
    assert index["bursts"].of(1, "direction") == [("send",)]
    assert index["bursts"] is index["bursts"]


def test_blocks_hold_all_rows_of_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_rows, "_BLOCK", 4)
    table = pd.DataFrame({"connection": [0, 0, 1, 2, 2, 2, 2, 2, 2, 5, 6, 7], "bytes": np.arange(12)})
    found = list(http_rows.blocks(table, "connection"))
    assert len(found) > 1
    pd.testing.assert_frame_equal(pd.concat(found), table)
    owners = [number for block in found for number in block["connection"].unique().tolist()]
    assert len(owners) == len(set(owners))
    for odd in (table[::-1], table[:0]):
        (whole,) = http_rows.blocks(odd, "connection")
        assert whole is odd


def test_texts_that_are_kept_as_numbers_are_texts() -> None:
    ways = pd.Categorical(["send", "receive", None, "send"], categories=["send", "receive"])
    table = pd.DataFrame({"connection": [1, 1, 1, 2], "direction": ways, "bytes": [1, 2, 3, 4]})
    rows = Rows(table, "connection")
    assert rows.of(1.0, "direction", "bytes") == [("send", 1), ("receive", 2), (None, 3)]
    assert rows.received(1.0).tolist() == [False, True, False]
    assert rows.part(2.0, "bytes").tolist() == [4.0]
