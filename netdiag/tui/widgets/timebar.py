# SPDX-License-Identifier: Apache-2.0
"""Where the requests' time went: one bar of parts, and what each part is called, largest first."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from netdiag.text import cells, fit
from netdiag.tui import look
from netdiag.tui.model import Figures
from netdiag.tui.widgets.glyphs import glyphs_of
from netdiag.units import format_ms

__all__ = ["TimeBar"]

_LEAST = 0.005
"""A smaller share gets no name."""


class TimeBar(Widget):
    """Two lines: bar and legend."""

    def __init__(self) -> None:
        super().__init__(id="timebar")
        self._figures: Figures | None = None

    def tell(self, figures: Figures | None) -> None:
        """Show other figures."""
        self._figures = figures
        self.refresh()

    def render(self) -> Text:
        """Return the lines."""
        text = Text(no_wrap=True, end="")
        figures, width = self._figures, self.size.width
        if figures is None or figures.time_ms <= 0:
            return text
        head = f"request time {format_ms(figures.time_ms)} "
        text.append(head, "dim")
        glyphs, room = glyphs_of(self), width - cells(head)
        shares = {part: value / figures.time_ms for part, value in figures.parts.items() if value > 0}
        for part, size in _sizes(shares, room).items():
            sign = look.PART_LETTERS[part] if glyphs.plain else glyphs.block
            text.append(sign * size, look.PART_STYLES[part])
        text.append("\n")
        left = width
        for part, value in sorted(shares.items(), key=lambda one: -one[1]):
            word = f"{look.PART_NAMES[part]} {look.share(value)}"
            if value < _LEAST or cells(word) + 4 > left:
                continue
            text.append(f"{look.PART_LETTERS[part] if glyphs.plain else '■'} ", look.PART_STYLES[part])
            text.append(fit(word, cells(word) + 2))
            left -= cells(word) + 4
        return text


def _sizes(shares: dict[str, float], room: int) -> dict[str, int]:
    """Return cells for each part, in order of time; what is there takes at least one where there is room."""
    ordered = [part for part in look.PART_NAMES if part in shares]
    sizes = {part: max(int(shares[part] * room), 1) if shares[part] >= _LEAST else 0 for part in ordered}
    if not sizes:
        return sizes
    largest = max(sizes, key=lambda one: sizes[one])
    sizes[largest] += room - sum(sizes.values())
    return {part: max(size, 0) for part, size in sizes.items()}
