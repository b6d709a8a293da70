# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from netdiag.tables.resync import Places, laid

SIZES = np.array([80, 90, 87, 83, 90, 88, 84, 91, 86, 89], np.int64)
TIME = np.arange(10, dtype=np.float64) * 20e6
FIRST = np.concatenate((np.zeros(1, np.int64), np.cumsum(SIZES)[:-1]))


def places(offset=FIRST, *, late_ns=50e3, head=4):
    """Return a message that begins at 0 and pieces that begin a few bytes behind their records' first."""
    exact = np.arange(len(offset)) == 0
    return Places(offset=np.where(exact, offset, offset + head), exact=exact, moved=TIME + late_ns)


def at(ends, times, offset):
    return times[np.searchsorted(ends, offset, side="right")]


@pytest.mark.parametrize("head", [0, 3, 4, 5])
@pytest.mark.parametrize("lost", [(3,), (3, 4), (2, 3, 4, 5)])
def test_what_follows_a_gap_lies_where_it_belongs(lost, head):
    left = np.delete(np.arange(10), lost)
    ends, times = laid(SIZES[left], TIME[left], np.array([lost[0]]), places(head=head))
    got = np.array([at(ends, times, offset + 10) for offset in FIRST])
    assert np.isnan(got[list(lost)]).all()
    assert got[left].tolist() == TIME[left].tolist()


def test_several_gaps():
    left = np.array([0, 1, 2, 4, 5, 7, 8, 9])
    ends, times = laid(SIZES[left], TIME[left], np.array([3, 5]), places())
    got = np.array([at(ends, times, offset + 10) for offset in FIRST])
    assert np.flatnonzero(np.isnan(got)).tolist() == [3, 6]


def test_records_of_one_size_are_told_apart_by_time():
    same = np.full(10, 90, np.int64)
    first = np.arange(10) * 90
    left = np.array([0, 1, 2, 5, 6, 7, 8, 9])
    ends, times = laid(same[left], TIME[left], np.array([3]), places(first))
    got = np.array([at(ends, times, offset + 10) for offset in first])
    assert np.flatnonzero(np.isnan(got)).tolist() == [3, 4]
    assert got[left].tolist() == TIME[left].tolist()


def test_what_fits_nowhere_is_left_out():
    other = np.array([80, 90, 87, 500, 501, 502], np.int64)
    ends, _ = laid(other, TIME[:6], np.array([3]), places())
    assert ends.tolist() == [80, 170, 257]


def test_what_was_read_before_it_arrived_is_left_out():
    left = np.array([0, 1, 2, 5, 6, 7, 8, 9])
    time = np.where(left >= 5, TIME[left] + 500e6, TIME[left])
    ends, _ = laid(SIZES[left], time, np.array([3]), places())
    assert len(ends) == 3
