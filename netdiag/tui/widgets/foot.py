# SPDX-License-Identifier: Apache-2.0
"""The last line of each screen: the keys that matter here, as many as there is room for."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from netdiag.text import cells

__all__ = ["Foot"]

_EVERYWHERE = (("/", "filter"), ("s", "sort"), ("space", "pause"), ("e", "export"), ("?", "help"), ("q", "quit"))


class Foot(Widget):
    """One line of keys."""

    def __init__(self, keys: tuple[tuple[str, str], ...]) -> None:
        super().__init__(id="foot")
        self._keys = (*keys, *_EVERYWHERE)

    def render(self) -> Text:
        """Return the line; where there is too little room the last keys but help and quit are left out."""
        text, left = Text(no_wrap=True, end=""), self.size.width
        keys = list(self._keys)
        while sum(cells(a) + cells(b) + 3 for a, b in keys) - 2 > left and len(keys) > 2:
            del keys[-3]
        for name, what in keys:
            text.append(name, "bold")
            text.append(f" {what}  ", "dim")
        return text
