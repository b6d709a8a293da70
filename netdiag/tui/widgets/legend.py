# SPDX-License-Identifier: Apache-2.0
"""What the colours of the waterfall mean, in one line."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from netdiag.text import cells
from netdiag.tui import look
from netdiag.tui.bars import BLAME_STYLES
from netdiag.tui.widgets.glyphs import glyphs_of

__all__ = ["Legend"]


class Legend(Widget):
    """One line; what has no room is left out."""

    def __init__(self) -> None:
        super().__init__(id="legend")

    def render(self) -> Text:
        """Return the line."""
        glyphs, left = glyphs_of(self), self.size.width
        text = Text(no_wrap=True, end="")
        parts = [
            (look.PART_LETTERS[part] if glyphs.plain else "■", style, look.PART_NAMES[part])
            for part, style in look.PART_STYLES.items()
            if part not in {"queue", "unattributed"}
        ]
        stalls = [
            (blame[0] if glyphs.plain else glyphs.stall, style, f"{blame} stall")
            for blame, style in BLAME_STYLES.items()
        ]
        for sign, style, word in [*parts, *stalls]:
            if cells(word) + 3 > left:
                continue
            text.append(sign, style)
            text.append(f" {word} ", "dim")
            left -= cells(word) + 3
        return text
