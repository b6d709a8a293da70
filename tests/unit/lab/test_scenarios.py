# SPDX-License-Identifier: Apache-2.0
"""Scenarios as data."""

from __future__ import annotations

import pytest

from netdiag.errors import UsageError
from netdiag.lab.scenarios import KINDS, Scenario, load_all, shipped

TEXT = """
title = "a limit"
about = ["reuse.server-max-requests"]

[numbers]
library = { choose = ["stdlib", "httpx"] }
k = { draw = [2, 7] }
idle_s = { draw = [0.5, 1.5] }
twice = "= 2 * k"

[server]
max_requests = "= k"
reload_at_s = ["= idle_s / 2"]

[client]
library = "= library"
calls = "= max(twice, 3) + 1"

[expect]
codes = ["reuse.server-max-requests"]
values = [{ code = "reuse.server-max-requests", is = "= k", within = 0.1 }]
"""


def scenario(tmp_path, text=TEXT):
    path = tmp_path / "limit.toml"
    path.write_text(text)
    return Scenario.read(path)


def test_numbers_are_drawn_within_their_bounds_and_used_everywhere(tmp_path):
    for seed in range(50):
        drawn = scenario(tmp_path).draw(seed)
        k, idle = drawn.numbers["k"], drawn.numbers["idle_s"]
        assert isinstance(k, int)
        assert isinstance(idle, float)
        assert 2 <= k <= 7
        assert 0.5 <= idle <= 1.5
        assert drawn.server == {"max_requests": k, "reload_at_s": [idle / 2]}
        assert drawn.client["calls"] == max(2 * k, 3) + 1
        assert drawn.expect.values[0]["is"] == k


def test_a_seed_repeats_a_run_and_another_one_changes_it(tmp_path):
    draws = [scenario(tmp_path).draw(seed).label for seed in (1, 1, 2, 3, 4)]
    assert draws[0] == draws[1]
    assert len(set(draws)) > 2
    assert "seed 1" in draws[0]


def test_a_choice_keeps_to_what_is_at_hand(tmp_path):
    assert {scenario(tmp_path).draw(seed, libraries=["stdlib"]).client["library"] for seed in range(9)} == {"stdlib"}
    with pytest.raises(UsageError, match="none of stdlib, httpx"):
        scenario(tmp_path).draw(1, libraries=["node"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('about = ["reuse.server-max-requests"]', "abuot = 1"),
        ('title = "a limit"', ""),
        ('title = "a limit"', 'title = "a limit"\nkind = "wrong"'),
    ],
)
def test_a_bad_file_is_refused(tmp_path, old, new):
    with pytest.raises(UsageError, match=r"limit\.toml"):
        scenario(tmp_path, TEXT.replace(old, new, 1))


@pytest.mark.parametrize("formula", ["= unknown", "= __import__('os')", "= k.real", "= [k]"])
def test_a_formula_is_arithmetic_and_nothing_else(tmp_path, formula):
    with pytest.raises(UsageError, match="formula"):
        scenario(tmp_path, TEXT.replace("= 2 * k", formula)).draw(1)


def test_an_unknown_expectation_is_refused(tmp_path):
    with pytest.raises(UsageError, match="cods"):
        scenario(tmp_path, TEXT.replace("codes", "cods")).draw(1)


def test_every_scenario_can_be_read_and_drawn(root):
    both = load_all([root / "netdiag" / "lab" / "scenarios", root / "tests" / "scenarios"])
    assert len(both) > len(shipped()) > 20
    for entry in both.values():
        situation = entry.draw(7)
        assert entry.kind in KINDS
        assert entry.about
        assert situation.client["library"]
        assert situation.expect.quiet or situation.expect.codes or situation.expect.either


def test_every_shown_code_has_a_quiet_neighbour_or_is_a_break(root):
    """A code that any program can meet by chance needs a near miss or a healthy twin that stays silent."""
    both = load_all([root / "netdiag" / "lab" / "scenarios", root / "tests" / "scenarios"])
    shown = {code for entry in both.values() if entry.kind == "positive" for code in entry.about}
    silent = {code for entry in both.values() if entry.kind != "positive" for code in entry.about}
    assert sorted(shown - silent) == []
