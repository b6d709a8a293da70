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
