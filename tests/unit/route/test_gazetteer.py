# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import pytest

from netdiag.errors import InputUnreadable
from netdiag.route.gazetteer import REGIONS, airport, gazetteer, is_centroid, load
from netdiag.route.physics import distance_km

EUROPE = (35.0, 72.0, -25.0, 45.0)
BOXES = {
    "NA-E": (24, 50, -90, -60), "NA-C": (7, 55, -107, -78), "NA-W": (18, 60, -160, -104), "SA": (-40, 16, -86, -30),
    "EU-W": EUROPE, "EU-E": (35, 72, 10, 80), "ME": (12, 43, 25, 62), "AF": (-36, 38, -26, 60),
    "S-AS": (4, 45, 60, 95), "SE-AS": (-11, 24, 92, 128), "E-AS": (10, 50, 100, 148), "OC": (-48, 23, -180, 180),
}  # fmt: skip
"""South, north, west, east of each region, generously."""


def test_every_city_is_where_its_regions_are():
    assert set(BOXES) == set(REGIONS)
    for place in gazetteer().codes.values():
        assert place.regions, place
        for region in place.regions:
            south, north, west, east = BOXES[region]
            assert south <= place.latitude <= north, place
            assert west <= place.longitude <= east, place


def test_codes_and_words_are_plain():
    assert all(re.fullmatch("[A-Z]{3}", code) for code in gazetteer().codes)
    assert all(re.fullmatch("[a-z0-9]+", word) for word in gazetteer().words)


def test_no_two_cities_share_a_word():
    rows = [
        line.split("\t")[6].split(",")
        for line in (load.__globals__["data_dir"]("probes") / "routes" / "cities.tsv").read_text().splitlines()
        if not line.startswith("#")
    ]
    words = [word for row in rows for word in row if word]
    assert len(words) == len(set(words))


@pytest.mark.parametrize(("text", "code"), [("FRA", "FRA"), ("newyork", "JFK"), ("sjo", "SJC"), ("Frankfurt", "FRA")])
def test_words_win_over_codes(text, code):
    found = gazetteer().find(text)
    assert found is not None
    assert found.code == code


def test_a_position_gets_the_region_of_the_nearest_city():
    place = gazetteer().at((52.5, 13.4))
    assert (place.city, place.region) == ("Berlin", "EU-W")
    assert gazetteer().at((-70.0, 0.0)).regions == ()
    near = gazetteer().nearest((50.0, 8.0))
    assert near is not None
    assert near[1] == pytest.approx(distance_km((50.0, 8.0), near[0].point))


def test_what_only_means_a_country():
    assert is_centroid((37.751, -97.822))
    assert not is_centroid((52.5, 13.4))


def test_a_broken_table_is_named(tmp_path):
    bad = tmp_path / "cities.tsv"
    bad.write_text("# fine\nFRA\tFrankfurt\n")
    with pytest.raises(InputUnreadable, match="line 2"):
        load(bad)


@pytest.mark.parametrize(
    ("code", "city", "region"),
    [
        ("FRA", "Frankfurt", "EU-W"),
        ("EWR", "New York", "NA-E"),
        ("TXL", "Berlin", "EU-W"),
        ("QPG", "Singapore", "SE-AS"),
    ],
)
def test_an_airport_that_is_no_city_of_the_table_stands_for_the_city_beside_it(code, city, region):
    place = airport(code)
    assert place is not None
    assert (place.city, place.region) == (city, region)


def test_an_airport_far_from_every_city_of_the_table_has_its_own_name():
    place, island = airport("GUA"), airport("STI")
    assert place is not None
    assert (place.country, place.code, place.city) == ("GT", "GUA", "Guatemala City")
    assert island is not None
    assert island.regions == (), "the nearest city of the table is across a sea"


@pytest.mark.parametrize("code", ["QQQ", "", "FR", "fra", "FRAN", "A\tB"])
def test_what_is_no_code_has_no_place(code):
    assert airport(code) is None


def test_every_airport_has_a_position():
    rows = (load.__globals__["data_dir"]("probes") / "routes" / "airports.tsv").read_text().splitlines()[1:]
    assert len(rows) > 7000
    for row in rows:
        code, country, latitude, longitude, _ = row.split("\t")
        assert len(code) == 3
        assert len(country) == 2
        assert abs(float(latitude)) <= 90
        assert abs(float(longitude)) <= 180
