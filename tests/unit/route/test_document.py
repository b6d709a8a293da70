# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import jsonschema
import pytest

from netdiag.render import Options
from netdiag.render import json as as_json
from netdiag.route import document, replay
from netdiag.route.data import Tables
from netdiag.route.knowledge import Knowledge
from netdiag.route.survey import Inputs, examine
from tests.fakes.routes import IP, REPLAYS, boomerang, connect, measured, trace


@pytest.fixture(scope="module")
def schema(root):
    return json.loads((root / "reports/schemas/netdiag.route-1.json").read_text())


def made(measurement, knowledge=None, **inputs):
    return document.build(examine(measurement, knowledge or Knowledge(), Inputs(**inputs)))


@pytest.mark.parametrize("path", sorted(REPLAYS.glob("*.json")), ids=lambda path: path.stem)
def test_reported_cases_fit_the_schema(path, schema):
    stored = replay.read(path.read_bytes())
    jsonschema.validate(made(stored.measurement, Tables().knowledge(stored.measurement)), schema)


@pytest.mark.parametrize(
    "measurement",
    [
        measured(),
        measured(here=None),
        boomerang(),
        measured(connects=[connect([None] * 5)]),
        measured(traces=[trace([None, None], reached=False)]),
        measured(connects=[connect([12.0] * 8 + [48.0] * 4)]),
    ],
)
def test_other_measurements_fit_it_too(measurement, schema):
    shown = made(measurement, loads={IP: 90.0}, by_load=True, baseline_ms=12.0)
    jsonschema.validate(shown, schema)


def test_the_order_of_members_is_that_of_the_contract():
    assert list(made(boomerang()))[:4] == ["schema", "version", "started", "duration_ms"]


def test_a_document_judged_again_is_the_same():
    first = made(boomerang(), baseline_ms=12.0)
    stored = replay.read(as_json.render(first, Options()).encode())
    assert stored.knowledge is not None
    assert document.build(examine(stored.measurement, stored.knowledge, stored.inputs)) == first


def test_a_silent_hop_has_no_responder():
    (path,) = made(boomerang())["paths"]
    assert [hop["ttl"] for hop in path["hops"] if not hop["responders"]] == [4]


def test_what_the_way_costs():
    means = made(boomerang(), baseline_ms=12.0)["means"]
    assert means["kept_connection_ms"] == pytest.approx(88.1)
    assert means["new_connection_ms"] == pytest.approx(264.3)
    assert means["share_of_answer"] == pytest.approx(88.1 / 91.1, abs=0.001)


def test_a_round_trip_to_a_proxy_tells_no_cost_of_the_way():
    hops = [("192.168.1.1", 0.5), (IP, 1.0)]
    shown = made(measured(traces=[trace(hops)], connects=[connect([1.0] * 12, pop="NRT")]))
    assert shown["detour"]["missing"] == ["a round trip to the target itself: a way past the proxy"]
    assert shown["means"]["kept_connection_ms"] is None
    assert shown["means"]["share_of_answer"] is None


def test_unknown_is_null():
    shown = made(measured())
    assert shown["baseline"] is None
    assert shown["summary"]["rtt_ms"] is None
    assert shown["detour"]["confidence"] is None
