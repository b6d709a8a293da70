# SPDX-License-Identifier: Apache-2.0
"""Kernel conventions become those of the tables, and other layouts than ours do no harm."""

from __future__ import annotations

import numpy as np
import pytest

from netdiag.errors import InputUnreadable
from netdiag.tables.columns import Columns, decode, numbers_or_none

TYPE = np.dtype([("time", "<u8"), ("error", "<i4"), ("comm", "S4"), ("addr", "u1", (16,)), ("odd", "u1", (3,))])


def sample():
    rows = np.zeros(3, TYPE)
    rows["time"] = [0, 1500, (1 << 64) - 1]
    rows["error"] = [0, -1, 111]
    rows["comm"] = [b"", b"abc", b"\xff\x1b"]
    rows["addr"][1] = [*bytes(10), 255, 255, 127, 0, 0, 1]
    rows["addr"][2, 15] = 1
    return Columns(rows, 1000)


def test_zero_is_not_known():
    columns = sample()
    assert np.array_equal(columns.instant("time")[:2], [np.nan, 500], equal_nan=True)
    assert np.array_equal(columns.known("error", 2), [np.nan, -2, 222], equal_nan=True)
    assert columns.count("error").tolist() == [0, -1, 111]
    assert columns.text("comm").tolist() == [None, "abc", "\\xff\x1b"]
    assert columns.address("addr").tolist() == [None, "127.0.0.1", "::1"]


def test_a_member_that_was_not_recorded_is_not_known():
    columns = sample()
    assert np.isnan(columns.instant("closing")).all()
    assert np.isnan(columns.count("drops")).all()
    assert np.isnan(columns.known("mss")).all()
    assert columns.integers("flags").tolist() == [0, 0, 0]
    assert columns.text("name").tolist() == columns.address("peer").tolist() == [None] * 3


@pytest.mark.parametrize(
    "read",
    [
        lambda columns: columns.integers("comm"),
        lambda columns: columns.instant("odd"),
        lambda columns: columns.text("time"),
        lambda columns: columns.address("odd"),
        lambda columns: columns.address("time"),
    ],
)
def test_a_member_of_another_kind_makes_the_recording_unreadable(read):
    with pytest.raises(InputUnreadable, match="member"):
        read(sample())


def test_nothing_is_fine():
    columns = sample().take(slice(0, 0))
    assert len(columns) == len(columns.address("addr")) == len(columns.text("comm")) == 0


def test_names_end_at_the_first_zero_byte():
    assert (decode(b"a\0b"), decode(b"\0b"), decode(b"\xc3\xa9")) == ("a", None, "é")


def test_ids_too_large_for_a_float_stay_exact():
    assert numbers_or_none(np.array([0, (1 << 60) + 1])).tolist() == [None, (1 << 60) + 1]
