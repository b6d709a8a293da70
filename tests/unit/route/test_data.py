# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import tomllib
from datetime import date

import pytest

from netdiag.assets import data_dir
from netdiag.route.data import Tables, _exchanges, addresses_in, cymru_origins, exchange_of, is_anycast, stale
from netdiag.route.gazetteer import gazetteer
from netdiag.route.knowledge import Source
from netdiag.route.lab import databases
from netdiag.route.lab.topology import load, shipped
from netdiag.route.model import Lookup
from netdiag.route.origins import shipped as shipped_origins
from tests.fakes.routes import IP, boomerang


def test_knowledge_of_a_measurement():
    knowledge = Tables().knowledge(boomerang())
    assert set(knowledge.ips) == set(addresses_in(boomerang()))
    assert knowledge.of(IP).asn is None  # an address of documentation belongs to nobody
    assert any(source.attribution for source in knowledge.sources)


def test_the_users_files_are_asked_first(tmp_path):
    asn_file, place_file = databases.write_all(load(shipped()["boomerang-berlin"]), tmp_path)
    tables = Tables(asn_file, [place_file])
    facts = tables.knowledge(boomerang()).of("198.18.11.5")
    assert (facts.asn, facts.as_name) == (64501, "Long Haul Transit")
    assert facts.origin_source is not None
    assert "asn.mmdb" in facts.origin_source
    assert len(tables.sources) == 4


@pytest.mark.parametrize(
    ("ip", "name"),
    [("80.81.192.33", "DE-CIX Frankfurt"), ("2001:7f8::1", "DE-CIX Frankfurt"), ("206.126.236.1", "Equinix Ashburn"),
     ("8.8.8.8", None)],
)  # fmt: skip
def test_exchanges(ip, name):
    found = exchange_of(ip)
    assert (found[0] if found else None) == name


def test_cities_of_exchanges_exist():
    from netdiag.route.data import _exchanges
    from netdiag.route.gazetteer import gazetteer

    assert {city for _, _, city in _exchanges()} <= set(gazetteer().codes)


def test_anycast():
    assert is_anycast("104.18.6.192", None)
    assert is_anycast("192.0.2.1", 13335)
    assert not is_anycast("192.0.2.1", 64500)


def text(name, answer):
    return Lookup(resolver="x", name=name, qtype="TXT", at_ns=0, answers=(answer,))


def test_answers_of_cymru():
    found = cymru_origins(
        [
            text("1.0.18.198.origin.asn.cymru.com", '"64500 64501 | 198.18.0.0/24 | ZZ | lab | 2026-01-01"'),
            text("AS64500.asn.cymru.com", '"64500 | ZZ | lab | 2026-01-01 | HOME"'),
            text("nonsense.origin.asn.cymru.com", '"x | y"'),
            text("1.0.0.0.origin.asn.cymru.com", '"99999999999 | y"'),
        ]
    )
    assert {ip: (one.asn, one.name) for ip, one in found.items()} == {"198.18.0.1": (64500, "HOME")}


def test_old_tables_are_told():
    sources = [Source(source="table", date="2026-06-17", licence=None), Source(source="hand", date=None, licence=None)]
    assert stale(sources, date(2026, 12, 1)) == []
    assert stale(sources, date(2026, 12, 15)) == [
        "table is 181 days old: networks may have moved (--asn-db, --geo-db: newer files)"
    ]


ANNOUNCED_BY_ITSELF = {
    "AMS-IX": "Amsterdam Internet Exchange",
    "France-IX Paris": "France IX",
    "MIX Milan": "Milan Internet eXchange",
    "SIX Seattle": "Seattle Internet Exchange",
    "VIX": "ACONET",
}
LEAKED = {"Equinix Ashburn", "Equinix Sydney", "FL-IX Miami", "HKIX", "Netnod Stockholm"}
"""Members announce these LANs although nobody should; the field notes name the first."""


def test_peering_lans_are_announced_by_nobody_or_by_their_exchange():
    """What another network announces for good is no peering LAN: the row would name a wrong city."""
    for block, name, _ in _exchanges():
        origin = shipped_origins().find(str(block.network_address + 1))
        if origin is not None and name not in LEAKED:
            assert ANNOUNCED_BY_ITSELF[name] in (origin.name or ""), f"{block} {name}: {origin}"


def test_siblings_and_anycast_networks_are_in_the_table_of_networks():
    table = tomllib.loads((data_dir("probes") / "routes" / "networks.toml").read_text())
    listed = {number for group in table["siblings"] for number in group} | set(table["anycast_asns"])
    assert listed <= set(shipped_origins()._numbers), sorted(listed - set(shipped_origins()._numbers))
    assert all(len(group) > 1 for group in table["siblings"])
    assert all(code in gazetteer().codes for codes in table["served_from"].values() for code in codes)
