# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from netdiag.render.html import Part, page
from netdiag.render.route_shown import network, picture, place, shown
from tests.fakes import dashboards, documents
from tests.fakes.routes import checked


def test_the_way_in_places():
    told = shown("api.example.com", checked())
    assert [stop["city"] for stop in told["stops"]] == ["Berlin", "New York", "Frankfurt"]
    assert told["word"] == "DETOUR SUSPECTED"
    assert told["reached"]
    assert len(told["map"]["marks"]) == 3
    assert len(told["map"]["lines"]) == 2


def test_no_address_of_a_router_is_told():
    assert "198.18." not in str(shown("api.example.com", checked()))
    assert "192.168." not in str(shown("api.example.com", checked()))


def test_a_check_without_places_or_paths_has_no_map():
    document = checked()
    document["paths"] = []
    document["vantage"] = {**document["vantage"], "latitude": None}
    assert picture(document) is None
    told = shown("a", document)
    assert (told["map"], told["stops"], told["reached"]) == (None, [], False)


def test_routers_in_words():
    unknown = {"ixp": None, "asn": None, "as_name": None, "place": None}
    assert (network(unknown), place(unknown)) == ("", "")
    assert network({**unknown, "asn": 64500, "as_name": None}) == "AS64500"
    refuted = {"city": "Toronto", "region": "NA-E", "refuted_by": "light", "confidence": 0.9}
    assert place({**unknown, "place": refuted}) == "unknown"


def test_a_page_with_a_way_and_a_hostile_name():
    document = documents.document()
    hostile = shown(f"<script>{dashboards.HOSTILE}", checked())
    hostile["stops"][0]["city"] = "<img src=x>"
    text = page([Part(document=document, name="", routes=[hostile])])
    assert "Where" in text
    assert "&lt;script&gt;" in text
    assert "<img" not in text
    assert "\x1b" not in text
    assert text.count("<circle") >= 3
    assert "not a part of the trace" in text
