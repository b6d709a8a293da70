# SPDX-License-Identifier: Apache-2.0
"""The dashboard: takes snapshots from the follower's thread and shows them on the screen that is open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from textual.app import App
from textual.binding import Binding, BindingType

from netdiag.errors import NetdiagError
from netdiag.text import safe
from netdiag.tui import export
from netdiag.tui.detail import row_of
from netdiag.tui.filter import Filter, parse
from netdiag.tui.look import FANCY, LETTERS, PLAIN
from netdiag.tui.messages import Taken
from netdiag.tui.model import Snapshot
from netdiag.tui.screens.connection import ConnectionPage
from netdiag.tui.screens.finding import FindingPage
from netdiag.tui.screens.help import HelpPage
from netdiag.tui.screens.overview import Overview
from netdiag.tui.screens.page import Page
from netdiag.tui.screens.prompt import Prompt
from netdiag.tui.screens.routes import RoutesPage, hosts_of
from netdiag.tui.screens.stream import StreamPage
from netdiag.tui.screens.waterfall import Waterfall
from netdiag.tui.screens.weights import WeightsPage
from netdiag.tui.worker import Follower

__all__ = ["Dashboard"]

_FIRST = 2
"""Screens on the stack while the overview is open: Textual's own and it."""


class Dashboard(App[None]):
    """Shows one recording."""

    CSS_PATH = "app.tcss"
    TITLE = "netdiag live"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "colon"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("space", "pause", "Pause"),
        Binding("s", "sort", "Sort"),
        Binding("escape", "back", "Back"),
        Binding("slash", "filter", "Filter"),
        Binding("e", "export", "Export"),
        Binding("question_mark", "help", "Help"),
    ]

    def __init__(  # noqa: PLR0913 - what a dashboard may be given, each by its name
        self,
        path: Path | None,
        *,
        grows: bool = False,
        alive: Callable[[], bool] | None = None,
        plain: bool = False,
        calm: bool = False,
        slow_ms: float = 500.0,
        snapshot: Snapshot | None = None,
        routes: Callable[[Iterable[str]], Mapping[str, Mapping[str, Any]]] | None = None,
        first: str | None = None,
    ) -> None:
        """`path` None: show `snapshot` alone. `calm`: nothing moves by itself; `plain`: letters only.

        `routes` gives the stored checks of hosts. `first`: the screen to open, `routes` or `weights`.
        """
        super().__init__(ansi_color=True)
        self.snapshot = snapshot or Snapshot()
        self._newest = self.snapshot
        self.filter = Filter()
        self.paused = False
        self.glyphs = PLAIN if plain else LETTERS if self.no_color else FANCY
        if calm or plain:
            self.animation_level = "none"
        self._routes = routes
        self._first = first
        self.fault: NetdiagError | None = None
        """Why nothing could be shown at all."""
        self.follower = None
        if path is not None:
            self.follower = Follower(path, self._post, grows=grows, alive=alive, slow_ms=slow_ms)

    def on_mount(self) -> None:
        """Open the first screen and start to follow."""
        self.push_screen(Overview())
        if self._first is not None:
            getattr(self, f"open_{self._first}")()
        if self.follower is not None:
            self.run_worker(self.follower.run, thread=True, exit_on_error=True, name="follow")

    def on_unmount(self) -> None:
        """Let the follower end."""
        if self.follower is not None:
            self.follower.stop()

    def _post(self, snapshot: Snapshot) -> None:
        """Hand over a snapshot; called in the follower's thread."""
        self.post_message(Taken(snapshot))

    def on_taken(self, event: Taken) -> None:
        """Show it, unless the user holds the screen still."""
        self._newest = event.snapshot
        if not self.paused:
            self.snapshot = event.snapshot
            self.redraw()

    def redraw(self) -> None:
        """Draw the open screen anew."""
        if isinstance(self.screen, Page):
            self.screen.refresh_page()

    def action_pause(self) -> None:
        """Hold the screen still, or go on with the newest moment."""
        self.paused = not self.paused
        if not self.paused:
            self.snapshot = self._newest
        self.redraw()

    def action_sort(self) -> None:
        """Sort by the next column."""
        if isinstance(self.screen, Page):
            self.screen.next_sort()

    async def action_back(self) -> None:
        """Close the screen that is open; on the first one, clear the filter."""
        if len(self.screen_stack) > _FIRST:
            await self.pop_screen()
        elif self.filter:
            self.filter = Filter()
        self.redraw()

    def action_help(self) -> None:
        """Show the keys."""
        if not isinstance(self.screen, HelpPage):
            self.push_screen(HelpPage())

    def action_filter(self) -> None:
        """Ask for words, and show what fits them."""

        def check(text: str) -> str | None:
            try:
                parse(text)
            except ValueError as error:
                return str(error)
            return None

        def take(text: str | None) -> None:
            if text is not None:
                self.filter = parse(text)
            self.redraw()

        self.push_screen(
            Prompt("filter: host api · pid 4711 · port 443 · status 5 · error · slow 500", self.filter.text, check),
            take,
        )

    def action_export(self) -> None:
        """Ask for a format, and write what is on the screen."""
        page = self.screen
        if not isinstance(page, Page):
            return
        check = {"s": None, "c": None, "j": None, "": "s, c or j"}
        label = "export the screen: s = SVG picture, c = CSV, j = JSON (into this folder)"

        def take(text: str | None) -> None:
            if text is not None:
                self._export(page, text.strip())

        self.push_screen(Prompt(label, "", lambda text: check.get(text.strip(), f"not {text!r}: s, c or j")), take)

    def _export(self, page: Page, kind: str) -> None:
        suffix = {"s": "svg", "c": "csv", "j": "json"}[kind]
        stem = f"netdiag-{type(page).__name__.removesuffix('Page').lower()}"
        path = export.free_name(Path.cwd(), stem, suffix)
        try:
            if kind == "s":
                export.write(path, export.self_contained(self.export_screenshot(title="netdiag live")))
            else:
                export.write(path, (export.to_csv if kind == "c" else export.to_json)(page.exported()))
        except OSError as error:
            self.notify(f"{path.name}: {error.strerror}", severity="error")
            return
        self.notify(f"written: {path.name}")

    def open_finding(self, which: Any) -> None:
        """Show one finding."""
        self.push_screen(FindingPage(which))

    def open_waterfall(self, which: Any) -> None:
        """Show the requests of a process and host, or all."""
        self.push_screen(Waterfall(which))

    def open_routes(self) -> None:
        """Show the ways to the hosts, as they were checked."""
        known = {} if self._routes is None else self._routes(hosts_of(self.snapshot))
        self.push_screen(RoutesPage(known))

    def open_weights(self) -> None:
        """Show the load of weights."""
        self.push_screen(WeightsPage())

    def open_connection(self, row: int) -> None:
        """Show the connection in a row of the table."""
        self._open("connections", row, ConnectionPage)

    def open_stream(self, row: int) -> None:
        """Show the streamed answer to the request in a row of the table, else its connection."""
        exam = self.snapshot.examination
        if (
            exam is not None
            and 0 <= row < len(exam.tables.requests)
            and exam.tables.requests["stream"].to_numpy()[row].__class__ is not dict
        ):
            self.open_connection(int(exam.tables.requests["connection"].to_numpy()[row]))
        else:
            self._open("requests", row, StreamPage)

    def open_evidence(self, kind: str, id_: str) -> None:
        """Show what a line of evidence is about."""
        exam = self.snapshot.examination
        table = None if exam is None else getattr(exam.tables, f"{kind}s", None)
        row = None if table is None else row_of(table, id_)
        if table is None or row is None:
            self.notify(f"{safe(id_)} is not among what is examined", severity="warning")
        elif kind == "request":
            self.open_stream(row)
        else:
            self.open_connection(row if kind == "connection" else int(table["connection"].to_numpy()[row]))

    def _open(self, table: str, row: int, page: Callable[[str], Page]) -> None:
        exam = self.snapshot.examination
        rows = None if exam is None else getattr(exam.tables, table)
        if rows is None or not 0 <= row < len(rows):
            self.notify("not known: only the newest connections of a large trace are examined one by one")
            return
        self.push_screen(page(str(rows["id"].to_numpy()[row])))
