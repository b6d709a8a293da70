# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy

from netdiag.render.route_map import draw, stops, unwrapped
from netdiag.route import document
from netdiag.route.knowledge import Knowledge
from netdiag.route.survey import examine
from tests.fakes.routes import boomerang, measured

MADE = document.build(examine(boomerang(), Knowledge()))


def test_places_in_order_each_once_in_a_row():
    assert [stop["city"] for stop in stops(MADE)] == ["Berlin", "New York", "Frankfurt"]


def test_a_map_with_its_legend():
    *lines, legend = draw(MADE, 80)
    assert legend == "a Berlin  b New York (hop 3, 80 ms)  c Frankfurt (hop 6, 87 ms)"
    assert any("·" in line for line in lines)
    assert all(len(line) <= 80 for line in lines)
    columns = {letter: next(line.index(letter) for line in lines if letter in line) for letter in "abc"}
    assert columns["b"] < columns["c"] < columns["a"], "west is left"


def test_a_way_over_the_date_line_goes_on():
    places = [{"city": "Sydney", "lat": -33.9, "lon": 151.2}, {"city": "Los Angeles", "lat": 33.9, "lon": -118.4}]
    lons = [one["lon"] for one in unwrapped([*places, *places])]
    assert lons == [151.2, 241.6, 151.2, 241.6]


def test_doubtful_places_are_not_drawn():
    doubtful = copy.deepcopy(MADE)
    for hop in doubtful["paths"][0]["hops"]:
        for one in hop["responders"]:
            if one["place"]:
                one["place"]["confidence"] = 0.5
    assert list(draw(doubtful, 80)) == []


def test_without_places_there_is_no_map():
    assert list(draw(document.build(examine(measured(), Knowledge())), 80)) == []


def test_the_ends_of_the_earth_fit():
    edge = copy.deepcopy(MADE)
    places = [one["place"] for hop in edge["paths"][0]["hops"] for one in hop["responders"] if one["place"]]
    places[0] |= {"lat": -90.0, "lon": 180.0}
    places[1] |= {"lat": 90.0, "lon": -180.0}
    assert max(len(line) for line in draw(edge, 40)) <= 40
