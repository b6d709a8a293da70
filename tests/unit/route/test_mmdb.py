# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.errors import InputUnreadable
from netdiag.route.lab import databases
from netdiag.route.lab.topology import load, shipped
from netdiag.route.mmdb import AsnFile, PlaceFile


class Fake(PlaceFile):
    """A place database that holds one record."""

    def __init__(self, record):
        self.kind, self._record = "test", record

    def record(self, _ip):
        return self._record


class FakeAsn(AsnFile):
    def __init__(self, record):
        self._record = record

    def record(self, _ip):
        return self._record


NESTED = {
    "city": {"names": {"en": "Frankfurt"}},
    "country": {"iso_code": "DE"},
    "location": {"latitude": 50.1, "longitude": 8.7, "accuracy_radius": 20},
}
FLAT = {"city": "Frankfurt", "country_code": "de", "latitude": 50.1, "longitude": 8.7}
STRINGS = {"city": "Frankfurt", "country": "DE", "lat": "50.1", "lng": "8.7"}


@pytest.mark.parametrize(("record", "radius"), [(NESTED, 20.0), (FLAT, None), (STRINGS, None)])
def test_schemas_of_places(record, radius):
    place = Fake(record).find("192.0.2.1")
    assert place is not None
    assert (place.city, place.country, place.latitude, place.radius_km) == ("Frankfurt", "DE", 50.1, radius)


@pytest.mark.parametrize(
    "record",
    [
        {"autonomous_system_number": 64500, "autonomous_system_organization": "Home"},
        {"asn": "AS64500", "name": "Home"},
        {"asn": {"asn": "AS64500", "name": "Home"}},
        {"as_number": "64500", "as_name": "Home"},
    ],
)
def test_schemas_of_origins(record):
    origin = FakeAsn(record).find("192.0.2.1")
    assert origin is not None
    assert (origin.asn, origin.name) == (64500, "Home")


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"latitude": 0, "longitude": 0},
        {"latitude": 99, "longitude": 0},
        {"latitude": "x", "longitude": 1},
        {"location": 3},
    ],
)
def test_no_position_is_no_place(record):
    assert Fake(record).find("192.0.2.1") is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*NESTED, *FLAT, "names", "en", "asn"]), inner)
    ),
    max_leaves=10,
)
RECORDS = st.dictionaries(st.sampled_from([*NESTED, *FLAT, "lat", "lng", "asn", "as", "name", "as_name"]), VALUES)


@pytest.mark.fuzz
@given(RECORDS)
def test_any_record_is_a_place_or_none(record):
    place = Fake(record).find("192.0.2.1")
    assert place is None or (abs(place.latitude) <= 90 and abs(place.longitude) <= 180)
    origin = FakeAsn(record).find("192.0.2.1")
    assert origin is None or 0 < origin.asn < 1 << 32


def test_a_real_file(tmp_path):
    asn_file, place_file = databases.write_all(load(shipped()["boomerang-berlin"]), tmp_path)
    origin = AsnFile(asn_file).find("198.18.11.5")
    assert origin is not None
    assert origin.asn == 64501
    assert PlaceFile(place_file).source.source.startswith("geo.mmdb")


@pytest.mark.fuzz
@given(st.data())
def test_a_damaged_file_is_read_or_refused(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("mmdb")
    asn_file, _ = databases.write_all(load(shipped()["boomerang-berlin"]), folder)
    raw = bytearray(asn_file.read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    asn_file.write_bytes(raw)
    with suppress(InputUnreadable):
        AsnFile(asn_file).find("198.18.11.5")


@pytest.mark.parametrize("content", [b"", b"not a database", bytes(5000)])
def test_other_files_are_refused(tmp_path, content):
    bad = tmp_path / "x.mmdb"
    bad.write_bytes(content)
    with pytest.raises(InputUnreadable, match=r"x\.mmdb"):
        AsnFile(bad)
    with pytest.raises(InputUnreadable, match="none"):
        AsnFile(tmp_path / "none")
