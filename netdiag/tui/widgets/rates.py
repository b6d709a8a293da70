# SPDX-License-Identifier: Apache-2.0
"""Sparklines with their figures: how busy it is, how slow, how broken."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from netdiag.text import fit
from netdiag.tui import look
from netdiag.tui.model import Rate
from netdiag.tui.widgets.glyphs import glyphs_of
from netdiag.units import format_ms

__all__ = ["Rates"]

_STYLES = {"requests": "green", "connections": "yellow", "wait p95": "cyan", "errors": "red"}
_WIDE = 120


class Rates(Widget):
    """Two sparklines a line; four where there is room."""

    def __init__(self) -> None:
        super().__init__(id="rates")
        self._rates: tuple[Rate, ...] = ()
        self._whole = False

    def tell(self, rates: tuple[Rate, ...], *, whole: bool) -> None:
        """Show other figures; `whole`: from the first to the last moment, else the newest."""
        self._rates, self._whole = rates, whole
        self.styles.height = 1 if self.size.width >= _WIDE else 2
        self.refresh()

    def render(self) -> Text:
        """Return the lines."""
        a_line = 4 if self.size.width >= _WIDE else 2
        width = (self.size.width - 2 * (a_line - 1)) // a_line
        text = Text(no_wrap=True, end="")
        for at, rate in enumerate(self._rates):
            if at:
                text.append("\n" if at % a_line == 0 else "  ")
            value = format_ms(rate.now) if rate.unit == "ms" else f"{look.rate(rate.now)}{rate.unit}"
            text.append(fit(rate.name, 12), "dim")
            text.append(fit(value, 9, right=True), "bold")
            history = look.folded(rate.history, width - 22) if self._whole else rate.history
            drawn = look.spark(history, width - 22, glyphs_of(self))
            text.append(" " + drawn, _STYLES.get(rate.name, ""))
        return text
