# SPDX-License-Identifier: Apache-2.0
"""Networks as data: read whole or refused, and sound in what they claim."""

from __future__ import annotations

import ipaddress

import pytest

from netdiag.errors import InputUnreadable
from netdiag.route.lab import topology
from netdiag.route.lab.topology import Station, load, read, shipped

LAB_BLOCKS = [
    ipaddress.ip_network(block)
    for block in ("198.18.0.0/15", "203.0.113.0/24", "100.64.0.0/10", "192.168.0.0/16", "10.0.0.0/8", "2001:db8::/32")
]
SMALL = {
    "title": "t",
    "lines": {"home": [{"ip": "192.168.77.1", "ms": 1.0}]},
    "sites": [
        {
            "ips": ["203.0.113.10"],
            "ways": [{"ms": 9.0, "hops": ["home", {"ip": "198.18.0.1", "ms": 4.0, "also": [{"ip": "198.18.0.2"}]}]}],
        }
    ],
    "places": {"ber": {"city": "Berlin", "country": "DE", "region": "EU-W", "latitude": 52.5, "longitude": 13.4}},
    "truth": {"verdict": "none", "as_path": [64500]},
}


def test_stretches_are_put_in_and_alternatives_take_over_what_they_do_not_say():
    network = read(SMALL)
    first, second, other = network.stations()
    assert (first.ip, second.ip, other.ip, other.ms) == ("192.168.77.1", "198.18.0.1", "198.18.0.2", 4.0)
    assert network.sites[0].ways[0].hops == (first, second)
    assert network.places["ber"].city == "Berlin"
    assert network.truth.as_path == (64500,)
    assert network.site("203.0.113.10") is network.sites[0]
    assert network.site("203.0.113.11") is None


def test_every_router_has_an_ipv6_address():
    assert Station(ip="198.18.0.1", ms=1.0).address(6) == "2001:db8:6464::c612:1"
    assert Station(ip="198.18.0.1", ms=1.0, ip6="2001:db8::7").address(6) == "2001:db8::7"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"title": "t", "sites": [], "colour": 1}, "Topology: unknown colour"),
        ({"sites": []}, "Topology"),
        ({"title": "t", "sites": [{"ips": [], "ways": [{"ms": 1.0, "hops": [{"ms": 1.0}]}]}]}, "Station"),
    ],
)
def test_what_is_not_understood_is_refused(table, words):
    with pytest.raises(InputUnreadable, match=words):
        read(table)


def test_files_may_be_toml_or_json(tmp_path):
    (tmp_path / "a.json").write_text('{"title": "t", "sites": []}')
    (tmp_path / "b.toml").write_text('title = "t"\nsites = []\n')
    assert load(tmp_path / "a.json") == load(tmp_path / "b.toml")
    (tmp_path / "c.toml").write_text("title = ")
    with pytest.raises(InputUnreadable, match=r"c\.toml"):
        load(tmp_path / "c.toml")


@pytest.mark.parametrize("path", shipped().values(), ids=lambda path: path.stem)
def test_shipped_networks_use_addresses_that_nobody_has(path):
    network = load(path)
    addresses = [station.address(version) for station in network.stations() for version in (4, 6)]
    addresses += [ip for site in network.sites for ip in site.ips] + [network.client_ip, network.client_ip6]
    strange = [ip for ip in addresses if not any(ipaddress.ip_address(ip) in block for block in LAB_BLOCKS)]
    assert strange == []


@pytest.mark.parametrize("path", shipped().values(), ids=lambda path: path.stem)
def test_shipped_networks_hang_together(path):
    network = load(path)
    keys = {site.place for site in network.sites} | {station.place for station in network.stations()}
    keys |= {station.database_place for station in network.stations()} | {network.client_place}
    assert {key for key in keys if key} <= set(network.places)
    for site in network.sites:
        assert site.way_headers == () or len(site.way_headers) == len(site.ways)
        for way in site.ways:
            assert all(hop.ms >= 0 for hop in way.hops)
    assert topology.FOLDER.is_dir()
