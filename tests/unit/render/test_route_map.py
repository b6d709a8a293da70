# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy

from netdiag.render.route_map import draw, stops
from netdiag.route import document
from netdiag.route.knowledge import Knowledge
from netdiag.route.survey import examine
from tests.fakes.routes import boomerang, measured

MADE = document.build(examine(boomerang(), Knowledge()))


def test_places_in_order_each_once_in_a_row():
    assert [stop["city"] for stop in stops(MADE)] == ["Berlin", "New York", "Frankfurt"]


def test_a_map_with_its_legend():
    *lines, legend = draw(MADE, 80)
    assert legend == "a Berlin  b New York  c Frankfurt"
    assert any("·" in line for line in lines)
    assert all(len(line) <= 80 for line in lines)


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
