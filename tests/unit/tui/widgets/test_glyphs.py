# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio

from textual.app import App
from textual.widget import Widget

from netdiag.tui.look import FANCY, PLAIN
from netdiag.tui.widgets.glyphs import glyphs_of


def test_the_app_chooses_the_signs():
    async def run(app):
        async with app.run_test():
            widget = Widget()
            await app.mount(widget)
            return glyphs_of(widget)

    plain: App[None] = App()
    plain.glyphs = PLAIN  # type: ignore[attr-defined]
    assert asyncio.run(run(plain)) is PLAIN
    assert asyncio.run(run(App())) is FANCY
