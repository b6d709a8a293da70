# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

from netdiag.render.activity import MAX_PIECES, activity
from tests.fakes import documents


def test_a_turn_has_three_phases_in_milliseconds():
    found = activity(documents.per_call_tables(1))
    assert found == {"c1": (("send", 5.0, 5.2), ("wait", 5.2, 45.2), ("receive", 45.2, 46.0))}


def test_phases_that_are_not_known_are_left_out():
    turn = {"connection": 0, "began_ns": 1e6, "sent_ns": 2e6, "first_byte_ns": math.nan, "last_byte_ns": math.nan}
    tables = documents.tables([documents.connection(1)], turns=documents.rows("turns", [{**turn, "answered": False}]))
    assert activity(tables) == {"c1": (("send", 1.0, 2.0),)}


def test_it_is_bounded():
    turn = {
        "connection": 0,
        "began_ns": 1e6,
        "sent_ns": 2e6,
        "first_byte_ns": 3e6,
        "last_byte_ns": 4e6,
        "answered": True,
    }
    tables = documents.tables([documents.connection(1)], turns=documents.rows("turns", [turn] * 9000))
    assert len(activity(tables)["c1"]) <= MAX_PIECES


def test_what_is_too_much_to_draw_is_drawn_together_and_never_left_out():
    turns = [
        {"connection": row, "began_ns": at * 1e6, "sent_ns": at * 1e6, "first_byte_ns": (at + 1) * 1e6,
         "last_byte_ns": (at + 2) * 1e6, "answered": True}
        for row, times in enumerate([[*range(1000), *range(2000, 2900)], range(500, 3000), [5.0]])
        for at in times
    ]  # fmt: skip
    tables = documents.tables(
        [documents.connection(number) for number in (1, 2, 3)], turns=documents.rows("turns", turns)
    )
    found = activity(tables)
    assert found["c1"] == (("busy", 0.0, 1001.0), ("busy", 2000.0, 2901.0))
    assert found["c2"] == (("busy", 500.0, 3001.0),)
    assert [kind for kind, _, _ in found["c3"]] == ["send", "wait", "receive"]
