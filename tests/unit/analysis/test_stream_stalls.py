# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.analysis import examine
from netdiag.analysis.stream_stalls import LEAST_MS, limit_ms, usual_ms


@pytest.mark.parametrize(
    ("gaps", "limit"),
    [
        ([20.0] * 40, LEAST_MS),
        ([100.0] * 40, 500.0),
        ([20.0] * 38 + [400.0] * 3, LEAST_MS),
        ([20.0] * 30 + [400.0] * 10, 2000.0),
        ([1200.0], LEAST_MS),
    ],
)
def test_a_stall_is_five_times_what_is_usual_but_never_under_300_ms(gaps, limit):
    assert limit_ms(gaps, len(gaps) - 1) == limit


def test_the_usual_pause_is_the_median():
    assert usual_ms([5.0, 900.0, 20.0]) == 20.0
    assert usual_ms([]) == 0.0


def test_stalls_are_told_by_request_with_their_blame(calls):
    row = calls.connection()
    calls.call(row, 0.0)
    calls.stream(row, 1000.0, [20.0] * 24 + [1200.0] + [20.0] * 14)
    for burst in calls.rows["bursts"][-4:-3]:
        burst |= {"began_ns": burst["began_ns"] + 400e6, "ended_ns": burst["ended_ns"] + 400e6}
    stalls = examine(calls.tables()).stalls
    assert list(stalls) == [1]
    first, second = stalls[1]
    assert (first["blame"], first["gap_ms"], first["at_ms"]) == ("server", pytest.approx(1200), pytest.approx(580))
    assert (second["blame"], second["gap_ms"]) == ("reader", pytest.approx(400))
