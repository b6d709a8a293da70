# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.route.baseline import choose, synthetic_ms
from netdiag.route.gazetteer import gazetteer
from netdiag.route.places import Here

CITIES = gazetteer().codes
HERE = Here(place=CITIES["BER"], radius_km=30.0, source="given")


def chosen(**given):
    values = {"given_ms": None, "nearby": (), "history": (), "here": None, "served": (), "access_ms": 0.0}
    return choose(**(values | given))


def test_the_order_of_trust():
    nearby = [(100.0, 12.0), (200.0, 14.0), (300.0, 13.0)]
    everything = {"nearby": nearby, "history": [20.0] * 5, "here": HERE, "served": [CITIES["FRA"]]}
    assert chosen(given_ms=9.0, **everything).source == "given"
    found = chosen(**everything)
    assert (found.source, found.rtt_ms, found.n, found.mad_ms) == ("measured", 13.0, 3, 1.0)
    assert chosen(**everything | {"nearby": nearby[:2]}).source == "history"
    assert chosen(**everything | {"nearby": (), "history": [20.0] * 4}).source == "synthetic"
    assert chosen() is None


def test_the_computed_one_goes_to_the_nearest_place():
    near = synthetic_ms(HERE, [CITIES["JFK"], CITIES["FRA"]], 5.0)
    assert near == pytest.approx(2 * 2 * 455 / 204.2 + 5.0, rel=0.02)
    far = synthetic_ms(HERE, [CITIES["JFK"]], 5.0)
    assert far is not None
    assert far > 120
    assert synthetic_ms(None, [CITIES["FRA"]], 5.0) is None
    assert synthetic_ms(HERE, [], 5.0) is None


def test_it_is_never_shorter_than_a_common_line():
    assert synthetic_ms(HERE, [CITIES["BER"]], 0.0) == 10.0
