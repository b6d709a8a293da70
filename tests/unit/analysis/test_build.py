# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import replace

import pytest

from netdiag.analysis.build import Seen, finding, milliseconds, number_of, price
from netdiag.analysis.case import Options, prepare
from netdiag.findings import Learned, Severity


@pytest.mark.parametrize(("value", "shown"), [(0.42, "0.4 ms"), (47.4, "47 ms"), (999, "999 ms"), (5512, "5.5 s")])
def test_milliseconds(value, shown):
    assert milliseconds(value) == shown


@pytest.mark.parametrize(
    ("cost", "total", "shown"),
    [
        (5500, 47_600, "5.5 of 47.6 s (12 %)"),
        (105, 233, "105 of 233 ms (45 %)"),
        (6.4, 122, "6.4 of 122 ms (5.2 %)"),
        (42, 5000, "42 ms of 5.0 s (0.8 %)"),
        (42, math.nan, "42 ms"),
    ],
)
def test_price(cost, total, shown):
    assert price(cost, total) == shown


def test_numbers_carry_no_needless_digits():
    assert number_of(Learned(name="n", value=3.0, low=3, high=3, unit="requests")) == "3"
    assert number_of(Learned(name="n", value=0.80123, low=0.8, high=0.81, unit="s")) == "0.801"


def make(stage, **options):
    case = prepare(stage.tables(), Options())
    seen = Seen(code="reuse.client-per-call", links=tuple(case.links), count=1, of=1, confidence=0.9)
    return finding(case, replace(seen, **options))


def test_evidence_is_bounded(stage):
    for at in range(12):
        stage.connection(at)
    made = make(stage)
    assert [line.id for line in made.evidence] == [None, "c1", "c2", "c3", "c4", "c5", None]
    assert made.evidence[-1].note == "and 7 more like these"


def test_a_cost_that_is_not_known_is_not_in_the_title(stage):
    stage.connection(0)
    made = make(stage)
    assert made.cost_ms is None
    assert made.share_of_total is None
    assert made.title == "1 of 1 calls opened a connection that was used once"


def test_a_cost_of_nothing_is_no_headline(stage):
    stage.connection(0, wait=10_000)
    made = make(stage, cost_ms=0.05)
    assert made.cost_ms == 0.05
    assert "costs" not in made.title


def test_the_subject_is_what_all_have_in_common(stage):
    stage.connection(0, pid=1.0)
    stage.connection(0, pid=2.0)
    made = make(stage)
    assert (made.subject.pid, made.subject.remote) == (None, "192.0.2.1:443")


def test_severity_may_be_set_or_bounded(stage):
    stage.connection(0)
    assert make(stage, severity=Severity.CRITICAL).severity is Severity.CRITICAL
    assert make(stage, severity=Severity.CRITICAL, ceiling=Severity.INFO).severity is Severity.INFO
    assert make(stage, ceiling=Severity.WARNING).severity is Severity.INFO


def test_estimated_requests_are_called_about(stage):
    stage.connection(0)
    stage.connection(1, tls=False)
    notes = [line.note for line in make(stage).evidence]
    assert "about 1 request" in notes[1]
    assert "about" not in notes[2]
