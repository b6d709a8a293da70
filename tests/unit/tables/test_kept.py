# SPDX-License-Identifier: Apache-2.0
"""Tables that lie in files hold what was added to them, in the types that analyses expect."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from netdiag.tables.kept import Grown, let_go, relax
from netdiag.tables.schema import COLUMNS, empty, frame


def part(first: int, lag: float = np.nan) -> pd.DataFrame:
    """Return four bursts of connections from `first` on."""
    return frame(
        "bursts",
        4,
        {
            "connection": np.arange(first, first + 4),
            "direction": ["send", "receive", "send", "receive"],
            "began_ns": np.arange(4.0),
            "max_lag_ms": np.full(4, lag),
            "close_notify": [False, True, False, False],
        },
    )


def test_parts_are_one_table() -> None:
    grown = Grown("bursts")
    parts = [part(0), part(4, lag=2.5), part(8)]
    for one in parts:
        grown.add(one)
    found = grown.frame()
    assert list(found.columns) == list(COLUMNS["bursts"])
    pd.testing.assert_frame_equal(
        found.astype({"direction": object}), pd.concat(parts, ignore_index=True), check_dtype=True
    )
    assert (found["direction"] == "receive").tolist() == [False, True, False, True] * 3
    relax((found,))
    let_go(found["began_ns"].to_numpy())
    assert found["began_ns"].tolist() == [0.0, 1.0, 2.0, 3.0] * 3


def test_nothing_is_an_empty_table() -> None:
    grown = Grown("records")
    grown.add(empty("records"))
    pd.testing.assert_frame_equal(grown.frame(), empty("records"))


def test_what_is_in_memory_is_left_alone() -> None:
    table = part(0)
    relax((table,))
    let_go(np.arange(3))
    pd.testing.assert_frame_equal(table, part(0))


def test_no_file_has_a_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    grown = Grown("bursts")
    grown.add(part(0))
    assert not list(tmp_path.iterdir())
    assert len(grown.frame()) == 4
