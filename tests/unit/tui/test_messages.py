# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from netdiag.tui.messages import Chosen, Taken
from tests.fakes import dashboards


def test_messages_carry_what_they_are_about():
    shown = dashboards.snapshot()
    assert Taken(shown).snapshot is shown
    assert Chosen(key=("c", 1), source="hosts").key == ("c", 1)
