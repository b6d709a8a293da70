# SPDX-License-Identifier: Apache-2.0
"""Tables always have all their columns, and unknown is never zero."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from netdiag.errors import InputUnreadable
from netdiag.tables.schema import COLUMNS, empty, frame, objects


@pytest.mark.parametrize("table", COLUMNS)
def test_an_empty_table_has_all_columns_and_types(table):
    made = empty(table)
    assert list(made) == list(COLUMNS[table])
    assert {name: str(kind) for name, kind in made.dtypes.items()} == COLUMNS[table]


def test_what_is_not_given_is_unknown():
    made = frame("connections", 2, {"cookie": [1, 2]})
    assert made["outcome"].tolist() == [None, None]
    assert np.isnan(made["rtt_ms"]).all()
    assert not made["preexisting"].any()


def test_text_stays_objects_with_none():
    made = frame("connections", 2, {"cookie": [1, 2], "comm": ["a", None]})
    assert made["comm"].dtype == object
    assert made["comm"].tolist() == ["a", None]


@pytest.mark.parametrize("kind", ["object", "string", "str"])
def test_a_text_that_is_not_known_is_none_whatever_pandas_keeps_it_as(kind):
    texts = pd.Series(["a", None], dtype=kind)
    for given in (texts, texts.array):
        assert frame("connections", 2, {"cookie": [1, 2], "comm": given})["comm"].tolist() == ["a", None]
        assert objects(given).tolist() == ["a", None]


def test_a_strange_column_is_a_mistake():
    with pytest.raises(ValueError, match="no column colour"):
        frame("connections", 0, {"colour": []})


def test_lists_are_cells():
    assert objects([[1], [2, 3]]).tolist() == [[1], [2, 3]]
    made = frame("processes", 1, {"pid": [1], "argv": [["a", "b"]]})
    assert made["argv"].tolist() == [["a", "b"]]


def test_the_architecture_names_exactly_these_columns(root: Path):
    text = (root / "docs" / "architecture.md").read_text()
    section = text[text.index("## Tables") : text.index("## Findings")]
    for table in ("connections", "bursts", "turns", "retransmits", "records", "processes", "listeners"):
        listed = re.search(rf"\*\*{table}\*\*(?:[^`]|`[a-z]+`)*: `([^`]*)`", section)
        assert listed is not None, table
        plain = re.sub(r"\([^)]*\)", "", listed[1])
        assert [name.strip() for name in plain.split(",")] == list(COLUMNS[table]), table


def test_a_number_that_no_column_holds_is_refused_in_words():
    with pytest.raises(InputUnreadable, match="larger than any"):
        frame("connections", 1, {"cookie": [1 << 80]})
