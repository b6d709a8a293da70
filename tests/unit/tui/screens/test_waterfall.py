# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tests.fakes import dashboards, goldens

KEYS = ("w",)


@pytest.mark.golden
@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
def test_the_picture_is_the_one_that_was_looked_at(size, update_goldens):
    goldens.compare(f"live/waterfall-{size[0]}x{size[1]}.svg", dashboards.picture(KEYS, size), update=update_goldens)


def test_zoom_and_pan_move_what_is_seen():
    whole = dashboards.press("w", "z", "z", size=(120, 20))
    near = dashboards.press("w", "z", "z", "home", "plus", "plus", size=(120, 20))
    later = dashboards.press("w", "z", "z", "home", "plus", "plus", "right", size=(120, 20))
    assert "scale: the whole trace" in whole
    assert "zoom 4×" in near
    assert len({text.splitlines()[2] for text in (whole, near, later)}) == 3


def test_each_from_its_own_start_compares_lengths():
    rows = dashboards.press("w", "z", size=(120, 20)).splitlines()[3:6]
    starts = [min((at for at, sign in enumerate(row) if sign in "█│▒"), default=-1) for row in rows]
    assert starts[0] == starts[1] == starts[2] > 0
