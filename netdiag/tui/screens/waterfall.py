# SPDX-License-Identifier: Apache-2.0
"""Requests over time, a line each, as browsers' developer tools draw them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, overload

import numpy as np
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from netdiag.render import words
from netdiag.text import safe
from netdiag.tui.bars import Extent, bar, pieces_of, ruler
from netdiag.tui.columns import Calls
from netdiag.tui.look import Glyphs
from netdiag.tui.messages import Chosen
from netdiag.tui.model import Snapshot
from netdiag.tui.screens.page import Page
from netdiag.tui.widgets.glyphs import glyphs_of
from netdiag.tui.widgets.legend import Legend
from netdiag.tui.widgets.table import Column, Line, Table
from netdiag.units import UNKNOWN, format_ms

__all__ = ["Waterfall"]

_FIXED = (
    Column(title="start", width=8, right=True),
    Column(title="host", width=18, rank=4),
    Column(title="request", width=26, least=14),
    Column(title="status", width=6, right=True, rank=2),
    Column(title="total", width=7, right=True),
)
_BAR = len(_FIXED)
_ZOOM = 2.0
_LONGEST_ZOOM = 20


class Waterfall(Page):
    """Zoom, pan, follow."""

    TITLE_TEXT: ClassVar[str] = "waterfall"
    KEYS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("enter", "open"),
        ("c", "connection"),
        ("+-", "zoom"),
        ("←→", "pan"),
        ("z", "scale"),
        ("f", "follow"),
        ("esc", "back"),
    )
    SORTS: ClassVar[tuple[str, ...]] = ("start", "total", "wait", "status")
    SCALES: ClassVar[tuple[str, ...]] = ("the lines on the screen", "each from its own start", "the whole trace")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("plus,equals_sign", "zoom(1)", "Zoom in"),
        Binding("minus", "zoom(-1)", "Zoom out"),
        Binding("left", "pan(-1)", "Earlier"),
        Binding("right", "pan(1)", "Later"),
        Binding("z", "scale", "Scale"),
        Binding("f", "follow", "Follow"),
        Binding("c", "connection", "Connection"),
    ]

    def __init__(self, which: Any = None) -> None:
        """`which`: process and host whose requests are shown; None = all."""
        super().__init__()
        self._which = which
        self._zoom = 0
        self._pan = 0.0
        self._scale = 0
        self._follow = which is None
        self._calls = Calls.none()

    def content(self) -> ComposeResult:
        """Lay out the parts."""
        yield Table((*_FIXED, Column(title="", width=34, grow=1, art=True)), empty="no request was seen", id="calls")
        yield Legend()

    def heading(self) -> str:
        """Say whose requests these are."""
        if self._which is None:
            return words.plural(len(self._calls), "request")
        pid, host = self._which
        name = safe(self.shell.snapshot.programs.get(pid, "")) if pid is not None else ""
        who = " ".join(filter(None, (str(pid or ""), name)))
        return f"{words.plural(len(self._calls), 'request')} of {who} to {safe(host or UNKNOWN)}"

    def note(self) -> str:
        """Add how time is drawn."""
        follow = "follows the newest" if self._follow and not self.sort else ""
        zoom = f"zoom {_ZOOM**self._zoom:g}×" if self._zoom else ""
        return " · ".join(filter(None, (super().note(), f"scale: {self.SCALES[self._scale]}", zoom, follow)))

    def show(self, snapshot: Snapshot) -> None:
        """Draw the snapshot."""
        self._calls = self._chosen(snapshot)
        table = self.query_one("#calls", Table)
        table.empty = "no request fits the filter" if self.shell.filter else _nothing(snapshot)
        order = self._order()
        table.fill(_Lines(self, self._calls, order, snapshot))
        if self._follow and not self.sort and len(order):
            table.cursor = len(order) - 1
        table.title_of = self._title

    def _chosen(self, snapshot: Snapshot) -> Calls:
        calls = snapshot.calls
        mask = self.shell.filter.calls(calls, snapshot.programs)
        if self._which is not None:
            pid, host = self._which
            mask &= (calls.pid == (-1 if pid is None else pid)) & (calls.host == host)
        return calls if mask.all() else calls.take(mask)

    def _order(self) -> Any:
        calls = self._calls
        if self.sort == 0:
            return np.arange(len(calls))
        column = (calls.total_ms, calls.wait_ms, calls.status)[self.sort - 1]
        return np.argsort(-np.nan_to_num(column, nan=-1.0), kind="stable")

    def extent(self, seen: Any, at: int) -> Extent:
        """Return the stretch of time of a line, where `seen` are the lines on the screen."""
        calls = self._calls
        began, ended = calls.began_ns[seen], calls.ended_ns[seen]
        ended = np.where(np.isnan(ended), began, ended)
        if self._scale == 1:
            base, length = float(calls.began_ns[at]), float(np.nanmax(np.append(ended - began, 1.0)))
        elif self._scale == 2:
            base, length = 0.0, self.shell.snapshot.length_s * 1e9
        else:
            base = float(np.nanmin(np.append(began, np.inf)))
            length = float(np.nanmax(np.append(ended, -np.inf))) - base
        if self._zoom and self._scale != 1:
            cursor = self.query_one("#calls", Table).chosen
            middle = (
                float(calls.began_ns[cursor]) if isinstance(cursor, int) and cursor < len(calls) else float(began[0])
            )
            whole, length = length, length / _ZOOM**self._zoom
            base = middle - length * min(0.5, max(0.0, (middle - base) / max(whole, 1.0)))
        elif self._zoom:
            length /= _ZOOM**self._zoom
        base += self._pan * length
        return Extent(start=base, end=base + max(length, 1.0))

    def seen(self, order: Any) -> Any:
        """Return the requests whose lines are on the screen."""
        table = self.query_one("#calls", Table)
        top = table.scroll_offset.y
        return order[top : top + max(1, table.size.height - 1)]

    def _title(self, at: int) -> str:
        table = self.query_one("#calls", Table)
        if at != _BAR or not isinstance(table.lines, _Lines) or not len(table.lines):
            return table.columns[at].title
        seen = self.seen(table.lines.order)
        extent = self.extent(seen, int(seen[0]))
        base = float(self._calls.began_ns[int(seen[0])]) if self._scale == 1 else 0.0
        return ruler(extent, table.width_of(_BAR), base)

    def on_chosen(self, event: Chosen) -> None:
        """Open the stream, or the connection of a request that is none."""
        row = int(self._calls.row[event.key])
        if self._calls.stream[event.key] and row >= 0:
            self.app.open_stream(row)  # type: ignore[attr-defined]
        else:
            self.action_connection()

    def action_connection(self) -> None:
        """Open the connection of the request under the cursor."""
        at = self.chosen_of("calls")
        if at is not None:
            self.app.open_connection(int(self._calls.connection[at]))  # type: ignore[attr-defined]

    def action_zoom(self, by: int) -> None:
        """Show less time, or more."""
        self._zoom = max(0, min(_LONGEST_ZOOM, self._zoom + by))
        self._pan = self._pan if self._zoom else 0.0
        self.refresh_page()

    def action_pan(self, by: int) -> None:
        """Go earlier or later by a quarter of what is seen."""
        self._pan += by / 4
        self.refresh_page()

    def action_scale(self) -> None:
        """Draw over another stretch of time."""
        self._scale = (self._scale + 1) % len(self.SCALES)
        self._zoom, self._pan = 0, 0.0
        self.refresh_page()

    def action_follow(self) -> None:
        """Keep the newest request in sight, or leave the cursor where it is."""
        self._follow = not self._follow
        self.refresh_page()


class _Lines(Sequence[Line]):
    """Lines that are made when they are drawn."""

    def __init__(self, page: Waterfall, calls: Calls, order: Any, snapshot: Snapshot) -> None:
        self._page, self._calls, self.order, self._snapshot = page, calls, order, snapshot

    def __len__(self) -> int:
        return len(self.order)

    @overload
    def __getitem__(self, place: int) -> Line: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Line]: ...
    def __getitem__(self, place: int | slice) -> Line | Sequence[Line]:
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self)))]
        calls, at = self._calls, int(self.order[place])
        table = self._page.query_one("#calls", Table)
        width, glyphs = table.width_of(_BAR), glyphs_of(table)
        drawn = self._bar(at, width, glyphs)
        status = "" if np.isnan(calls.status[at]) else f"{calls.status[at]:.0f}"
        bad = "bold red" if calls.failed[at] == 1 else ""
        began = float(calls.began_ns[at])
        return Line(
            key=at,
            cells=(
                UNKNOWN if np.isnan(began) else f"{began / 1e9:.3f} s",
                safe(calls.host[at] or UNKNOWN),
                safe(calls.label[at] or _unnamed(calls, at)),
                (status or (UNKNOWN if not bad else "broken"), bad),
                format_ms(float(calls.total_ms[at])),
                drawn,
            ),
        )

    def key_at(self, place: int) -> int:
        """Return which request has this place, without drawing it."""
        return int(self.order[place])

    def place_of(self, key: int) -> int | None:
        """Return the place of a request; quicker than looking at each line."""
        found = np.flatnonzero(self.order == key)
        return int(found[0]) if len(found) else None

    def _bar(self, at: int, width: int, glyphs: Glyphs) -> Any:
        if width <= 0:
            return ""
        extent = self._page.extent(self._page.seen(self.order), at)
        pieces = pieces_of(self._snapshot.examination, int(self._calls.row[at]))
        return bar(self._calls, at, extent, width, glyphs, pieces)


def _unnamed(calls: Calls, at: int) -> str:
    """Return a name for a request that was inferred from the sizes and times of records."""
    return "stream" if calls.stream[at] else "request"


def _nothing(snapshot: Snapshot) -> str:
    if snapshot.total is not None and snapshot.total.requests is None:
        return "Data flowed, but nobody could tell whether it was requests."
    return "no request was seen"
