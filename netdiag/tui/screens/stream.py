# SPDX-License-Identifier: Apache-2.0
"""One streamed answer: when its chunks came, and whose fault the pauses are."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from netdiag.text import safe
from netdiag.tui.bars import BLAME_STYLES
from netdiag.tui.detail import stream
from netdiag.tui.model import Snapshot
from netdiag.tui.screens.page import Page
from netdiag.tui.widgets.facts import Facts
from netdiag.tui.widgets.gaps import Histogram, OverTime
from netdiag.tui.widgets.table import Column, Line, Table
from netdiag.units import format_ms

__all__ = ["StreamPage"]

_COLUMNS = (
    Column(title="stall", width=8, right=True),
    Column(title="at", width=8, right=True),
    Column(title="blame", width=8),
    Column(title="why", width=30, grow=1),
)


class StreamPage(Page):
    """Stays with its request while the trace goes on."""

    KEYS: ClassVar[tuple[tuple[str, str], ...]] = (("c", "connection"), ("esc", "back"))
    BINDINGS: ClassVar[list[BindingType]] = [Binding("c", "connection", "Connection")]

    def __init__(self, id_: str) -> None:
        """`id_`: of the request, as findings name it."""
        super().__init__()
        self._id = id_
        self._title = id_
        self._connection = -1

    def content(self) -> ComposeResult:
        """Lay out the parts."""
        yield Facts()
        yield OverTime()
        yield Histogram()
        yield Table(_COLUMNS, empty="no stall: no pause far above the others", id="rows")

    def heading(self) -> str:
        """Say which stream this is."""
        return self._title

    def show(self, snapshot: Snapshot) -> None:
        """Draw the snapshot."""
        exam = snapshot.examination
        rows = exam.tables.requests["id"].to_numpy() if exam is not None else np.zeros(0, object)
        found = np.flatnonzero(rows == self._id)
        view = stream(exam, int(found[0])) if exam is not None and len(found) else None
        if exam is None or view is None:
            self.query_one(Facts).tell((("no stream", "this request has no streamed answer that was examined"),))
            return
        self._title = view.title
        self._connection = int(exam.tables.requests["connection"].to_numpy()[int(found[0])])
        self.query_one(Facts).tell(view.facts)
        self.query_one(OverTime).tell(view.gaps)
        self.query_one(Histogram).tell(view)
        self.query_one("#rows", Table).fill(
            [
                Line(
                    key=at,
                    cells=(
                        format_ms(gap.gap_ms),
                        format_ms(gap.at_ms),
                        (gap.blame or "", BLAME_STYLES.get(gap.blame or "", "")),
                        safe(gap.why),
                    ),
                )
                for at, gap in enumerate(view.gaps)
                if gap.blame is not None
            ]
        )

    def action_connection(self) -> None:
        """Open the connection that carried it."""
        self.app.open_connection(self._connection)  # type: ignore[attr-defined]
