# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

from netdiag.findings import Severity
from netdiag.route.claims import claims
from netdiag.route.knowledge import Knowledge
from netdiag.route.model import Greeting, Odd
from netdiag.route.survey import Inputs, examine
from tests.fakes.routes import IP, attempt, boomerang, connect, measured, trace


def found_in(measurement, **inputs):
    survey = examine(measurement, Knowledge(), Inputs(**inputs))
    return {finding.code: finding for finding in claims(survey)}


def test_a_detour_with_its_price():
    (finding,) = found_in(boomerang(), baseline_ms=12.0).values()
    assert finding.code == "route.boomerang"
    assert finding.severity is Severity.WARNING
    assert finding.cost_ms is not None
    assert round(finding.cost_ms) == 76
    assert "Berlin → New York → Frankfurt" in finding.title
    assert any(row.note.startswith("refuted by") for row in finding.evidence)
    assert finding.advice


def test_a_healthy_way_has_no_finding():
    healthy = measured(traces=[trace([("198.18.0.1", 1.0), (IP, 12.0)])], connects=[connect([12.0] * 12, pop="FRA")])
    assert found_in(healthy, baseline_ms=12.0) == {}


def test_slow_against_a_computed_baseline_is_info():
    slow = measured(connects=[connect([60.0] * 12, pop="FRA")])
    assert found_in(slow)["route.inflated"].severity is Severity.INFO
    assert found_in(slow, baseline_ms=10.0)["route.inflated"].severity is Severity.WARNING


def test_loss_needs_its_bound():
    assert "route.loss" not in found_in(measured(connects=[connect([9.0] * 29 + [None])]), baseline_ms=9.0)
    finding = found_in(measured(connects=[connect([9.0] * 18 + [None] * 2)]), baseline_ms=9.0)["route.loss"]
    assert (finding.count, finding.of) == (2, 20)
    dead = found_in(measured(connects=[connect([None] * 10)]))["route.loss"]
    assert (dead.severity, dead.cause, dead.cost_ms) == (Severity.CRITICAL, "unreachable", None)


def test_a_flip():
    finding = found_in(measured(connects=[connect([48.0, 12.0, 12.0] * 4)]), baseline_ms=12.0)["route.site-flip"]
    assert (finding.count, finding.of) == (4, 12)
    assert "36 ms more" in finding.title


def test_a_better_address():
    connects = [connect([60.0] * 12, pop="FRA"), connect([12.0] * 12, ip="2001:db8::10", pop="FRA")]
    finding = found_in(measured(connects=connects), baseline_ms=60.0)["route.address-choice"]
    assert (finding.cause, finding.cost_ms) == ("family", 48.0)
    even = [connect([60.0] * 12), connect([55.0] * 12, ip="2001:db8::10")]
    assert "route.address-choice" not in found_in(measured(connects=even), baseline_ms=60.0)


def test_handshakes_that_time_out_prove_no_size_until_sizes_were_compared():
    mute = tuple(replace(attempt(9.0, port=at), error="timeout") for at in range(4))
    black = measured(connects=[replace(connect([]), attempts=mute)])
    assert "route.mtu-blackhole" not in found_in(black, baseline_ms=9.0)
    hellos = [
        Greeting(mss=mss, size=size, connected=True, acked=False, received=0 if mss is None and size > 1200 else 900)
        for mss in (None, 1180)
        for size in (517, 1800)
        for _ in range(3)
    ]
    odd = Odd(ip=black.connects[0].ip, port=443, greetings=tuple(hellos))
    hole = found_in(replace(black, odd=(odd,)), baseline_ms=9.0)["route.mtu-blackhole"]
    assert (hole.count, hole.of, hole.cause) == (3, 3, "there")
    assert hole.severity == "critical"
    healthy = tuple(replace(one, received=900, acked=True) for one in hellos)
    odd = replace(odd, greetings=healthy)
    assert "route.mtu-blackhole" not in found_in(replace(black, odd=(odd,)), baseline_ms=9.0)
