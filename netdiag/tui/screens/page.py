# SPDX-License-Identifier: Apache-2.0
"""What all screens have: the head, the keys at the bottom, and that they are told of each snapshot."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, cast

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widget import Widget

from netdiag.tui.filter import Filter
from netdiag.tui.model import Snapshot
from netdiag.tui.widgets.foot import Foot
from netdiag.tui.widgets.head import Head
from netdiag.tui.widgets.table import Table

__all__ = ["Page", "Shell"]


class Shell(Protocol):
    """What pages need of the app."""

    snapshot: Snapshot
    filter: Filter
    paused: bool


class Page(Screen[None]):
    """A screen over snapshots."""

    TITLE_TEXT: ClassVar[str] = "netdiag live"
    KEYS: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Keys of this screen to show at the bottom, and what they do."""
    SORTS: ClassVar[tuple[str, ...]] = ()
    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(self) -> None:
        super().__init__()
        self.sort = 0

    @property
    def shell(self) -> Shell:
        """Return the app."""
        return cast("Shell", self.app)

    def compose(self) -> ComposeResult:
        """Lay out head, content and keys."""
        yield Head()
        yield from self.content()
        yield Foot(self.KEYS)

    def content(self) -> ComposeResult:
        """Lay out what lies between."""
        yield Widget()

    def on_screen_resume(self) -> None:
        """Show the newest moment."""
        self.refresh_page()

    def on_resize(self) -> None:
        """Mark narrow and short terminals, which the style sheet treats differently."""
        self.set_class(self.size.width < 100, "narrow")
        self.set_class(self.size.height < 30, "short")

    def refresh_page(self) -> None:
        """Show the app's snapshot."""
        if not self.is_mounted:
            return
        self.show(self.shell.snapshot)
        self.query_one(Head).tell(self.shell.snapshot, self.heading(), self.note())

    def heading(self) -> str:
        """Return what this screen is called."""
        return self.TITLE_TEXT

    def note(self) -> str:
        """Return what the user did: paused, filtered, sorted."""
        parts = ["PAUSED (space goes on)"] if self.shell.paused else []
        if self.shell.filter:
            parts.append(f"filter: {self.shell.filter.text} (esc clears)")
        if self.SORTS and self.sort:
            parts.append(f"sorted by {self.SORTS[self.sort]}")
        return " · ".join(parts)

    def show(self, snapshot: Snapshot) -> None:
        """Draw the snapshot."""

    def next_sort(self) -> None:
        """Sort by the next column."""
        if self.SORTS:
            self.sort = (self.sort + 1) % len(self.SORTS)
            self.refresh_page()

    def exported(self) -> dict[str, list[list[str]]]:
        """Return the tables on the screen, titles first, for CSV and JSON."""
        return {str(one.id): one.plain_rows() for one in self.query(Table)}

    def chosen_of(self, name: str) -> Any:
        """Return the key under the cursor of a table."""
        return self.query_one(f"#{name}", Table).chosen
