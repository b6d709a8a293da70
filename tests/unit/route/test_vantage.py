# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

from netdiag.route.hops import build
from netdiag.route.model import Landmark
from netdiag.route.vantage import find_here, names_of, point_of
from tests.fakes.routes import connect, measured, pointer, trace


def test_names_by_every_form_of_the_question():
    lookups = [
        pointer(point_of("198.18.0.1"), "one.example."),
        pointer(point_of("2001:db8::1"), "two.example"),
        pointer("192.0.2.7", "three.example"),
        pointer("nonsense.in-addr.arpa", "four.example"),
        pointer("zz.ip6.arpa", "five.example"),
    ]
    assert names_of(measured(lookups=lookups)) == {
        "198.18.0.1": "one.example.",
        "2001:db8::1": "two.example",
        "192.0.2.7": "three.example",
    }


def here_of(measurement):
    paths = [build(one) for one in measurement.traces]
    return find_here(measurement, paths, names_of(measurement))


def test_what_the_user_says_wins():
    found = here_of(measured(here=(48.1, 11.6)))
    assert found is not None
    assert (found.place.city, found.source) == ("Munich", "given")


def test_a_near_router_tells():
    hops = [("192.168.0.1", 0.5), ("198.18.0.5", 4.0), ("198.18.0.9", 30.0)]
    names = {"198.18.0.5": "ae1.hamburg1.isp.test", "198.18.0.9": "ae1.newyork1.isp.test"}
    found = here_of(measured(traces=[trace(hops)], names=names, here=None))
    assert found is not None
    assert found.place.city == "Hamburg"
    assert 300 < found.radius_km < 500


def test_a_near_landmark_tells():
    mark = Landmark(name="x", host="192.0.2.1", port=443, latitude=50.1, longitude=8.7)
    measurement = measured(connects=[connect([3.0], ip="192.0.2.1", landmark="x")], here=None)
    found = here_of(replace(measurement, landmarks=(mark,)))
    assert found is not None
    assert found.source.startswith("landmark x")


def test_nothing_tells():
    assert here_of(measured(traces=[trace([("198.18.0.9", 30.0)])], here=None)) is None
