# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.tui.model import State
from tests.fakes import dashboards


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_the_first_line_has_room_for_the_state(width):
    shown = dashboards.snapshot(what="x" * 300, state=State.LIVE)
    line = dashboards.press(size=(width, 20), shown=shown).splitlines()[0]
    assert len(line) <= width
    assert width < 40 or line.endswith("LIVE")
