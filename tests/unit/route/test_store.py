# SPDX-License-Identifier: Apache-2.0
"""Stored probes come back as they were; a foreign file is refused with the member that is wrong."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.errors import InputUnreadable
from netdiag.route.model import Asked, Connect, Flow, Landmark, Lookup, Measurement, Probe, Reply, Trace
from netdiag.route.store import SCHEMA, from_json, load, plain, restore, to_json

FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
st.register_type_strategy(float, FINITE)
st.register_type_strategy(str, TEXT)
MEASUREMENTS = st.builds(
    Measurement,
    traces=st.lists(
        st.builds(Trace, probes=st.lists(st.builds(Probe, reply=st.none() | st.builds(Reply)), max_size=3).map(tuple)),
        max_size=2,
    ).map(tuple),
    connects=st.lists(st.builds(Connect), max_size=2).map(tuple),
    lookups=st.lists(st.builds(Lookup), max_size=2).map(tuple),
    landmarks=st.lists(st.builds(Landmark), max_size=2).map(tuple),
    asked=st.lists(st.builds(Asked), max_size=2).map(tuple),
)
WHOLE = {
    "schema": SCHEMA,
    "version": "1",
    "target": {"host": "api.lab.test", "port": 443},
    "clocks": {"monotonic_ns": 1, "realtime_ns": 2, "end_monotonic_ns": 3, "end_realtime_ns": 4},
    "connects": [{"ip": "192.0.2.1", "port": 443, "attempts": []}],
}


@given(MEASUREMENTS)
def test_what_is_written_is_read(measurement):
    text = json.dumps(to_json(measurement), allow_nan=False)
    assert load(text.encode()) == measurement


def test_the_schema_comes_first_and_defaults_are_left_out():
    document = to_json(from_json(WHOLE))
    assert next(iter(document)) == "schema"
    assert "lookups" not in document
    assert document["target"] == {"host": "api.lab.test", "port": 443}


def test_unknown_members_are_ignored():
    assert from_json({**WHOLE, "colour": "blue"}) == from_json(WHOLE)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("target", "port"), "443", "target.port: expected int"),
        (("target", "port"), True, "target.port: expected int"),
        (("target", "protocol"), "sctp", "target.protocol: expected one of tcp, udp, icmp"),
        (("target",), [], "target: expected an object"),
        (("connects",), {}, "connects: expected a list"),
        (("connects", 0, "attempts"), [{"started_ns": 0}], "source_port, outcome is missing"),
        (("vantage",), {"latitude": math.nan}, "vantage.latitude: expected float"),
        (("vantage",), {"latitude": 10**400}, "vantage.latitude: expected float"),
        (("schema",), "netdiag.trace/1", "schema"),
        (("schema",), "netdiag.probes/2", "newer"),
        (("schema",), None, "schema"),
    ],
)
def test_the_wrong_member_is_named(path, value, words):
    document = copy.deepcopy(WHOLE)
    inner: Any = document
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(InputUnreadable, match=words):
        from_json(document)


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"\xff", "UTF-8 at byte 0"), (b'{"a": ', "byte 6"), (b"[" * 200_000, "nested"), (b"[]", "object")],
)
def test_bytes_that_are_no_document_are_refused_with_the_place(data, words):
    with pytest.raises(InputUnreadable, match=words):
        load(data)


@pytest.mark.fuzz
@given(
    st.recursive(
        st.none() | st.booleans() | FINITE | TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner)
    )
)
def test_any_json_is_read_or_refused(value):
    for name in ("target", "traces", "connects", "lookups", "clocks", "ended"):
        try:
            from_json({**WHOLE, name: value})
        except InputUnreadable:
            continue


def test_single_parts_come_back_too():
    flow = Flow(id=3, source_port=40_000)
    assert restore(Flow, plain(flow)) == flow


def test_every_member_of_the_model_has_a_type_that_can_be_stored():
    seen = {member.name for member in dataclasses.fields(Measurement)}
    assert {"traces", "connects", "lookups", "landmarks", "asked", "clocks"} <= seen
