# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

from netdiag.document import SCHEMA
from tests.fakes.commands import call


def test_the_schema_is_printed_as_it_ships(capsys, root):
    called = call(capsys, "schema")
    assert called.out == (root / "reports/schemas/netdiag.trace-1.json").read_text()
    assert json.loads(called.out)["title"] == SCHEMA


def test_an_unknown_name(capsys):
    called = call(capsys, "schema", "netdiag.trace/9")
    assert called.status == 2
    assert SCHEMA in called.err
