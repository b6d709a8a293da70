# SPDX-License-Identifier: Apache-2.0
"""The first screen: findings on top, rates, where the time went, and a line for each process and host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from netdiag.findings import Finding
from netdiag.render.layout import wrap
from netdiag.text import cells, safe
from netdiag.tui import look
from netdiag.tui.messages import Chosen
from netdiag.tui.model import Row, Snapshot, State, key
from netdiag.tui.screens.page import Page
from netdiag.tui.widgets.rates import Rates
from netdiag.tui.widgets.table import Cell, Column, Line, Table
from netdiag.tui.widgets.timebar import TimeBar
from netdiag.units import format_ms

__all__ = ["Overview"]

COLUMNS = (
    Column(title="process", width=18, grow=1, least=16),
    Column(title="host", width=26, grow=2, least=17),
    Column(title="reqs", width=7, right=True, least=6),
    Column(title="req/s", width=6, right=True, rank=5, least=5),
    Column(title="conns", width=7, right=True, least=6),
    Column(title="conn/s", width=6, right=True, rank=8),
    Column(title="reuse", width=6, right=True, rank=1, least=5),
    Column(title="resum", width=6, right=True, rank=6, least=5),
    Column(title="wait p50", width=8, right=True),
    Column(title="p95", width=7, right=True, rank=2),
    Column(title="p99", width=7, right=True, rank=7),
    Column(title="token p50", width=9, right=True, rank=4),
    Column(title="p95", width=7, right=True, rank=9),
    Column(title="p99", width=7, right=True, rank=10),
    Column(title="errors", width=6, right=True, rank=3),
    Column(title="retries", width=7, right=True, rank=7),
)
_MOST_LINES = 6
"""Of findings; more are scrolled."""
_INDENT = 9
"""Where titles begin, behind the severity."""


class Overview(Page):
    """Where everybody starts."""

    KEYS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("enter", "open"),
        ("tab", "other list"),
        ("w", "waterfall"),
        ("r", "routes"),
    )
    SORTS: ClassVar[tuple[str, ...]] = ("time", "requests", "wait p95", "errors", "name")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "waterfall", "Waterfall"),
        Binding("r", "routes", "Routes"),
        Binding("m", "weights", "Model weights"),
    ]

    def content(self) -> ComposeResult:
        """Lay out the parts."""
        yield Table((Column(title="", width=20, grow=1),), head=False, empty="looking…", id="findings")
        yield Rates()
        yield TimeBar()
        yield Table(COLUMNS, empty="no connection was seen", id="hosts")

    def show(self, snapshot: Snapshot) -> None:
        """Draw the snapshot."""
        findings = self.query_one("#findings", Table)
        findings.empty = _nothing(snapshot)
        lines = [line for one in snapshot.findings for line in _lines(one, snapshot, self.size.width)]
        findings.fill(lines)
        findings.styles.height = max(1, min(_MOST_LINES, len(lines)))
        self.query_one(Rates).tell(snapshot.rates, whole=snapshot.state in {State.FINISHED, State.TRUNCATED})
        self.query_one(TimeBar).tell(snapshot.total)
        rows = [row for row in snapshot.rows if self.shell.filter.row(row)]
        rows.sort(key=_ORDERS[self.SORTS[self.sort]])
        hosts = self.query_one("#hosts", Table)
        hosts.empty = "no line fits the filter" if self.shell.filter else "no connection was seen"
        hosts.fill([Line(key=(row.pid, row.host), cells=_cells(row)) for row in rows])

    def note(self) -> str:
        """Add what the figures are of."""
        snapshot = self.shell.snapshot
        parts = [super().note()]
        if snapshot.requests > len(snapshot.calls):
            parts.append(f"figures of the newest {len(snapshot.calls):,} of {snapshot.requests:,} requests")
        exam = snapshot.examination
        if exam is not None and exam.since_ms is not None:
            last = format_ms(max(snapshot.length_s * 1e3 - exam.since_ms, 0.0))
            parts.append(f"findings of the last {last}; report judges more, analyze all")
        elif exam is not None and exam.covered < exam.total:
            parts.append(f"findings of the newest {exam.covered:,} of {exam.total:,} connections; analyze judges all")
        return " · ".join(filter(None, parts))

    def on_chosen(self, event: Chosen) -> None:
        """Open what was chosen."""
        if event.source == "findings":
            self.app.open_finding(event.key)  # type: ignore[attr-defined]
        else:
            self.app.open_waterfall(event.key)  # type: ignore[attr-defined]

    def action_routes(self) -> None:
        """Show the ways to the hosts."""
        self.app.open_routes()  # type: ignore[attr-defined]

    def action_weights(self) -> None:
        """Show the load of model weights."""
        self.app.open_weights()  # type: ignore[attr-defined]

    def action_waterfall(self) -> None:
        """Show all requests."""
        self.app.open_waterfall(None)  # type: ignore[attr-defined]


def _nothing(snapshot: Snapshot) -> str:
    if snapshot.examination is None:
        return "looking for causes…"
    if not snapshot.rows:
        return "No connection was seen so far." if snapshot.state is State.LIVE else "No connection was seen."
    return "OK  Nothing to change was found" + (" so far." if snapshot.state is State.LIVE else ".")


def _lines(finding: Finding, snapshot: Snapshot, width: int) -> list[Line]:
    """Return the finding as one line, or more where its title is long: no word is cut."""
    mark = "● " if key(finding) in snapshot.fresh else ""
    room = max(20, width - _INDENT - len(mark) - 1)
    title, code = safe(finding.title), f" · {safe(finding.code)}"
    parts = list(wrap(title, room)) or [""]
    tail = code if cells(parts[-1]) + cells(code) <= room else ""
    found = []
    for place, part in enumerate(parts):
        head = f"{finding.severity.upper():{_INDENT}}" if place == 0 else " " * _INDENT
        runs = (
            (mark if place == 0 else " " * len(mark), "bold green"),
            (head, look.SEVERITY_STYLES[finding.severity]),
            (part, ""),
            (tail if place == len(parts) - 1 else "", "dim"),
        )
        found.append(Line(key=key(finding), cells=(runs,)))
    return found


def _cells(row: Row) -> tuple[Cell, ...]:
    figures = row.figures
    program = safe(row.program or "–")
    name = f"{row.pid} {program}" if row.pid is not None else program
    wait, token = figures.wait_ms, figures.first_token_ms
    return (
        name,
        safe(row.host or "–"),
        look.count(figures.requests),
        look.rate(figures.requests_s),
        _failing(look.count(figures.connections), figures.failed_connections),
        look.rate(figures.connections_s),
        look.share(figures.reuse),
        look.share(figures.resumption),
        *(look.ms(one) for one in wait),
        *(look.ms(one) for one in token),
        _failing(look.count(figures.errors), figures.errors or 0),
        look.count(figures.retries),
    )


def _failing(text: str, bad: int) -> Cell:
    return (text, "bold red") if bad else text


def _down(value: float | None) -> float:
    return 0.0 if value is None else -value


_ORDERS: Mapping[str, Callable[[Row], Any]] = {
    "time": lambda row: (-row.figures.time_ms, -row.figures.connections),
    "requests": lambda row: _down(row.figures.requests),
    "wait p95": lambda row: _down(row.figures.wait_ms[1]),
    "errors": lambda row: _down(row.figures.errors),
    "name": lambda row: (row.program or "", row.host or ""),
}
