# SPDX-License-Identifier: Apache-2.0
"""MMDB files of the lab, read by the reader that everyone uses."""

from __future__ import annotations

import maxminddb
import pytest

from netdiag.route.lab import databases
from netdiag.route.lab.topology import read

NETWORK = read(
    {
        "title": "t",
        "networks": {"64500": "HomeNet"},
        "prefixes": {"198.18.0.0/16": 64500, "2001:db8::/32": 64500},
        "places": {
            "ber": {"city": "Berlin", "country": "DE", "region": "EU-W", "latitude": 52.5, "longitude": 13.4},
            "nyc": {"city": "New York", "country": "US", "region": "NA-E", "latitude": 40.7, "longitude": -74.0},
        },
        "sites": [
            {
                "ips": ["203.0.113.10", "2001:db8:1::10"],
                "asn": 64530,
                "database_place": "nyc",
                "ways": [{"ms": 9.0, "hops": [{"ip": "198.18.0.1", "ms": 1.0, "asn": 64501, "database_place": "ber"}]}],
            }
        ],
    }
)


@pytest.fixture
def files(tmp_path):
    asn, geo = databases.write_all(NETWORK, tmp_path)
    with maxminddb.open_database(str(asn)) as origins, maxminddb.open_database(str(geo)) as places:
        yield origins, places


@pytest.mark.parametrize(
    ("ip", "asn"),
    [
        ("198.18.0.1", 64501),
        ("198.18.0.2", 64500),
        ("198.18.255.255", 64500),
        ("198.19.0.1", None),
        ("203.0.113.10", 64530),
        ("203.0.113.11", None),
        ("2001:db8:1::10", 64530),
        ("2001:db8:6464::c612:1", 64501),
        ("2001:db8::1", 64500),
        ("2001:db9::1", None),
    ],
)
def test_the_longest_block_says_who_announces_an_address(files, ip, asn):
    record = files[0].get(ip)
    assert (record and record["autonomous_system_number"]) == asn


def test_names_and_places(files):
    assert files[0].get("198.18.0.9")["autonomous_system_organization"] == "HomeNet"
    assert files[0].get("198.18.0.1")["autonomous_system_organization"] == "AS64501"
    place = files[1].get("203.0.113.10")
    assert (place["city"]["names"]["en"], place["country"]["iso_code"]) == ("New York", "US")
    assert place["location"]["longitude"] == pytest.approx(-74.0)
    assert files[1].get("198.18.0.1")["location"]["latitude"] == pytest.approx(52.5)
    assert files[1].get("198.18.0.2") is None


def test_what_the_file_says_of_itself(files):
    about = files[0].metadata()
    assert (about.database_type, about.ip_version, about.build_epoch) == ("netdiag-lab-ASN", 6, 1_767_225_600)


@pytest.mark.parametrize("length", [0, 28, 29, 284, 285, 2000])
def test_texts_of_any_length(tmp_path, length):
    path = tmp_path / "x.mmdb"
    databases.write(path, "t", {"198.18.0.0/16": {"text": "x" * length}})
    with maxminddb.open_database(str(path)) as reader:
        assert reader.get("198.18.3.4") == {"text": "x" * length}
