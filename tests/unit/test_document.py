# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import math
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdiag.document import SCHEMA, _cost, build
from netdiag.render import Options, render
from netdiag.tables.model import Loss, Tables
from tests.fakes import documents


@pytest.fixture(scope="module")
def validator(root: Path) -> jsonschema.Draft202012Validator:
    schema = json.loads((root / "reports/schemas/netdiag.trace-1.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def errors(validator: jsonschema.Draft202012Validator, document: object) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]


def test_a_document_follows_its_schema(validator):
    assert errors(validator, documents.document()) == []


def test_a_trace_that_saw_nothing_follows_the_schema(validator):
    recording = documents.recording(
        header={"clock": {"monotonic_ns": 0, "realtime_ns": 0}}, facts=[], end=None, truncated_at=77
    )
    document = build(recording, Tables(), [])
    assert errors(validator, document) == []
    assert document["host"] is None
    assert document["command"] is None
    assert document["coverage"]["tier"] is None
    assert document["summary"]["requests"] == 0
    assert document["exit_reason"] == "the recording breaks off at byte 77"


@pytest.mark.parametrize(
    "break_it",
    [
        lambda document: document.pop("requests"),
        lambda document: document["connections"][0].update(outcome="fine"),
        lambda document: document["connections"][0].update(opened="2026-11-18T17:06:40Z"),
        lambda document: document["summary"].pop("reuse"),
        lambda document: document["requests"][0].update(source="guess"),
        lambda document: document["findings"][0].update(confidence=2),
        lambda document: document["connections"][0].update(bytes_sent=-1),
        lambda document: document["summary"].update(errors=""),
    ],
)
def test_the_schema_catches(validator, break_it):
    document = documents.document()
    break_it(document)
    assert errors(validator, document)


def test_the_schema_lets_fields_be_added(validator):
    document = documents.document(new_field=1)
    document["connections"][0]["new_field"] = 2
    assert errors(validator, document) == []


def test_schema_first_and_instants_from_the_clock_pair():
    document = documents.document()
    assert next(iter(document)) == "schema"
    assert document["schema"] == SCHEMA
    assert document["started"] == "2026-11-18T17:06:40.123456789Z"
    assert document["connections"][1]["opened"] == "2026-11-18T17:06:40.223456789Z"


def test_unknown_is_null_everywhere():
    bare = documents.tables([{"id": "c1", "cookie": 7, "preexisting": True}], span_ms=math.nan)
    document = build(documents.recording(), bare, [])
    (row,) = document["connections"]
    known = {"id", "cookie", "local", "remote", "preexisting"}
    assert {key for key, value in row.items() if value is not None} == known
    assert row["remote"] == {"ip": None, "port": None, "name": None}
    assert document["duration_ms"] is None
    json.dumps(document, allow_nan=False)


def test_lists_are_sorted_by_time_and_older_sockets_come_first():
    rows = [
        documents.connection(1, 200.0),
        documents.connection(2, 100.0),
        documents.connection(3, opened_ns=math.nan, preexisting=True),
    ]
    requests = [documents.request(1, 0, 205.0), documents.request(2, 1, 105.0)]
    document = build(documents.recording(), documents.tables(rows, requests), [])
    assert [row["id"] for row in document["connections"]] == ["c3", "c2", "c1"]
    assert [(row["id"], row["connection"]) for row in document["requests"]] == [("r2", "c2"), ("r1", "c1")]


def test_losses_unknown_and_known():
    tables = documents.tables([], losses=(Loss(probe="tcp", seen=3, lost=2), Loss(probe="tcp_io", seen=9, lost=None)))
    events = build(documents.recording(), tables, [])["coverage"]["events"]
    assert events == [{"probe": "tcp", "seen": 3, "lost": 2}, {"probe": "tcp_io", "seen": 9, "lost": None}]


def test_an_analysis_that_failed_is_told():
    document = build(documents.recording(), documents.tables([]), [], failures=[("reuse", "KeyError: x")])
    assert {"pid": None, "what": "the verdict of reuse", "why": "KeyError: x"} in document["coverage"]["unobservable"]


def test_the_last_fact_of_a_kind_counts():
    facts = [
        {"kind": "cost", "recorder_cpu_ms": 1.0, "kernel_ms": 1.0},
        {"kind": "cost", "recorder_cpu_ms": 9.0, "kernel_ms": 6.0},
        {"kind": "command", "argv": ["a"], "exit_status": None},
        {"kind": "command", "argv": ["a"], "exit_status": 3},
    ]
    document = build(documents.recording(facts=facts), documents.tables([]), [])
    assert document["coverage"]["cost"] == {"recorder_cpu_ms": 9.0, "kernel_ms": 6.0, "per_mille_of_target": 2.0}
    assert document["command"] == {"argv": ["a"], "exit_status": 3, "duration_ms": None}


@pytest.mark.parametrize(
    ("armed_ms", "ended_ms", "lasted_ms"),
    [(400, 1_900, 1_500), (400, 400, 0), (None, 1_900, None), (400, None, None), (400, 300, None), ("x", 1_900, None)],
)
def test_a_command_lasts_from_when_all_was_armed_to_its_own_end(armed_ms, ended_ms, lasted_ms):
    clock = documents.recording().header["clock"]["monotonic_ns"]
    armed = clock + armed_ms * 1_000_000 if isinstance(armed_ms, int) else armed_ms
    facts = [
        {"kind": "command", "argv": ["a"], "exit_status": None, "pid": 7, "armed_ns": armed},
        {"kind": "command", "argv": ["a"], "exit_status": 0, "pid": 7},
    ]
    row = {"pid": 7, "ended_ns": float("nan") if ended_ms is None else ended_ms * 1e6}
    tables = documents.tables([], processes=documents.rows("processes", [row, {"pid": 8, "ended_ns": 9e12}]))
    assert build(documents.recording(facts=facts), tables, [])["command"]["duration_ms"] == lasted_ms


def test_a_clock_that_was_set_is_told():
    moved = {"kind": "clock", "monotonic_ns": 6_000_000_000, "realtime_ns": documents.START_NS + 1_250_000_000}
    document = build(documents.recording(facts=[moved]), documents.tables([]), [])
    assert document["coverage"]["clock_moved_ms"] == 250.0
    assert build(documents.recording(facts=[]), documents.tables([]), [])["coverage"]["clock_moved_ms"] is None


def test_the_same_recording_gives_the_same_document():
    assert documents.document() == documents.document()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.fuzz
@given(
    st.dictionaries(st.sampled_from(["version", "started", "host", "target", "command", "tier"]), json_values),
    st.lists(
        st.fixed_dictionaries(
            {"kind": st.sampled_from(["clock", "coverage", "cost", "command", "process", "loss", "x"])},
            optional=dict.fromkeys(
                ("probes", "tls_libraries", "unobservable", "kernel_ms", "argv", "exit_status", "realtime_ns", "tier"),
                json_values,
            ),
        ),
        max_size=5,
    ),
)
def test_whatever_the_json_of_a_recording_says_the_document_can_be_written(header, facts):
    clock = {"monotonic_ns": 1, "realtime_ns": 2}
    recording = documents.recording(header={**header, "clock": clock}, facts=facts, end={"exit_reason": None})
    document = build(recording, documents.tables([documents.connection(1)]), [])
    for name in ("table", "json", "markdown", "html"):
        assert render(name, document, Options())


def test_facts_of_odd_shape_do_no_harm():
    facts = [{"kind": "coverage", "probes": "none", "unobservable": [3, {"what": "x"}]}, {"kind": "clock"}]
    coverage = build(documents.recording(facts=facts), documents.tables([]), [])["coverage"]
    assert coverage["probes"] == []
    assert coverage["unobservable"] == [{"pid": None, "what": "x", "why": None}]


def names_in(schema: object) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(names_in, schema))
    if not isinstance(schema, dict):
        return set()
    own = set(schema["properties"]) if isinstance(schema.get("properties"), dict) else set()
    return own.union(*map(names_in, schema.values()))


def test_the_page_about_the_schema_names_every_member(root):
    schema = json.loads((root / "reports/schemas/netdiag.trace-1.json").read_text())
    page = (root / "docs/schemas.md").read_text()
    assert sorted(name for name in names_in(schema) if f"`{name}" not in page) == []


def test_a_share_that_is_no_number_is_unknown():
    assert _cost({"kernel_ms": 1.7e305}, 0.001)["per_mille_of_target"] is None
    assert _cost({"kernel_ms": 10.0}, 5000.0)["per_mille_of_target"] == 2.0
