# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

from netdiag.render import Options, render
from tests.fakes import documents


def test_each_line_is_an_object_with_its_kind():
    document = documents.document(ignored=[{"code": "a.b"}])
    lines = [json.loads(line) for line in render("ndjson", document, Options()).splitlines()]
    kinds = [line["kind"] for line in lines]
    assert kinds[0] == "trace"
    assert kinds[-1] == "summary"
    assert kinds.count("connection") == 5
    assert kinds.count("request") == 5
    assert kinds.count("finding") == 2
    assert kinds.count("ignored") == 1


def test_nothing_of_the_document_is_left_out():
    document = documents.document()
    first, *events, last = [json.loads(line) for line in render("ndjson", document, Options()).splitlines()]
    assert {key: document[key] for key in first if key != "kind"} == {k: v for k, v in first.items() if k != "kind"}
    assert {k: v for k, v in last.items() if k != "kind"} == document["summary"]
    assert len(events) == sum(len(document[name]) for name in document if isinstance(document[name], list))
