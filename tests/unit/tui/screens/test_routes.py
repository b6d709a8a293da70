# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from netdiag.tui.screens import routes as screen
from tests.fakes import dashboards, goldens
from tests.fakes.routes import checked


def _press(*keys: str, routes: dict[str, Any] | None = None, **more: Any) -> str:
    known = {"api.example.com": checked()} if routes is None else routes
    return dashboards.press(
        "r", *keys, routes=lambda hosts: {name: known[name] for name in hosts if name in known}, **more
    )


@pytest.mark.golden
@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
def test_the_picture_is_the_one_that_was_looked_at(size, update_goldens):
    drawn = dashboards.picture(("r",), size, routes=lambda _: {"api.example.com": checked()})
    goldens.compare(f"live/routes-{size[0]}x{size[1]}.svg", drawn, update=update_goldens)


def test_the_way_with_its_places():
    text = _press(size=(160, 50))
    assert "detour suspected" in text
    assert "Berlin → New York → Frankfurt" in text
    assert "silent, not loss" in text
    assert "New York NA-E" in text


def test_a_host_that_was_not_checked_says_how_it_would_be():
    text = _press("down", "enter")
    assert "netdiag route-check 192.0.2.1" in text
    assert "New York" not in text.split("not known")[1]


def test_without_any_check():
    text = _press(routes={})
    assert text.count("not checked") == 3
    assert "netdiag route-check" in text


def test_names_from_outside_are_made_safe():
    document = checked()
    hop = document["paths"][0]["hops"][1]["responders"][0]
    hop["place"] = {**hop["place"], "city": dashboards.HOSTILE, "notes": [dashboards.HOSTILE]}
    hop["ixp"] = dashboards.HOSTILE
    text = _press(routes={"api.example.com": document}, size=(160, 50))
    assert "\x1b" not in text
    assert "\u202e" not in text


@pytest.mark.parametrize(
    ("host", "bare"),
    [("a.example:443", "a.example"), ("[2001:db8::1]:443", "2001:db8::1"), ("2001:db8::1", "2001:db8::1"), ("a", "a")],
)
def test_hosts_without_ports(host, bare):
    assert screen._bare(host) == bare
