# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tests.fakes import dashboards


@pytest.mark.parametrize("width", [24, 80, 200])
def test_help_and_quit_are_always_there(width):
    line = dashboards.press(size=(width, 20)).splitlines()[-1]
    assert "? help" in line
    assert "q quit" in line
    assert ("e export" in line) == (width == 200)
