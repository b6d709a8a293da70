# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from netdiag.render import Options
from netdiag.render.route_markdown import render
from netdiag.route import document
from netdiag.route.data import Tables
from netdiag.route.knowledge import Knowledge
from netdiag.route.survey import Inputs, examine
from tests.fakes.routes import boomerang, measured


def test_a_ticket_holds_what_a_peer_needs():
    knowledge = Tables().knowledge(boomerang())
    text = render(document.build(examine(boomerang(), knowledge, Inputs(baseline_ms=12.0))), Options())
    for part in ("# Route to api.example.com: detour suspected", "UTC", "203.0.113.10:443", "served from FRA",
                 "## Evidence", "## What would refute it", "one flow", "| 4 | (no answer)", "RouteViews"):  # fmt: skip
        assert part in text


def test_cells_cannot_be_broken_out_of():
    named = measured(traces=boomerang().traces, names={"198.18.11.5": "a|b`c<d.example"})
    text = render(document.build(examine(named, Knowledge())), Options())
    assert "a\\|b\\`c\\<d.example" in text


def test_unknown_parts_are_left_out():
    text = render(document.build(examine(measured(), Knowledge())), Options())
    assert "## Evidence" not in text
    assert "## What is not known" in text
