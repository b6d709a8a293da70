# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.errors import InputUnreadable
from netdiag.route import replay, store
from netdiag.route.knowledge import Knowledge
from netdiag.route.survey import examine
from tests.fakes.routes import boomerang


def test_stored_probes():
    stored = replay.read(json.dumps(store.to_json(boomerang())).encode())
    assert stored.measurement == boomerang()
    assert stored.knowledge is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "not JSON"),
        (b"\xff", "not UTF-8 at byte 0"),
        (b"[1]", "not a JSON object"),
        (b"{}", "no stored probes"),
        (b'{"a": 1}\n{"b": ', "line 2"),
        (b'{"schema": "netdiag.route/2"}', "newer"),
        (b'{"schema": "netdiag.probes/9"}', "newer"),
        (b'{"schema": "netdiag.trace/1"}', "schema"),
        (b'{"schema": "netdiag.route/1", "inputs": []}', "inputs"),
        (b'{"schema": "netdiag.route/1", "probes": 3}', "not a JSON object"),
        (b"[" * 100_000, "nested"),
    ],
)
def test_what_cannot_be_read_is_told(text, why):
    with pytest.raises(InputUnreadable, match=why):
        replay.read(text)


@pytest.mark.parametrize("inputs", ['{"baseline_ms": Infinity}', '{"baseline_ms": NaN}', '{"loads": {"FRA": NaN}}'])
def test_what_is_no_number_is_refused(inputs: str) -> None:
    head = '{"schema": "netdiag.route/1", "knowledge": {"ips": {}, "sources": []}, "probes": '
    text = f'{head}{json.dumps(store.to_json(boomerang()))}, "inputs": {inputs}}}'
    with pytest.raises(InputUnreadable, match="inputs"):
        replay.read(text.encode())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=20,
)
KEYS = ["type", "result", "hop", "from", "rtt", "dst_addr", "msm_id", "proto", "err", "icmpext", "obj", "mpls", "hops",
        "addr", "dst", "probe_ttl", "icmp_type", "icmp_code", "report", "hubs", "mtr", "host", "count", "Snt", "Loss%",
        "Best", "Avg", "Wrst", "method", "start", "sec", "stop_reason", "label", "late"]  # fmt: skip
VALUES = JSON | st.sampled_from(["trace", "traceroute", "203.0.113.1", "ICMP", "api.example.com", "???", "COMPLETED"])
HOSTILE = st.recursive(
    st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8),
    lambda inner: st.dictionaries(st.sampled_from(KEYS), inner | st.lists(inner, max_size=3) | VALUES, max_size=8),
    max_leaves=12,
)


@pytest.mark.fuzz
@given(HOSTILE | st.lists(HOSTILE, max_size=3) | JSON)
def test_any_json_is_read_or_refused(document):
    with suppress(InputUnreadable):
        stored = replay.read(json.dumps(document).encode())
        examine(stored.measurement, stored.knowledge or Knowledge(), stored.inputs)


@pytest.mark.fuzz
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data):
    with suppress(InputUnreadable):
        replay.read(data)


@pytest.mark.fuzz
@given(st.data())
def test_a_damaged_file_is_read_or_refused(data):
    text = json.dumps(store.to_json(boomerang()))
    at = data.draw(st.integers(0, len(text) - 1))
    with suppress(InputUnreadable):
        stored = replay.read((text[:at] + data.draw(st.text(max_size=3)) + text[at + 1 :]).encode("utf-8", "replace"))
        examine(stored.measurement, Knowledge())
