# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

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
