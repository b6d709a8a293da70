# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
from typing import Any

import pytest

from netdiag.route.lab.topology import load, shipped
from netdiag.route.lab.trials import differences

NETWORK = load(shipped()["near"])
HOPS = [*(hop.ip for hop in NETWORK.sites[0].ways[0].hops), "203.0.113.10"]
RIGHT: dict[str, Any] = {
    "detour": {"verdict": "none", "class": None, "regions": ["EU-W"]},
    "findings": [{"code": "route.long-haul", "severity": "info"}],
    "paths": [
        {
            "ip": "203.0.113.10",
            "privileged": False,
            "flow": "multi",
            "reached": True,
            "as_path": [{"asn": 64500}, {"asn": 64501}, {"asn": 64530}],
            "hops": [{"ttl": ttl, "responders": [{"ip": ip}]} for ttl, ip in enumerate(HOPS, 1)],
        }
    ],
}


def wrong(change):
    found = copy.deepcopy(RIGHT)
    change(found)
    return differences(NETWORK, found, root=False)


def test_what_is_right_differs_in_nothing():
    assert differences(NETWORK, RIGHT, root=False) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda found: found["detour"].update(verdict="suspect"), "verdict: suspect, truly none"),
        (lambda found: found["detour"].update({"class": "inflated"}), "class: inflated, truly None"),
        (lambda found: found["detour"].update(regions=["EU-W", "NA-E"]), "regions"),
        (lambda found: found["findings"].append({"code": "route.loss", "severity": "warning"}), "over-claimed"),
        (lambda found: found["paths"][0]["as_path"].pop(1), "AS path: [64500, 64530]"),
        (lambda found: found["paths"][0]["hops"].pop(), "5 hops, truly [6]"),
        (lambda found: found["paths"][0]["hops"][2].update(responders=[]), "hop 3: nobody"),
        (lambda found: found["paths"][0]["hops"][2].update(responders=[{"ip": HOPS[3]}]), "hop 3: ['198.18.11.5']"),
        (lambda found: found["paths"][0].update(privileged=True), "privileged"),
        (lambda found: found["paths"][0].update(reached=False), "reached"),
    ],
)
def test_each_thing_that_is_not_as_it_is_shows(change, says):
    assert any(says in line for line in wrong(change))


def test_a_silent_router_may_be_missing_and_no_other():
    network = load(shipped()["thirty-hops"])
    hops = [*(hop.ip for hop in network.sites[0].ways[0].hops), "203.0.113.10"]
    found = copy.deepcopy(RIGHT)
    found["paths"][0]["hops"] = [{"ttl": ttl, "responders": [{"ip": ip}]} for ttl, ip in enumerate(hops, 1)]
    found["paths"][0]["hops"][11]["responders"] = []
    assert not any("hop" in line for line in differences(network, found, root=False))
    found["paths"][0]["hops"][12]["responders"] = []
    assert any("hop 13: nobody" in line for line in differences(network, found, root=False))


def test_flows_that_mix_may_end_between_the_lengths_of_two_ways():
    network = load(shipped()["two-ways"])
    hops = ("198.18.0.1", "198.18.1.1", "198.18.1.5", "198.18.2.9", "203.0.113.10")
    found = copy.deepcopy(RIGHT)
    found["paths"][0]["hops"] = [{"ttl": ttl, "responders": [{"ip": ip}]} for ttl, ip in enumerate(hops, 1)]
    assert not any("hop" in line for line in differences(network, found, root=False))
    found["paths"][0]["flow"] = "single"
    assert "5 hops, truly [4, 6]" in differences(network, found, root=False)
