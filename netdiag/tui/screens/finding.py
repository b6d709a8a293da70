# SPDX-License-Identifier: Apache-2.0
"""One finding: what it is, what proves it, what to change; Enter jumps to the evidence."""

from __future__ import annotations

import io
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from netdiag.findings import Finding
from netdiag.render.layout import Paper
from netdiag.render.table import render_finding
from netdiag.text import safe
from netdiag.tui.messages import Chosen
from netdiag.tui.model import Snapshot, key
from netdiag.tui.screens.page import Page
from netdiag.tui.widgets.table import Column, Line, Table
from netdiag.values import clean

__all__ = ["FindingPage"]

_COLUMNS = (
    Column(title="evidence", width=12),
    Column(title="id", width=6),
    Column(title="what was seen", width=40, grow=1),
)
_JUMPS = ("connection", "request", "handshake")


class FindingPage(Page):
    """The words are those of the report."""

    TITLE_TEXT: ClassVar[str] = "finding"
    KEYS: ClassVar[tuple[tuple[str, str], ...]] = (("enter", "jump to evidence"), ("esc", "back"))

    def __init__(self, which: Any) -> None:
        """`which`: `key` of the finding."""
        super().__init__()
        self._which = which
        self._finding: Finding | None = None

    def content(self) -> ComposeResult:
        """Lay out the parts."""
        with VerticalScroll(id="story"):
            yield Static(id="words")
        yield Table(_COLUMNS, empty="no single observation to jump to", id="rows")

    def show(self, snapshot: Snapshot) -> None:
        """Draw the snapshot; a finding that is no longer there stays as it was last seen."""
        found = next((one for one in snapshot.findings if key(one) == self._which), None)
        self._finding = found or self._finding
        words = self.query_one("#words", Static)
        if self._finding is None:
            words.update("this finding is not there")
            return
        words.update(_words(self._finding, max(40, self.size.width - 2), color=not self.app.no_color))
        named = [one for one in self._finding.evidence if one.id is not None]
        self.query_one("#rows", Table).fill(
            [Line(key=(one.kind, one.id), cells=(safe(one.kind), safe(one.id or ""), safe(one.note))) for one in named]
        )

    def on_chosen(self, event: Chosen) -> None:
        """Open what the line is about."""
        kind, id_ = event.key
        if kind in _JUMPS:
            self.app.open_evidence(kind, id_)  # type: ignore[attr-defined]


def _words(finding: Finding, width: int, *, color: bool) -> Text:
    paper = Paper(width=min(width, 100), color=color)
    render_finding(paper, clean(finding.to_json()), verbose=False)
    out = io.StringIO()
    out.write(paper.text())
    if finding.cost_ms is not None:
        share = (
            "" if finding.share_of_total is None else f", {100 * finding.share_of_total:.0f} % of the requests' time"
        )
        out.write(f"  cost   {finding.cost_ms / 1e3:.2f} s in this trace{share}\n")
    out.write(f"  more   {safe(finding.explain)}\n")
    return Text.from_ansi(out.getvalue())
