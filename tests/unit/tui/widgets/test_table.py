# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio

import pytest
from textual.app import App, ComposeResult

from netdiag.text import cells
from netdiag.tui.widgets.table import Column, Line, Table

COLUMNS = (
    Column(title="name", width=10, grow=1, least=6),
    Column(title="often", width=6, right=True),
    Column(title="rare", width=8, right=True, rank=1),
)


class One(App[None]):
    def __init__(self, lines):
        super().__init__()
        self._rows = lines

    def compose(self) -> ComposeResult:
        yield Table(COLUMNS, id="t")

    def on_mount(self):
        self.query_one(Table).fill(self._rows)
        self.query_one(Table).focus()


def lines(*keys):
    return [Line(key=key, cells=(str(key), "1", "2")) for key in keys]


def run(rows, then, size=(40, 6)):
    async def go():
        app = One(rows)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            return await then(app.query_one(Table), pilot)

    return asyncio.run(go())


@pytest.mark.parametrize("width", [12, 15, 20, 26, 40])
def test_columns_fill_the_width_and_the_rare_go_first(width):
    async def look(table, _):
        return table._lay_out()

    widths = run(lines("a"), look, size=(width, 6))
    assert widths[1] == 6
    assert (widths[2] > 0) == (width >= 22)
    assert sum(widths) + sum(one > 0 for one in widths) - 1 == max(width, 13)


def test_the_cursor_stays_with_its_key():
    async def look(table, pilot):
        await pilot.press("down")
        table.fill(lines("x", "a", "b", "c"))
        return table.chosen

    assert run(lines("a", "b", "c"), look) == "b"


def test_lines_of_one_key_are_one_step():
    async def look(table, pilot):
        seen = [table.chosen]
        for key in ("down", "down", "down", "up", "up", "up"):
            await pilot.press(key)
            table.fill(lines("a", "a", "b", "b", "c"))
            seen.append(table.chosen)
        return seen

    assert run(lines("a", "a", "b", "b", "c"), look) == ["a", "b", "c", "c", "b", "a", "a"]


def test_the_cursor_is_kept_in_sight_and_rows_may_vanish():
    async def look(table, pilot):
        await pilot.press("end")
        await pilot.pause()
        low = table.scroll_offset.y
        table.fill(lines(1))
        return low, table.cursor, table.chosen

    low, cursor, chosen = run(lines(*range(100)), look)
    assert low > 90
    assert (cursor, chosen) == (0, 1)


@pytest.mark.parametrize("text", ["表" * 30, "e\u0301\u0301\u0301\u0301" * 20, "\x1b[2J\r\n", "\u202eabc"])
def test_any_text_takes_the_cells_it_is_given(text):
    async def look(table, _):
        return table.render_line(1)

    strip = run([Line(key=1, cells=(text, (text, "red"), ((text, ""), (text, "bold"))))], look)
    drawn = "".join(segment.text for segment in strip)
    assert cells(drawn) == 40
    assert not set(drawn) & set("\x1b\r\n\u202e")
