# SPDX-License-Identifier: Apache-2.0
"""The first line of each screen: what is traced, for how long, and what of it is missing."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from netdiag.text import cells, cut, fit, safe
from netdiag.tui.model import Snapshot, State
from netdiag.units import UNKNOWN, format_count, format_ms

__all__ = ["Head"]

_STATES = {
    State.OPENING: ("opening", "cyan"),
    State.LIVE: ("LIVE", "bold green"),
    State.QUIET: ("QUIET", "bold yellow"),
    State.FINISHED: ("finished", "cyan"),
    State.TRUNCATED: ("BREAKS OFF", "bold yellow"),
}


class Head(Widget):
    """Two lines: the trace, then what is wrong with it or what is filtered."""

    def __init__(self) -> None:
        super().__init__(id="head")
        self._snapshot = Snapshot()
        self._title = ""
        self._note = ""

    def tell(self, snapshot: Snapshot, title: str, note: str) -> None:
        """Show another moment; `note` is what the user did: paused, filtered, sorted."""
        self._snapshot, self._title, self._note = snapshot, title, note
        self.refresh()

    def render(self) -> Text:
        """Return the lines."""
        snapshot, width = self._snapshot, self.size.width
        word, style = _STATES[snapshot.state]
        lost = "losses unknown" if snapshot.lost is None else f"{format_count(snapshot.lost)} events lost"
        length = format_ms(snapshot.length_s * 1e3) if snapshot.length_s else UNKNOWN
        tail = f"{length} · {lost} · "
        room = width - cells(tail) - cells(word)
        title = cut(self._title, max(room - 1, 0))
        what = cut(snapshot.what, max(room - cells(title) - 3, 0))
        text = Text(no_wrap=True, end="")
        text.append(title, "bold")
        text.append(fit(f"  {what}" if what else "", max(room - cells(title), 0)))
        text.append(tail, "bold red" if snapshot.lost else "")
        text.append(word, style)
        text.append("\n")
        second = self._note
        if snapshot.why:
            second = f"{safe(snapshot.why)}{' · ' + second if second else ''}"
        text.append(cut(second, width), "yellow" if snapshot.why else "dim")
        return text
