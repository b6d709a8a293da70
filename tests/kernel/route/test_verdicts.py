# SPDX-License-Identifier: Apache-2.0
"""The whole check, by its command, on every network that has a verdict in its file: right, and nothing over-claimed."""

from __future__ import annotations

import json
import sys

import pytest

from netdiag.route.lab.topology import load, shipped
from netdiag.route.lab.world import NOBODY, World

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

JUDGED = {name: path for name, path in shipped().items() if load(path).client_place is not None}
ROOT_TOO = ("near", "boomerang-berlin", "steering-berlin", "near-packets")


def check(world, uid):
    topology = world.topology
    here = topology.places[topology.client_place]
    argv = [sys.executable, "-m", "netdiag", "route-check", topology.sites[0].name, "--format", "json", "--no-keep"]
    argv += ["--asn-db", str(world.asn_db), "--geo-db", str(world.geo_db), "--rounds", "2"]
    argv += ["--vantage", f"{here.latitude},{here.longitude}", "--baseline-ms", str(topology.truth.baseline_ms)]
    return json.loads(world.run(argv, uid=uid))


def test_forty_networks_are_shipped():
    assert len(shipped()) >= 40
    assert len(JUDGED) >= 25


@pytest.mark.parametrize(
    ("name", "uid"), [*((name, NOBODY) for name in JUDGED), *((name, 0) for name in ROOT_TOO)], ids=str
)
def test_the_verdict_is_the_one_in_the_file(name, uid):
    with World(JUDGED[name], seed=0) as world:
        found = check(world, uid)
    truth = load(JUDGED[name]).truth
    detour, path = found["detour"], found["paths"][0]
    assert (detour["verdict"], detour["class"]) == (truth.verdict, truth.kind)
    assert [step["asn"] for step in path["as_path"]] == list(truth.as_path)
    assert set(detour["regions"]) == set(truth.regions)
    claimed = {one["code"] for one in found["findings"] if one["severity"] != "info"}
    assert set(truth.findings) <= claimed <= {*truth.findings, *truth.allowed}
    assert path["privileged"] is (uid == 0)
    assert path["reached"]


@pytest.mark.parametrize("uid", [NOBODY, 0])
def test_nobody_is_asked_but_those_that_are_listed(uid):
    with World(JUDGED["near"]) as world:
        asked = check(world, uid)["asked"]
    allowed = {"203.0.113.10", "2001:db8:cb00:7100::10", "127.0.0.53"}
    assert {str(one["address"] if isinstance(one, dict) else one) for one in asked} <= allowed
