# SPDX-License-Identifier: Apache-2.0
"""The pauses of a stream: how many of which length, and when they were."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from netdiag.text import cells, fit
from netdiag.tui.bars import BLAME_STYLES
from netdiag.tui.detail import Gap, StreamView
from netdiag.tui.widgets.glyphs import glyphs_of
from netdiag.units import format_count, format_ms

__all__ = ["Histogram", "OverTime"]

_EDGE = 9
_COUNT = 8


class Histogram(Widget):
    """A line for each class of lengths."""

    def __init__(self) -> None:
        super().__init__(id="histogram")
        self._view: StreamView | None = None

    def tell(self, view: StreamView) -> None:
        """Show another stream."""
        self._view = view
        self.styles.height = len(view.histogram) + 1 if view.histogram else 1
        self.refresh(layout=True)

    def render(self) -> Text:
        """Return the lines."""
        text = Text(no_wrap=True, end="")
        if self._view is None or not self._view.histogram:
            text.append("too few chunks to see pauses", "dim")
            return text
        text.append("pauses up to", "bold")
        most = max(count for _, count in self._view.histogram)
        room = max(4, min(60, self.size.width - _EDGE - _COUNT - 2))
        for edge, count in self._view.histogram:
            bar = glyphs_of(self).block * (max(1, round(count / most * room)) if count else 0)
            text.append("\n" + fit(edge, _EDGE, right=True) + fit(format_count(count), _COUNT, right=True) + " ")
            text.append(bar, "blue")
        return text


class OverTime(Widget):
    """A picture of the longest pause in each stretch of the stream; stalls in the colour of who is to blame."""

    def __init__(self) -> None:
        super().__init__(id="overtime")
        self._gaps: tuple[Gap, ...] = ()

    def tell(self, gaps: tuple[Gap, ...]) -> None:
        """Show other pauses."""
        self._gaps = gaps
        self.refresh()

    def render(self) -> Text:
        """Return the lines."""
        text = Text(no_wrap=True, end="")
        if not self._gaps:
            return text
        end = self._gaps[-1].at_ms + self._gaps[-1].gap_ms
        first, longest = self._gaps[0].at_ms, max(gap.gap_ms for gap in self._gaps)
        width, height = max(8, self.size.width - _EDGE - 1), max(2, self.size.height - 2)
        columns: list[tuple[float, str | None]] = [(0.0, None)] * width
        for gap in self._gaps:
            low, high = ((at - first) / max(end - first, 1e-9) * width for at in (gap.at_ms, gap.at_ms + gap.gap_ms))
            for at in range(max(0, int(low)), min(width, max(int(low) + 1, round(high)))):
                if gap.gap_ms >= columns[at][0]:
                    columns[at] = (gap.gap_ms, gap.blame)
        glyphs = glyphs_of(self)
        top = len(glyphs.bars) - 1
        for level in reversed(range(height)):
            mark = format_ms(longest) if level == height - 1 else "0" if level == 0 else ""
            text.append(fit(mark, _EDGE - 1, right=True) + " ", "dim")
            for value, blame in columns:
                full = value / longest * height - level
                sign = " " if full <= 0 else glyphs.bars[min(top, max(0, round(full * top)))]
                text.append(sign, BLAME_STYLES.get(blame or "", "blue" if blame is None else "bright_black"))
            text.append("\n")
        left, right = format_ms(first), format_ms(end)
        text.append(" " * _EDGE + left + " " * max(1, width - cells(left) - cells(right)) + right, "dim")
        return text
