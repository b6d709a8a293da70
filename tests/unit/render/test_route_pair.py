# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from netdiag.render import Options
from netdiag.render.route_pair import render
from netdiag.route import document
from netdiag.route.knowledge import Knowledge
from netdiag.route.survey import Inputs, examine
from netdiag.text import cells
from tests.fakes.routes import boomerang, measured


def test_two_checks_beside_each_other():
    one = document.build(examine(boomerang(), Knowledge(), Inputs(baseline_ms=12.0)))
    other = document.build(examine(measured(), Knowledge()))
    lines = render([("a.json", one), ("b\x1b.json", other)], Options()).splitlines()
    assert lines[0].startswith("a.json")
    assert lines[0].endswith("│ b\\x1b.json")
    assert any("DETOUR SUSPECTED" in line and "UNKNOWN" in line for line in lines)
    assert max(cells(line) for line in lines) <= 80
    assert any("(no answer)" in line for line in lines)
