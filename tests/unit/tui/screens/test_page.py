# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from netdiag.tui.model import State
from tests.fakes import dashboards


@pytest.mark.parametrize("keys", [(), ("w",), ("enter",), ("question_mark",)])
def test_each_page_says_how_the_recording_stands(keys):
    shown = dashboards.snapshot(state=State.TRUNCATED, why="the recorder died", lost=5)
    text = dashboards.press(*keys, shown=shown)
    assert "the recorder died" in text
    assert "BREAKS OFF" in text
    assert "5 events lost" in text
    assert "q quit" in text.splitlines()[-1]
