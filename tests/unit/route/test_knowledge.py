# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from netdiag.errors import InputUnreadable
from netdiag.route.knowledge import DatabasePlace, IpFacts, Knowledge, Source, from_json, to_json

WHOLE = Knowledge(
    ips={
        "198.18.0.1": IpFacts(
            asn=64500,
            as_name="Home",
            exchange="IX",
            exchange_city="FRA",
            anycast=True,
            databases=(DatabasePlace(database="x", latitude=1.0, longitude=2.0, radius_km=5.0, named=True),),
        )
    },
    sources=(Source(source="table", date="2026-06-17", licence="CC BY 4.0"),),
)


def test_there_and_back():
    assert from_json(json.loads(json.dumps(to_json(WHOLE)))) == WHOLE


def test_an_address_that_nobody_knows():
    assert WHOLE.of("192.0.2.1") == IpFacts()


@pytest.mark.parametrize(
    ("document", "where"),
    [
        ([], "knowledge"),
        ({"ips": []}, "knowledge"),
        ({"sources": {}}, "sources"),
        ({"ips": {"a": {"asn": "x"}}}, r"ips\.a\.asn"),
        ({"sources": [{"date": 3}]}, r"sources\[0\]"),
    ],
)
def test_what_is_wrong_is_named(document, where):
    with pytest.raises(InputUnreadable, match=where):
        from_json(document)
