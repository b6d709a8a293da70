# SPDX-License-Identifier: Apache-2.0
"""How long a program stood still in the rest in which its server closed a connection."""

from __future__ import annotations

from typing import Any

import pytest

from netdiag.analysis.case import Options, prepare
from netdiag.analysis.standstill import standstills
from netdiag.tables.schema import frame

NAN = float("nan")
REST = 70.05
"""Milliseconds at which the answer had come."""


def spoiled(stage, *stops, closed=270.0, **columns):
    """Play one connection that rests from 70 ms on; `stops` are (begin, end, pid) in ms."""
    stage.process()
    values: dict[str, Any] = {"closed_by": "remote", "tls": False, "counted": True} | columns
    row = stage.connection(50.0, (0.0,), wait=20.0, **values)
    stage.connections[row]["closing_ns"] = closed * 1e6
    tables = stage.tables()
    cells = {
        "pid": [pid for _, _, pid in stops],
        "began_ns": [begin * 1e6 for begin, _, _ in stops],
        "ended_ns": [end * 1e6 for _, end, _ in stops],
        "lasted_ms": [end - begin for begin, end, _ in stops],
        "how": ["signal"] * len(stops),
    }
    object.__setattr__(tables, "stops", frame("stops", len(stops), cells))
    case = prepare(tables, Options())
    found = standstills(case)
    return None if found is None else found.spoiled_ms(case.links[row])


def test_without_stops_there_is_nothing_to_know(stage):
    assert spoiled(stage) is None


def test_a_server_that_closed_while_the_program_stood_still(stage):
    assert spoiled(stage, (100.0, 900.0, 1.0)) == pytest.approx(800)


def test_two_stops_in_one_rest_add_up(stage):
    assert spoiled(stage, (80.0, 300.0, 1.0), (310.0, 600.0, 1.0), closed=650.0) == pytest.approx(510)


def test_a_stop_that_lasts_ends_with_the_trace(stage):
    stage.span_ms = 2000.0
    assert spoiled(stage, (100.0, NAN, 1.0)) == pytest.approx(1900)


@pytest.mark.parametrize(
    ("stop", "columns"),
    [
        ((300.0, 900.0, 1.0), {}),  # the server had closed before
        ((20.0, 60.0, 1.0), {}),  # before the answer
        ((100.0, 350.0, 1.0), {}),  # too short to matter
        ((100.0, 900.0, 2.0), {}),  # another program
        ((100.0, 900.0, 1.0), {"closed_by": "local"}),
        ((100.0, 900.0, 1.0), {"closed": NAN}),
    ],
)
def test_what_did_not_matter(stage, stop, columns):
    assert spoiled(stage, stop, **columns) == 0
