# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tests.fakes import dashboards, goldens

KEYS = ()


@pytest.mark.golden
@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
def test_the_picture_is_the_one_that_was_looked_at(size, update_goldens):
    goldens.compare(f"live/overview-{size[0]}x{size[1]}.svg", dashboards.picture(KEYS, size), update=update_goldens)


def test_findings_of_a_stretch_of_time_say_so():
    shown = dashboards.snapshot(dashboards.examination(since_ms=1500.0))
    assert "findings of the last 500 ms" in dashboards.press(shown=shown, size=(160, 50))
