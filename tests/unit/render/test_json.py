# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

from netdiag.render import Options, render
from tests.fakes import documents


def test_it_is_the_document():
    document = documents.document()
    assert json.loads(render("json", document, Options())) == document


def test_an_event_has_a_line_of_its_own():
    lines = render("json", documents.document(), Options()).splitlines()
    events = [json.loads(line.rstrip(",")) for line in lines if line.startswith("  ")]
    assert sum("cookie" in event for event in events) == 5


def test_schema_comes_first():
    assert render("json", documents.document(), Options()).splitlines()[1] == '"schema": "netdiag.trace/1",'
