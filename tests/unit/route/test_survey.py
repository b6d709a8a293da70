# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from netdiag.route import replay
from netdiag.route.data import Tables
from netdiag.route.knowledge import Knowledge
from netdiag.route.model import Landmark, Lookup, Vantage
from netdiag.route.persistence import Check
from netdiag.route.survey import Inputs, examine
from tests.fakes.routes import IP, NEW_YORK, NEW_YORK_NAMES, REPLAYS, START_NS, boomerang, connect, measured, trace

NOTHING = Knowledge()
HOST = "api.example.com"

CASES = {
    "nanog-mpls": ("none", "long-haul", "a place of this service in EU-W"),
    "telekom-new-york": ("suspect", "steering", "vacuum light"),
    "telekom-osm": ("unknown", "inflated", "not slow"),
    "mumbai-singapore": ("suspect", "steering", "names Mumbai"),
    "kuala-lumpur-hong-kong": ("suspect", "steering", "names Kuala Lumpur"),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_reported_cases(name):
    stored = replay.read((REPLAYS / f"{name}.json").read_bytes())
    survey = examine(stored.measurement, Tables().knowledge(stored.measurement))
    verdict, kind, refuted = CASES[name]
    assert (survey.detour.verdict, survey.detour.kind) == (verdict, kind)
    assert any(refuted in text for text in survey.detour.refuted_if)


def test_a_tunnel_without_labels_is_noticed_and_blamed_for_nothing():
    stored = replay.read((REPLAYS / "nanog-mpls.json").read_bytes())
    survey = examine(stored.measurement, Tables().knowledge(stored.measurement))
    assert survey.views[0].notes[0].startswith("hop 6 stands in Amsterdam")
    assert survey.views[0].regions == ("EU-W", "NA-E", "NA-W")


def test_a_whole_boomerang():
    survey = examine(boomerang(), NOTHING, Inputs(baseline_ms=12.0))
    assert (survey.detour.verdict, survey.detour.kind) == ("suspect", "boomerang")
    assert survey.addresses[0].pop == "FRA"
    assert survey.decisions[IP].action == "prefer"


def test_persistence_needs_earlier_checks():
    now = START_NS / 1e9
    earlier = tuple(Check(at_s=now - ago, verdict="suspect", kind="boomerang", rtt_ms=88.0) for ago in (700, 300))
    survey = examine(boomerang(), NOTHING, Inputs(baseline_ms=12.0, earlier=earlier))
    assert survey.detour.verdict == "confirmed"


def test_a_baseline_from_landmarks_of_the_region():
    marks = tuple(Landmark(name=name, host="192.0.2.1", port=443, latitude=50.1, longitude=8.7) for name in "abc")
    far = Landmark(name="far", host="192.0.2.9", port=443, latitude=40.7, longitude=-74.0)
    times = {"a": [11.0, 12.0], "b": [12.0], "c": [14.0], "far": [90.0]}
    connects = [connect([88.1] * 12, pop="FRA")]
    connects += [connect(ms, ip="192.0.2.1", landmark=name) for name, ms in times.items()]
    measurement = replace(
        measured(traces=[trace(NEW_YORK)], connects=connects, names=NEW_YORK_NAMES), landmarks=(*marks, far)
    )
    found = examine(measurement, NOTHING).baseline
    assert found is not None
    assert (found.source, found.n, found.rtt_ms) == ("measured", 3, 12.0)


def test_history_counts_healthy_checks_only():
    now = START_NS / 1e9
    good = [Check(at_s=now - 10_000 + at, verdict="none", kind=None, rtt_ms=20.0) for at in range(5)]
    bad = [Check(at_s=now - 5_000 + at, verdict="suspect", kind="boomerang", rtt_ms=88.0) for at in range(9)]
    found = examine(boomerang(), NOTHING, Inputs(earlier=(*good, *bad))).baseline
    assert found is not None
    assert (found.source, found.rtt_ms, found.n) == ("history", 20.0, 5)


def test_the_first_address_is_the_systems_choice():
    lookups = [
        Lookup(resolver="192.0.2.53", name=HOST, qtype="A", at_ns=0, answers=("203.0.113.20",), subnet="192.0.2.0/24"),
        Lookup(resolver="system", name=HOST, qtype="A", at_ns=0, answers=(IP,)),
    ]
    connects = [connect([30.0] * 11, ip="203.0.113.20"), connect([88.0] * 11)]
    survey = examine(measured(connects=connects, lookups=lookups), NOTHING)
    assert [one.ip for one in survey.addresses] == [IP, "203.0.113.20"]
    assert survey.addresses[1].resolvers == ("192.0.2.53+192.0.2.0/24",)


def test_two_sites_do_not_refute_each_others_hops():
    """The far site's hops are bounded by the far site's round trips, not by those of the near one."""
    far = [("198.18.10.5", 1.5), ("198.18.11.5", 80.3), (IP, 88.0)]
    times = [88.0, 9.0, 88.0, 9.0, 88.0, 9.0, 88.0, 9.0, 88.0, *[9.0] * 4]
    names = {"198.18.11.5": "ae1.newyork1.transit.test"}
    survey = examine(measured(traces=[trace(far)], connects=[connect(times)], names=names), NOTHING)
    assert survey.views[0].located["198.18.11.5"].refuted_by is None
    alone = examine(
        measured(traces=[trace(far, single_flow=False)], connects=[connect([9.0] * 13)], names=names), NOTHING
    )
    assert alone.views[0].located["198.18.11.5"].refuted_by is not None


def test_nothing_measured_is_unknown():
    survey = examine(measured(), NOTHING)
    assert survey.detour.verdict == "unknown"
    assert survey.addresses == ()


def test_where_the_client_is_not_known_nothing_is_placed_by_light():
    measurement = replace(boomerang(), vantage=Vantage())
    survey = examine(measurement, NOTHING, Inputs(baseline_ms=12.0))
    assert survey.here is not None  # the first router's name
    assert survey.here.source.startswith("name of hop 2")
    assert survey.detour.kind == "boomerang"


def test_a_target_beside_the_last_router_is_placed_there():
    measurement = measured(traces=[trace(NEW_YORK)], connects=[connect([88.1] * 12)], names=NEW_YORK_NAMES)
    (address,) = examine(measurement, NOTHING, Inputs(baseline_ms=12.0)).addresses
    assert address.located is not None
    assert (address.located.place.city, address.pop_source) == ("Frankfurt", "rdns")
    assert address.located.notes[0] == "within 1.1 ms of hop 6"
    assert 0.5 <= address.located.confidence < 0.7
    far = measured(traces=[trace([*NEW_YORK[:-1], (IP, 95.0)])], connects=[connect([95.0] * 12)], names=NEW_YORK_NAMES)
    assert examine(far, NOTHING).addresses[0].located is None


def test_a_way_that_truly_is_long_is_no_tunnel():
    survey = examine(boomerang(), NOTHING, Inputs(baseline_ms=12.0))
    assert survey.views[0].notes == ()
