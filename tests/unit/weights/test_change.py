# SPDX-License-Identifier: Apache-2.0
"""Two loads side by side: figures, unknown ones, causes."""

from __future__ import annotations

from netdiag.weights.change import causes, rows
from tests.fakes import loads
from tests.fakes.loads import KIB


def test_figures_of_both_and_their_difference() -> None:
    slow = loads.document()
    quick = loads.document(loads.load([loads.thread(ended_ms=2_000.0, samples={"user": 100})]))
    found = {row.name: row for row in rows(slow, quick)}
    assert (found["time"].a, found["time"].b, found["time"].change) == (10_000.0, 2_000.0, -8_000.0)
    assert found["fault-blocked"].change == -8_000.0


def test_a_part_that_could_not_be_told_apart_is_unknown() -> None:
    told = loads.document()
    coarse = loads.document(loads.load([loads.thread(samples={})]))
    found = {row.name: row for row in rows(told, coarse)}
    assert found["user"].change is None
    assert found["cpu"].a is None
    nothing = loads.document(loads.load([], []))
    assert all(row.change is None for row in rows(told, nothing) if row.unit == "ms")


def test_causes_are_new_gone_or_kept() -> None:
    slow = loads.document()
    asked = (loads.requests(4_096, 128 * KIB, depth=2.0),)
    other = loads.document(
        loads.load(
            [loads.thread(blocked={"fault": 8_000.0}, samples={"user": 100})],
            [loads.file(requests=asked, mount=loads.mount(), backward=100, near=100)],
        )
    )
    assert dict(causes(slow, other))["weights.backward-walk"] == "new"
    assert dict(causes(other, slow))["weights.backward-walk"] == "gone"
    assert set(dict(causes(slow, slow)).values()) == {"kept"}
