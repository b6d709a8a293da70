# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pandas as pd
import pytest

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
