# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio

import pytest

from netdiag.tui.app import Dashboard
from tests.fakes import dashboards, goldens

KEYS = ()


def picture(size: tuple[int, int]) -> str:
    async def run() -> str:
        app = Dashboard(None, snapshot=dashboards.snapshot(), calm=True)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await pilot.press(*KEYS)
            await pilot.pause()
            return app.export_screenshot(title="netdiag live")

    return asyncio.run(run())


@pytest.mark.golden
@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
def test_the_picture_is_the_one_that_was_looked_at(size, update_goldens):
    goldens.compare(f"live/overview-{size[0]}x{size[1]}.svg", picture(size), update=update_goldens)
