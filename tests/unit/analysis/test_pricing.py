# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pytest

from netdiag.analysis.case import Options, prepare
from netdiag.analysis.pricing import grade, setup_cost, successors
from netdiag.findings import Severity


@pytest.mark.parametrize(
    ("cost", "total", "calls", "flags", "expected"),
    [
        (21, 100, 100, {}, Severity.CRITICAL),
        (20, 100, 100, {}, Severity.WARNING),
        (2.1, 100, 100, {}, Severity.WARNING),
        (1.9, 100, 100, {}, Severity.INFO),
        (50, 10_000, 10, {}, Severity.WARNING),
        (49, 10_000, 10, {}, Severity.INFO),
        (0, 100, 10, {"structural": True}, Severity.WARNING),
        (0, 100, 10, {"breaks": True}, Severity.WARNING),
        (math.nan, 100, 10, {}, Severity.INFO),
        (5, math.nan, 10, {}, Severity.INFO),
        (60, math.nan, 10, {}, Severity.WARNING),
        (1, 0, 0, {}, Severity.INFO),
    ],
)
def test_grades(cost, total, calls, flags, expected):
    assert grade(cost_ms=cost, total_ms=total, calls=calls, **flags) is expected


def links(stage):
    return prepare(stage.tables(), Options()).links


def test_each_lost_connection_pays_for_one_that_was_opened_after_it(stage):
    stage.connection(0, closed_by="local")
    stage.connection(100, closed_by="local")
    stage.connection(101)
    found = links(stage)
    assert [link.id for link in successors(found[:2], found)] == ["c2"]


def test_spare_connections_are_paid_for_by_nobody(stage):
    stage.connection(0, closed_by="local")
    stage.connection(100, ())
    found = links(stage)
    assert successors(found[:1], found) == []


def test_nothing_is_opened_after_the_last(stage):
    stage.connection(0, closed_by="local")
    found = links(stage)
    assert successors(found, found) == []


def test_set_up_that_was_not_measured_has_no_price(stage):
    stage.connection(0, tls=False)
    stage.connection(1, tls=False, connect_ms=math.nan)
    found = links(stage)
    assert setup_cost(found) == pytest.approx(0.05)
    assert math.isnan(setup_cost(found[1:]))
