# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest

from netdiag.errors import UsageError
from netdiag.route import document, exports
from netdiag.route.knowledge import Knowledge
from netdiag.route.survey import Inputs, examine
from tests.fakes.routes import connect, measured


@pytest.fixture(scope="module")
def shown():
    connects = [
        connect([88.0] * 12, ip="203.0.113.10"),
        connect([12.0] * 12, ip="203.0.113.20"),
        connect([9.0] * 6 + [None] * 6, ip="203.0.113.30"),
        connect([13.0] * 12, ip="2001:db8::20"),
    ]
    return document.build(examine(measured(connects=connects), Knowledge(), Inputs(baseline_ms=12.0)))


def test_json(shown):
    choice = json.loads(exports.render(shown, "json"))
    assert choice["schema"] == "netdiag.choice/1"
    assert choice["choice"] == "203.0.113.20"
    assert [row["action"] for row in choice["addresses"]] == ["prefer", "keep", "keep", "isolate"]


def test_envoy(shown):
    (resource,) = json.loads(exports.render(shown, "envoy"))["resources"]
    assert resource["cluster_name"] == "api.example.com"
    states = [row["lb_endpoints"][0]["health_status"] for row in resource["endpoints"]]
    assert states == ["HEALTHY", "HEALTHY", "HEALTHY", "UNHEALTHY"]
    assert [row["priority"] for row in resource["endpoints"]] == [0, 1, 2, 3]


def test_hosts_has_one_address_of_each_version_and_no_isolated_one(shown):
    lines = exports.render(shown, "hosts").splitlines()
    assert lines[0].startswith("#")
    assert lines[1:] == ["203.0.113.20 api.example.com", "2001:db8::20 api.example.com"]


def test_a_hostile_name_writes_no_line(shown):
    evil = {**shown, "target": {**shown["target"], "host": "x\n6.6.6.6 bank.example"}}
    assert "bank" not in exports.render(evil, "hosts")


@pytest.mark.parametrize(("name", "kind"), [("hosts", "hosts"), ("my-envoy.json", "envoy"), ("choice.json", "json")])
def test_the_name_tells_the_format(name, kind):
    assert exports.kind_of(Path(name)) == kind


def test_another_format(shown):
    with pytest.raises(UsageError, match="yaml"):
        exports.render(shown, "yaml")
