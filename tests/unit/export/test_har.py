# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from referencing import Registry, Resource

from netdiag.export import har
from tests.fakes import calls

SCHEMAS = Path(__file__).resolve().parents[3] / ".cache" / "npm" / "node_modules" / "har-schema" / "lib"


def log(source):
    return json.loads("".join(har.lines(source)))["log"]


def test_it_keeps_to_the_schema():
    if not SCHEMAS.is_dir():
        pytest.skip("har-schema is not in .cache/npm: scripts/setup installs it")
    registry: Registry = Registry()
    for file in SCHEMAS.glob("*.json"):
        content = json.loads(file.read_text())
        for name in (file.name, content.get("$id", file.name)):
            registry = registry.with_resource(name, Resource.from_contents(content, default_specification=_draft6()))
    validator = jsonschema.Draft6Validator(
        {"$ref": "har.json#"}, registry=registry, format_checker=jsonschema.FormatChecker()
    )
    for hostile in (None, calls.HOSTILE):
        content = json.loads("".join(har.lines(calls.source(hostile=hostile))))
        assert not list(validator.iter_errors(content))
    content["log"]["entries"][0]["request"].pop("method")
    assert list(validator.iter_errors(content))


def _draft6():
    from referencing.jsonschema import DRAFT6

    return DRAFT6


def test_parts_add_up_and_the_truth_stands_beside_them():
    entries = log(calls.source())["entries"]
    for entry in entries:
        parts = [value for name, value in entry["timings"].items() if name != "ssl" and value > 0]
        assert entry["time"] == pytest.approx(sum(parts))
        assert entry["time"] == pytest.approx(entry["_total_ms"])
    streamed = entries[5]
    assert streamed["request"]["method"] == "POST"
    assert streamed["request"]["url"] == "https://api.example.com/v1/chat/completions"
    assert streamed["request"]["httpVersion"] == "HTTP/2"
    assert streamed["response"]["content"]["mimeType"] == "text/event-stream"
    assert streamed["timings"]["wait"] == 210.123456
    assert streamed["serverIPAddress"] == "2001:db8::7"


def test_what_is_not_known_is_said_as_the_format_can():
    entry = log(calls.source())["entries"][0]
    assert entry["request"]["method"] == "UNKNOWN"
    assert entry["response"]["status"] == 0
    assert entry["timings"]["dns"] == -1
    assert entry["timings"]["ssl"] == 0
    assert entry["request"]["url"] == "http://198.51.100.7:8080/"
    assert entry["_source"] == "sockets"


def test_where_the_format_wants_a_number_the_truth_is_null():
    source = calls.source()
    blank = dict.fromkeys(("started_ns", "send_ms", "wait_ms", "receive_ms", "reader_lag_ms", "total_ms"), np.nan)
    lost = replace(source.tables, requests=source.tables.requests.assign(**blank))
    entry = log(replace(source, tables=lost))["entries"][0]
    assert [entry["timings"][name] for name in ("send", "wait", "receive")] == [0, 0, 0]
    truth = [entry[name] for name in ("_started", "_send_ms", "_wait_ms", "_receive_ms", "_total_ms")]
    assert truth == [None] * 5
