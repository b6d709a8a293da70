# SPDX-License-Identifier: Apache-2.0
"""Unusual packets on emulated networks: routers that drop large ones, boxes that meddle; only the target gets any."""

from __future__ import annotations

import json
import subprocess
import sys
from ipaddress import ip_address

import pytest

from netdiag.route.lab.topology import shipped
from netdiag.route.lab.world import NOBODY, World

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(
        subprocess.run([sys.executable, "-c", "import scapy"], check=False, capture_output=True).returncode != 0,
        reason="Scapy is not installed: pip install 'netdiag-ebpf[odd]'",
    ),
]
V4, V6 = "203.0.113.10", "2001:db8:cb00:7100::10"


def network(**station):
    hops = [
        {"ip": "198.18.0.1", "ms": 1.0},
        {"ip": "198.18.1.1", "ms": 4.0, **station},
        {"ip": "198.18.2.1", "ms": 8.0},
    ]
    return {"title": "odd", "sites": [{"ips": [V4, V6], "ways": [{"ms": 10.0, "hops": hops}]}]}


def checked(world, *words, uid=0):
    argv = [sys.executable, "-m", "netdiag", "route-check", *words, "--no-keep", "--format", "json", "--rounds", "1"]
    done = subprocess.run(world.command(argv, uid=uid), capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def holes(document):
    return [row for row in document["findings"] if row["code"] == "route.mtu-blackhole"]


@pytest.mark.parametrize(
    ("station", "wanted"),
    [
        ({}, {"ecn": "negotiated", "bleached_ttl": None, "data": "not taken", "path_mtu": 1500}),
        ({"meddles": ["bleach-ecn"]}, {"ecn": "negotiated", "bleached_ttl": 3, "data": "not taken"}),
        ({"meddles": ["strip-ecn"]}, {"ecn": "not taken", "bleached_ttl": None, "data": "not taken"}),
        ({"meddles": ["drop-ecn"]}, {"ecn": "blocked", "data": "not taken", "path_mtu": 1500}),
        ({"meddles": ["drop-data"]}, {"ecn": "negotiated", "data": "blocked", "path_mtu": None}),
        ({"mtu": 1400}, {"ecn": "negotiated", "told_mtu": 1400, "path_mtu": 1400}),
    ],
    ids=["plain", "bleach", "strip", "drop ecn", "drop data", "told"],
)
def test_what_boxes_on_the_way_do(station, wanted):
    with World(network(**station)) as world:
        document = checked(world, "api.lab.test", "--odd")
    assert [row["ip"] for row in document["odd"]] == [V4, V6]
    for row in document["odd"]:
        assert {name: row[name] for name in wanted} == wanted
    assert holes(document) == []


@pytest.mark.parametrize("limit", [1400, 1443])
def test_a_black_hole_is_measured_to_the_byte_and_found_on_the_way(limit):
    with World(network(mtu=limit, mtu_told=False)) as world:
        document = checked(world, "api.lab.test", "--odd")
    for row, router in zip(document["odd"], ("198.18.1.1", "2001:db8:6464::c612:101"), strict=True):
        hole = row["black_hole"]
        assert limit - 4 <= hole["passed"] <= limit < hole["lost"] <= limit + 4
        assert (hole["last_ttl"], hole["last_ip"]) == (2, router)
    assert len(holes(document)) == 2
    assert all(row["severity"] == "critical" and row["confidence"] >= 0.9 for row in holes(document))


def test_an_ordinary_user_learns_of_one_where_handshakes_hang():
    with World(shipped()["black-hole"]) as world:
        document = checked(world, "api.lab.test", "-4", uid=NOBODY)
    (hole,) = holes(document)
    assert hole["confidence"] < 0.9
    assert {row["purpose"] for row in document["asked"]} == {"trace", "connect", "tls", "dns"}


def test_without_rights_it_is_refused_before_anything_is_sent():
    with World(network()) as world:
        argv = [sys.executable, "-m", "netdiag", "route-check", V4, "--odd", "--offline", "--no-keep"]
        done = subprocess.run(world.command(argv, uid=NOBODY), capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 4
    assert "CAP_NET_RAW" in done.stderr
    assert "sudo" in done.stderr


def test_it_goes_to_the_target_alone_and_is_listed():
    with World(network(mtu=1400, mtu_told=False)) as world:
        document = checked(world, V4, "--odd", "--offline")
    assert {row["address"] for row in document["asked"]} == {V4}
    assert {row["purpose"] for row in document["asked"]} == {"trace", "connect", "odd"}
    (row,) = document["odd"]
    assert row["black_hole"]["passed"] == 1400
    assert all(ip_address(probe["ip"]) for probe in document["probes"]["odd"][0]["probes"] if "ip" in probe)


def test_hostile_routers_change_nothing():
    tricks = ["wrong-quote", "huge-extension", "truncated", "wrong-checksum", "duplicate"]
    with World(network(hostile=tricks)) as world:
        document = checked(world, V4, "--odd", "--offline")
    (row,) = document["odd"]
    assert (row["ecn"], row["bleached_ttl"], row["marked"], row["path_mtu"]) == ("negotiated", None, 3, 1500)
