# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.tui import exact
from netdiag.tui.filter import parse
from tests.fakes import dashboards

PROGRAMS = {100: "python3", 200: "node"}


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        ("", [0, 1, 2]),
        ("--host api", [0]),
        ("host=192.0.2.7 status 5", [1]),
        ("pid 200", [1, 2]),
        ("port 443", [0]),
        ("port 8000", [1, 2]),
        ("exe node", [1, 2]),
        ("comm python", [0]),
        ("status 2xx", [0, 2]),
        ("error", [1]),
        ("!error", [0, 2]),
        ("slow 100", [0]),
        ("chat", [0, 1, 2]),
        ("500", [1]),
        ("!host api !error", [2]),
        ("nothing-like-that", []),
    ],
)
def test_words_narrow_requests(words, rows):
    calls = exact.calls(dashboards.tables())
    assert sorted(calls.take(parse(words).calls(calls, PROGRAMS)).row.tolist()) == rows


@pytest.mark.parametrize(
    ("words", "count"), [("", 3), ("node", 1), ("pid 100", 2), ("port 8080", 1), ("!node", 2), ("error", 3)]
)
def test_words_narrow_processes_and_hosts(words, count):
    kept = [row for row in dashboards.snapshot().rows if parse(words).row(row)]
    assert len(kept) == count


@pytest.mark.parametrize("words", ["pid", "pid x", "slow fast", "port", "host"])
def test_a_wrong_word_is_said(words):
    with pytest.raises(ValueError, match=words.split()[0]):
        parse(words)
