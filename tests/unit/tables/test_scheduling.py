# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pytest

from netdiag.tables import build
from netdiag.testing import START_NS, RecordingBuilder


def look(pid, at_ms, **members):
    return {"pid": pid, "at_ns": START_NS + at_ms * 1_000_000, "run_ms": 1.0, "wait_ms": 2.0, **members}


def rows(*facts):
    builder = RecordingBuilder()
    for fact in facts:
        builder.fact("scheduling", **fact)
    return build(builder.recording()).scheduling


def test_looks_by_process_and_time():
    made = rows(look(7, 20), look(5, 10, throttled_ms=3, periods=1), look(7, 10))
    assert made["pid"].tolist() == [5, 7, 7]
    assert made["at_ns"].tolist() == [10e6, 10e6, 20e6]
    assert made["throttled_ms"].tolist()[0] == 3
    assert math.isnan(made["periods"].tolist()[1])


@pytest.mark.parametrize("broken", [{"pid": None}, {"pid": "x"}, {"at_ns": 1.5}, {"at_ns": None}, {"pid": -3}])
def test_a_look_without_process_or_instant_is_left_out(broken):
    assert len(rows(look(7, 20) | broken)) == 0


@pytest.mark.parametrize("odd", ["x", None, -1, True, [1]])
def test_a_number_that_is_none_is_unknown(odd):
    assert math.isnan(rows(look(7, 20, run_ms=odd))["run_ms"].iloc[0])


@pytest.mark.parametrize(
    ("waits", "kept"),
    [
        ([[7, 2.5], [8, 1]], {7: 2.5, 8: 1.0}),
        ([], {}),
        ([[7, -1], ["x", 2], [8], 3, [9, None]], {}),
        (None, None),
        ("x", None),
    ],
)
def test_waits_of_threads(waits, kept):
    assert rows(look(7, 20, waits=waits))["waits"].iloc[0] == kept
