# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.route.gazetteer import gazetteer
from netdiag.route.knowledge import DatabasePlace, IpFacts
from netdiag.route.places import Bounds, Here, Hint, hints_of, locate

CITIES = gazetteer().codes
HERE = Here(place=CITIES["BER"], radius_km=30.0, source="given")
FREE = Bounds(here=None, own_ms=None, target_ms=None)


def hint(code, weight, *, capped=False, source="rdns"):
    return Hint(place=CITIES[code], weight=weight, source=source, note=f"says {code}", capped=capped)


def bounds(own_ms=None, target_ms=None, target=None):
    return Bounds(here=HERE, own_ms=own_ms, target_ms=target_ms, target=target)


def test_hints_that_agree_add_up():
    found = locate([hint("FRA", 0.7), hint("FRA", 0.2, capped=True)], FREE)
    assert found is not None
    assert found.confidence == pytest.approx(1 - 0.3 * 0.8)


def test_databases_alone_are_never_enough():
    found = locate([hint("FRA", 0.4, capped=True), hint("FRA", 0.4, capped=True)], FREE)
    assert found is not None
    assert found.confidence == 0.5
    assert not found.counts


def test_light_refutes_by_the_hops_own_round_trip():
    found = locate([hint("JFK", 0.85)], bounds(own_ms=20.0))
    assert found is not None
    assert found.refuted_by is not None
    assert "light needs" in found.refuted_by
    assert (found.confidence, found.counts) == (0.0, False)


def test_light_refutes_by_the_targets_round_trip_however_slow_the_hop_is():
    found = locate([hint("JFK", 0.85)], bounds(own_ms=400.0, target_ms=30.0))
    assert found is not None
    assert found.refuted_by is not None
    assert "target answered" in found.refuted_by


def test_the_target_beyond_makes_the_loop_longer():
    far = CITIES["SYD"].point
    assert bounds(target_ms=60.0).refutes(CITIES["JFK"].point) is None
    assert bounds(target_ms=60.0, target=far).refutes(CITIES["JFK"].point) is not None


def test_a_refuted_hint_stays_visible_beside_one_that_stands():
    found = locate([hint("YYZ", 0.2, capped=True, source="database"), hint("FRA", 0.85)], bounds(own_ms=9.0))
    assert found is not None
    assert found.place.code == "FRA"
    assert found.notes == ("says FRA", "physics ok", "says YYZ: refuted")


def test_faster_than_fibre_halves_the_weight():
    found = locate([hint("JFK", 0.8)], bounds(own_ms=50.0))
    assert found is not None
    assert found.confidence == pytest.approx(0.4)


def test_no_hint_is_no_place():
    assert locate([], FREE) is None


def database(latitude, longitude, **more):
    return DatabasePlace(database="test", latitude=latitude, longitude=longitude, city="Somewhere", **more)


@pytest.mark.parametrize(
    "facts",
    [
        IpFacts(databases=(database(37.751, -97.822),)),
        IpFacts(databases=(database(50.0, 8.0, radius_km=1000.0),)),
        IpFacts(databases=(database(50.0, 8.0),), anycast=True),
        IpFacts(databases=(DatabasePlace(database="test", latitude=50.0, longitude=8.0, country="DE"),)),
    ],
)
def test_what_a_database_does_not_know(facts):
    assert hints_of(None, facts) == []


def test_weights():
    one = IpFacts(databases=(database(50.0, 8.5),))
    two = IpFacts(databases=(database(50.0, 8.5), database(50.1, 8.6)))
    named = IpFacts(databases=(database(50.0, 8.5, named=True, radius_km=20.0),))
    exchange = IpFacts(exchange="DE-CIX", exchange_city="FRA")
    assert [(h.weight, h.capped) for h in hints_of(None, one)] == [(0.2, True)]
    assert [(h.weight, h.capped) for h in hints_of(None, two)] == [(0.4, True)]
    assert [(h.weight, h.capped) for h in hints_of(None, named)] == [(0.2, True)]
    assert [(h.weight, h.capped) for h in hints_of(None, named, fits=True)] == [(0.6, False)]
    assert [(h.weight, h.source) for h in hints_of(None, exchange)] == [(0.85, "exchange")]
