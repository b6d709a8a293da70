# SPDX-License-Identifier: Apache-2.0
"""One connection: its life, how it began, what it carried, why it ended."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from textual.app import ComposeResult
from textual.containers import VerticalScroll

from netdiag.text import safe
from netdiag.tui.detail import connection
from netdiag.tui.messages import Chosen
from netdiag.tui.model import Snapshot
from netdiag.tui.screens.page import Page
from netdiag.tui.widgets.facts import Facts
from netdiag.tui.widgets.ladder import Ladder
from netdiag.tui.widgets.table import Column, Line, Table
from netdiag.units import UNKNOWN, format_ms

__all__ = ["ConnectionPage"]

_COLUMNS = (
    Column(title="started", width=10, right=True),
    Column(title="request", width=26, grow=1, least=14),
    Column(title="status", width=6, right=True),
    Column(title="send", width=7, right=True, rank=2),
    Column(title="wait", width=7, right=True),
    Column(title="token", width=7, right=True, rank=1),
    Column(title="total", width=7, right=True),
)


class ConnectionPage(Page):
    """Stays with its connection while the trace goes on."""

    KEYS: ClassVar[tuple[tuple[str, str], ...]] = (("enter", "open"), ("esc", "back"))

    def __init__(self, id_: str) -> None:
        """`id_`: of the connection, as findings name it."""
        super().__init__()
        self._id = id_
        self._title = f"connection {id_}"

    def content(self) -> ComposeResult:
        """Lay out the parts."""
        with VerticalScroll(id="story"):
            yield Facts()
            yield Ladder()
        yield Table(_COLUMNS, empty="it carried no request that was seen", id="rows")

    def heading(self) -> str:
        """Say which connection this is."""
        return self._title

    def show(self, snapshot: Snapshot) -> None:
        """Draw the snapshot."""
        exam = snapshot.examination
        rows = exam.tables.connections["id"].to_numpy() if exam is not None else np.zeros(0, object)
        found = np.flatnonzero(rows == self._id)
        view = connection(exam, int(found[0])) if exam is not None and len(found) else None
        if exam is None or view is None:
            self.query_one(Facts).tell((("gone", "this connection is no longer among those that are examined"),))
            return
        self._title = view.title
        facts = list(view.facts)
        if view.retransmits:
            facts.insert(5, ("sent again", ", ".join(f"{at:.3f} s" for at in view.retransmits[:12])))
        self.query_one(Facts).tell(facts)
        self.query_one(Ladder).tell(view.steps)
        calls = exam.calls
        send = calls.parts[:, 5]
        self.query_one("#rows", Table).fill(
            [
                Line(
                    key=int(calls.row[at]),
                    cells=(
                        UNKNOWN if np.isnan(calls.began_ns[at]) else f"{calls.began_ns[at] / 1e9:.3f} s",
                        safe(calls.label[at] or ("stream" if calls.stream[at] else "request")),
                        UNKNOWN if np.isnan(calls.status[at]) else f"{calls.status[at]:.0f}",
                        format_ms(float(send[at])),
                        format_ms(float(calls.wait_ms[at])),
                        format_ms(float(calls.first_token_ms[at])),
                        format_ms(float(calls.total_ms[at])),
                    ),
                )
                for at in view.calls
            ]
        )

    def on_chosen(self, event: Chosen) -> None:
        """Open the stream of a request."""
        self.app.open_stream(event.key)  # type: ignore[attr-defined]
