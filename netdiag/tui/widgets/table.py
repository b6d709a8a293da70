# SPDX-License-Identifier: Apache-2.0
"""A table that draws only the lines that are seen: as quick with 100,000 rows as with ten."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from netdiag.text import cells, fit, safe
from netdiag.tui.messages import Chosen

__all__ = ["Cell", "Column", "Line", "Table"]

Cell = str | tuple[str, str] | tuple[tuple[str, str], ...]
"""Text; or text with its style; or runs of them. All of it safe to print."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """How a column is laid out."""

    title: str
    width: int
    right: bool = False
    grow: int = 0
    """Share of the room that is left over."""
    rank: int = 0
    """Where there is too little room the highest ranks are left out first; 0 never is."""
    art: bool = False
    """Its colours mean something: the cursor does not cover them."""
    least: int = 0
    """A growing column may shrink so far before others are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One row: its cells in the order of the columns, and what it stands for."""

    key: Any
    cells: tuple[Cell, ...]


Lines = Sequence[Line]


class Table(ScrollView, can_focus=True):
    """Keeps the cursor on the same key when its rows change."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"table--head", "table--cursor", "table--cursor-blurred"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home,g", "edge(0)", "First", show=False),
        Binding("end,G", "edge(-1)", "Last", show=False),
        Binding("enter", "choose", "Open", show=True),
    ]
    cursor: reactive[int] = reactive(0)

    def __init__(self, columns: Sequence[Column], *, empty: str = "nothing yet", head: bool = True, id: str) -> None:  # noqa: A002
        """`empty` is shown where there are no rows."""
        super().__init__(id=id)
        self.columns = tuple(columns)
        self.empty = empty
        self.head = head
        self.lines: Lines = ()
        self.title_of: Callable[[int], str] = self._title
        """Says what stands above a column."""
        self._widths: tuple[int, ...] = ()

    def fill(self, lines: Lines, columns: Sequence[Column] | None = None) -> None:
        """Show other rows; the cursor stays with its key where that is still there."""
        kept = self.chosen
        if columns is not None and tuple(columns) != self.columns:
            self.columns, self._widths = tuple(columns), ()
        self.lines = lines
        place = self.cursor if kept is not None and _key(lines, self.cursor) == kept else None
        place = _place(lines, kept) if place is None and kept is not None else place
        self.virtual_size = Size(0, len(lines) + self.head)
        self.cursor = min(self.cursor, max(len(lines) - 1, 0)) if place is None else place
        self.refresh()

    @property
    def chosen(self) -> Any:
        """Return the key under the cursor; None without rows."""
        return _key(self.lines, self.cursor)

    def on_resize(self) -> None:
        """Lay the columns out anew."""
        self._widths = ()
        self.refresh()

    def validate_cursor(self, at: int) -> int:
        """Keep it on a row."""
        return max(0, min(at, len(self.lines) - 1))

    def watch_cursor(self) -> None:
        """Keep it in sight."""
        self.scroll_to_region(Region(0, self.cursor, 1, 1 + self.head), animate=False, force=True)
        self.refresh()

    def action_move(self, by: int) -> None:
        """Go up or down to the next row; several lines may be one."""
        at, kept = self.cursor + by, self.chosen
        while 0 < at < len(self.lines) - 1 and _key(self.lines, at) == kept:
            at += by
        if 0 <= at < len(self.lines) and _key(self.lines, at) != kept:
            first = _place(self.lines, _key(self.lines, at))
            self.cursor = at if first is None else first

    def action_page(self, by: int) -> None:
        """Go up or down by what is seen."""
        self.cursor += by * max(1, self.size.height - self.head)

    def action_edge(self, at: int) -> None:
        """Go to the first or last row."""
        self.cursor = 0 if at == 0 else len(self.lines) - 1

    def action_choose(self) -> None:
        """Tell which row was chosen."""
        if self.chosen is not None:
            self.post_message(Chosen(key=self.chosen, source=self.id or ""))

    def on_click(self, event: Click) -> None:
        """Move the cursor there; a second click chooses."""
        at = int(event.y) - self.head + self.scroll_offset.y
        if not 0 <= at < len(self.lines) or event.y < self.head:
            return
        again = at == self.cursor
        self.cursor = at
        if again or event.chain > 1:
            self.action_choose()

    def render_line(self, y: int) -> Strip:
        """Return one line of the screen."""
        width = self.size.width
        base = self.rich_style
        if self.head and y == 0:
            return self._strip(
                [self.title_of(at) for at in range(len(self.columns))],
                base + self.get_component_rich_style("table--head"),
            )
        at = y - self.head + self.scroll_offset.y
        if not self.lines and y == int(self.head):
            return Strip([Segment(fit(self.empty, width), base + Style(dim=True))], width)
        if at >= len(self.lines):
            return Strip.blank(width, base)
        over = Style()
        if at == self.cursor or _key(self.lines, at) == self.chosen:
            over = self.get_component_rich_style("table--cursor" if self.has_focus else "table--cursor-blurred")
        return self._strip(self.lines[at].cells, base, over)

    def width_of(self, at: int) -> int:
        """Return how wide a column is; 0 = there is no room for it."""
        return (self._widths or self._lay_out())[at]

    def _title(self, at: int) -> str:
        return self.columns[at].title

    def plain_rows(self) -> list[list[str]]:
        """Return titles and cells as text, for files."""
        return [[one.title for one in self.columns], *([_text(cell) for cell in line.cells] for line in self.lines)]

    def _strip(self, row: Sequence[Cell], base: Style, over: Style | None = None) -> Strip:
        widths = self._widths or self._lay_out()
        segments: list[Segment] = []
        over = over or Style()
        for column, cell, width in zip(self.columns, row, widths, strict=False):
            if width <= 0:
                continue
            if segments:
                segments.append(Segment(" ", base + over))
            segments += _drawn(cell, width, base, Style() if column.art else over, right=column.right)
        used = sum(cells(one.text) for one in segments)
        if used < self.size.width:
            segments.append(Segment(" " * (self.size.width - used), base + over))
        return Strip(segments).crop(0, self.size.width)

    def _lay_out(self) -> tuple[int, ...]:
        """Return the width of each column; 0 = left out."""
        room = self.size.width
        shown = list(self.columns)
        while sum(one.least or one.width for one in shown) + len(shown) - 1 > room:
            worst = max(shown, key=lambda one: one.rank)
            if worst.rank == 0:
                break
            shown.remove(worst)
        widths = {id(one): one.least or one.width for one in shown}
        left = room - sum(widths.values()) - (len(shown) - 1)
        for one in shown:  # first give back what was saved, then share the rest
            more = max(0, min(left, one.width - widths[id(one)]))
            widths[id(one)] += more
            left -= more
        growing = [one for one in shown if one.grow]
        total = sum(one.grow for one in growing)
        for place, one in enumerate(growing):
            more = left if place == len(growing) - 1 else max(0, left * one.grow // total)
            widths[id(one)] += max(0, more)
            left, total = left - more, total - one.grow
        self._widths = tuple(widths.get(id(one), 0) for one in self.columns)
        return self._widths


def _key(lines: Lines, at: int) -> Any:
    """Return what a line stands for, without drawing it; None where there is no such line."""
    if not 0 <= at < len(lines):
        return None
    asked = getattr(lines, "key_at", None)
    return lines[at].key if asked is None else asked(at)


def _place(lines: Lines, key: Any) -> int | None:
    """Return where the key is; lines that are made when they are drawn know it themselves."""
    asked = getattr(lines, "place_of", None)
    if asked is not None:
        return asked(key)  # type: ignore[no-any-return]
    return next((at for at, line in enumerate(lines) if line.key == key), None)


def _text(cell: Cell) -> str:
    return "".join(run[0] for run in _runs(cell))


def _runs(cell: Cell) -> tuple[tuple[str, str], ...]:
    """Return text and style of each run, safe to print whoever made it."""
    if isinstance(cell, str):
        return ((_safe(cell), ""),)
    runs = (cell,) if cell and isinstance(cell[0], str) else cell
    return tuple((_safe(text), style) for text, style in runs)


def _safe(text: str) -> str:
    return text if text.isprintable() else safe(text)


def _drawn(cell: Cell, width: int, base: Style, over: Style, *, right: bool) -> list[Segment]:
    runs = _runs(cell)
    if len(runs) == 1:
        text, style = runs[0]
        return [Segment(fit(text, width, right=right), base + Style.parse(style) + over)]
    drawn, left = [], width
    for text, style in runs:
        if left <= 0:
            break
        piece = fit(text, min(left, cells(text)))
        drawn.append(Segment(piece, base + Style.parse(style) + over))
        left -= cells(piece)
    if left > 0:
        drawn.append(Segment(" " * left, base + over))
    return drawn
