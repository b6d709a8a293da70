# SPDX-License-Identifier: Apache-2.0
"""The dashboard: takes snapshots from the follower's thread and shows them on the screen that is open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from textual.app import App
from textual.binding import Binding, BindingType

from netdiag.errors import NetdiagError
from netdiag.tui.filter import Filter
from netdiag.tui.look import FANCY, PLAIN
from netdiag.tui.messages import Taken
from netdiag.tui.model import Snapshot
from netdiag.tui.screens.overview import Overview
from netdiag.tui.screens.page import Page
from netdiag.tui.worker import Follower

__all__ = ["Dashboard"]


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
    ]

    def __init__(
        self,
        path: Path | None,
        *,
        grows: bool = False,
        alive: Callable[[], bool] | None = None,
        plain: bool = False,
        calm: bool = False,
        slow_ms: float = 500.0,
        snapshot: Snapshot | None = None,
    ) -> None:
        """`path` None: show `snapshot` alone. `calm`: nothing moves by itself; `plain`: letters only."""
        super().__init__(ansi_color=True)
        self.snapshot = snapshot or Snapshot()
        self._newest = self.snapshot
        self.filter = Filter()
        self.paused = False
        self.glyphs = PLAIN if plain else FANCY
        if calm or plain:
            self.animation_level = "none"
        self.fault: NetdiagError | None = None
        """Why nothing could be shown at all."""
        self.follower = None
        if path is not None:
            self.follower = Follower(path, self._post, grows=grows, alive=alive, slow_ms=slow_ms)

    def on_mount(self) -> None:
        """Open the first screen and start to follow."""
        self.push_screen(Overview())
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

    def open_finding(self, which: Any) -> None:
        """Show one finding."""

    def open_waterfall(self, which: Any) -> None:
        """Show requests."""
