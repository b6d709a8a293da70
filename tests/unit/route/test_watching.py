# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy

from netdiag.route import document
from netdiag.route.knowledge import Knowledge
from netdiag.route.survey import Inputs, examine
from netdiag.route.watching import changes
from tests.fakes.routes import boomerang


def made():
    return document.build(examine(boomerang(), Knowledge(), Inputs(baseline_ms=12.0)))


def test_the_first_look_tells_its_verdict():
    (line,) = changes(None, made())
    assert "suspect: Berlin → New York → Frankfurt" in line


def test_nothing_new_is_silence():
    assert list(changes(made(), made())) == []


def test_what_changed_is_told():
    now = copy.deepcopy(made())
    now["detour"] |= {"verdict": "none", "class": None, "says": "no detour"}
    now["addresses"][0]["pop"] = "AMS"
    now["addresses"][0]["connect_ms"]["median"] = 20.0
    now["pops"][0]["action"] = "demote"
    now["paths"][0] |= {"as_path": [{"asn": 64500}], "regions": ["EU-W"], "reached": False}
    now["addresses"].append({**now["addresses"][0], "ip": "203.0.113.20"})
    text = "\n".join(changes(made(), now))
    for part in ("suspect → none", "AS path", "regions EU-W → NA-E became EU-W", "no longer answers", "served from AMS",
                 "median 88.7 → 20.0 ms", "new address", "prefer → demote"):  # fmt: skip
        assert part in text


def test_an_address_that_went():
    now = copy.deepcopy(made())
    now["addresses"] = []
    assert any("no longer an address" in line for line in changes(made(), now))


def test_noise_is_no_change():
    now = copy.deepcopy(made())
    now["addresses"][0]["connect_ms"]["median"] += 9.0
    assert list(changes(made(), now)) == []
