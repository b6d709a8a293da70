# SPDX-License-Identifier: Apache-2.0
"""Labels with what they say beside them, wrapped under itself."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.geometry import Size
from textual.widget import Widget

from netdiag.render.layout import wrap
from netdiag.text import fit

__all__ = ["Facts"]

_LABEL = 11


class Facts(Widget):
    """As many lines as the text needs."""

    def __init__(self, id: str = "facts") -> None:  # noqa: A002
        super().__init__(id=id)
        self._facts: Sequence[tuple[str, str]] = ()

    def tell(self, facts: Sequence[tuple[str, str]]) -> None:
        """Show other facts, safe to print; a label that is empty goes on with the one above."""
        self._facts = facts
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        """Return the lines that the text needs."""
        return sum(max(1, len(list(wrap(text, max(width - _LABEL, 10))))) for _, text in self._facts)

    def render(self) -> Text:
        """Return the lines."""
        text = Text(end="")
        first = True
        for label, what in self._facts:
            for row, line in enumerate(list(wrap(what, max(self.size.width - _LABEL, 10))) or [""]):
                text.append("" if first else "\n")
                text.append(fit(label if row == 0 else "", _LABEL), "dim")
                text.append(line)
                first = False
        return text
