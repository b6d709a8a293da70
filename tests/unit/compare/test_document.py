# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import numpy as np
import pytest

from netdiag.assets import data_dir
from netdiag.compare import DEFAULT, build, sample, split
from netdiag.values import dumps
from tests.fakes import calls, documents

SCHEMA = json.loads((data_dir("reports") / "schemas" / "netdiag.compare-1.json").read_text())


def pair(shift=0.0):
    tables = calls.source(calls=40).tables
    slower = replace(tables, requests=tables.requests.assign(total_ms=tables.requests["total_ms"] + shift))
    return sample(tables, [documents.finding()], name="a"), sample(slower, [], name="b")


def test_it_keeps_to_its_schema():
    for pairs in ([pair()], [pair(100)], [], [(pair()[0], sample(documents.tables([]), [], name="none"))]):
        jsonschema.validate(json.loads(dumps(build(pairs, DEFAULT))), SCHEMA)
    groups = split(calls.source().tables, [], "ip")
    document = build([(groups[0], groups[1])], DEFAULT, split="ip")
    jsonschema.validate(json.loads(dumps(document)), SCHEMA)
    assert document["split"] == "ip"


def test_a_shift_is_told_where_it_is():
    (found,) = build([pair(30.0)], DEFAULT)["comparisons"]
    rows = {row["metric"]: row for row in found["times"]}
    assert rows["total"]["p50"]["change"] == pytest.approx(30.0)
    assert rows["total"]["change"] == "slower"
    assert rows["server"]["change"] == "same"
    assert "dns" not in rows
    assert found["causes"][0]["change"] == "gone"
    assert found["causes"][0]["a"]["each_ms"] == pytest.approx(20 / 42, abs=1e-6)
    assert found["causes"][0]["b"] == {"count": 0, "cost_ms": 0.0, "each_ms": 0.0}


@pytest.mark.parametrize("turned", [False, True])
def test_a_cause_is_not_new_where_the_other_side_tells_none(turned):
    told, _ = pair()
    sides = (told, replace(told, causes=None)) if turned else (replace(told, causes=None), told)
    document = build([sides], DEFAULT)
    jsonschema.validate(json.loads(dumps(document)), SCHEMA)
    (row,) = document["comparisons"][0]["causes"]
    assert row["change"] is None
    assert row["b" if turned else "a"] == {"count": None, "cost_ms": None, "each_ms": None}
    assert row["a" if turned else "b"]["count"] == 5


def test_the_same_input_gives_the_same_document():
    assert build([pair(3.0)], DEFAULT) == build([pair(3.0)], DEFAULT)


def test_what_is_not_known_is_null():
    none = sample(documents.tables([]), [], name="none")
    (found,) = build([(none, none)], DEFAULT)["comparisons"]
    assert (found["times"], found["shares"]) == ([], [])
    assert {row["p"] for row in found["gate"]} == {None}
    one = replace(pair()[0], values={name: values[:1] for name, values in pair()[0].values.items()})
    (found,) = build([(one, one)], ())["comparisons"]
    assert found["times"][0]["change"] == "unknown"
    assert found["times"][0]["p99"]["low"] is None
    assert np.isfinite(found["times"][0]["p99"]["a"])
