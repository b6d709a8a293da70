# SPDX-License-Identifier: Apache-2.0
"""The ladder of a handshake: client left, server right, an arrow for each flight, and who was waited for."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.geometry import Size
from textual.widget import Widget

from netdiag.text import cells, cut, fit
from netdiag.tui.detail import Step
from netdiag.tui.widgets.glyphs import glyphs_of
from netdiag.units import format_ms

__all__ = ["Ladder"]

_TIME = 9
_WAIT = 30
_LONG_SHARE = 0.25
"""A wait of so much of the whole is what to look at."""


class Ladder(Widget):
    """One line a step."""

    def __init__(self) -> None:
        super().__init__(id="ladder")
        self._steps: Sequence[Step] = ()

    def tell(self, steps: Sequence[Step]) -> None:
        """Show other steps."""
        self._steps = steps
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        """Return a line for each step and one for the head."""
        return len(self._steps) + 1 if self._steps else 1

    def render(self) -> Text:
        """Return the lines."""
        text = Text(no_wrap=True, end="")
        if not self._steps:
            text.append("how it began was not seen", "dim")
            return text
        room = max(20, min(70, self.size.width - _TIME - _WAIT - 2))
        text.append(fit("", _TIME) + fit("client", room // 2) + fit("server", room - room // 2, right=True), "bold")
        text.append("  waited for", "bold")
        whole = max(self._steps[-1].at_ms, 1e-9)
        for step in self._steps:
            text.append("\n" + fit(format_ms(step.at_ms), _TIME - 1, right=True) + " ")
            text.append(self._arrow(step, room), "yellow" if step.side == "client" else "green")
            if step.waited_ms is not None:
                long = step.waited_ms > _LONG_SHARE * whole
                text.append(f"  {format_ms(step.waited_ms):>7} ", "bold red" if long else "dim")
                text.append(step.waited_for, "bold" if long else "dim")
        return text

    def _arrow(self, step: Step, room: int) -> str:
        plain = glyphs_of(self).plain
        dash = "-" if plain else "─"
        label = f" {cut(step.what, room - 6)} "
        left = (room - 2 - cells(label)) // 2
        right = room - 2 - cells(label) - left
        if step.side == "client":
            return f"{dash * (left + 1)}{label}{dash * right}{'>' if plain else '▶'}"
        return f"{'<' if plain else '◀'}{dash * left}{label}{dash * (right + 1)}"
