# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from netdiag.compare import samples
from tests.fakes import calls, documents


def test_values_are_sorted_and_unknown_ones_left_out():
    tables = calls.source().tables
    found = samples.sample(tables, [documents.finding()], name="x")
    assert found.requests == 7
    assert list(found.values["total"]) == [46.0] * 6 + [216.123456]
    assert list(found.values["first_token"]) == [250.25]
    assert len(found.values["dns"]) == 0
    assert found.shares["errors"] == (1, 2)
    assert found.shares["retries"] == (1, 2)
    assert found.shares["reuse"] == (0, 5)
    assert found.causes == {"reuse.client-per-call": (5, 20.0)}


def test_causes_with_one_code_add_up_and_unknown_cost_is_not_zero():
    pair = [documents.finding(), documents.finding(cost_ms=None), documents.finding(code="tcp.reset", cost_ms=None)]
    found = samples.sample(calls.source().tables, pair, name="x")
    assert found.causes == {"reuse.client-per-call": (10, 20.0), "tcp.reset": (5, None)}


def test_served_calls_count_only_where_none_are_made():
    tables = calls.source().tables
    serving = replace(tables, connections=tables.connections.assign(role=["server"] * 6))
    assert len(samples.asked(serving)) == 7
    mixed = replace(tables, connections=tables.connections.assign(role=["server"] * 5 + ["client"]))
    assert samples.asked(mixed)["id"].tolist() == ["r6", "r7"]


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("host", ["198.51.100.7", "api.example.com"]),
        ("ip", ["198.51.100.7", "2001:db8::7"]),
        ("model", ["gpt-x"]),
    ],
)
def test_groups(by, names):
    groups = samples.split(calls.source().tables, [documents.finding()], by)
    assert [one.name for one in groups] == names
    assert {one.kind for one in groups} == {"group"}
    assert bool(groups[0].causes) == (by != "model")


def test_a_connection_that_is_not_known_is_no_group_by_address():
    tables = calls.source().tables
    lost = replace(tables, requests=tables.requests.assign(connection=-1))
    assert samples.split(lost, [], "ip") == []
    assert [one.name for one in samples.split(lost, [], "host")] == ["api.example.com"]


def test_no_requests():
    found = samples.sample(documents.tables([]), [], name="x")
    assert found.requests == 0
    assert np.array_equal(found.values["total"], [])
    assert found.shares["reuse"] == (0, 0)


def test_another_split_is_refused():
    with pytest.raises(ValueError, match="pid"):
        samples.split(calls.source().tables, [], "pid")
