# SPDX-License-Identifier: Apache-2.0
"""The keys and the colours, on one page."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import VerticalScroll

from netdiag.tui.model import Snapshot
from netdiag.tui.screens.page import Page
from netdiag.tui.widgets.facts import Facts
from netdiag.tui.widgets.legend import Legend

__all__ = ["HelpPage"]

_TEXT = (
    ("↑ ↓ j k", "move; PgUp, PgDn, Home, End; the mouse: click, click again to open, wheel"),
    ("enter", "open what is under the cursor"),
    ("esc", "go back; on the first screen: clear the filter"),
    ("tab", "go to the other list"),
    ("w", "waterfall of all requests"),
    ("r", "routes: the ways to the hosts, as `netdiag route-check` found them"),
    ("m", "model weights: files being loaded, page faults, memory of GPUs"),
    ("/", "filter, in the words of the command line: host api, pid 4711, port 443, exe python"),
    ("", "and of requests: status 5, error, slow 500 (ms); other words are looked for everywhere; ! turns one round"),
    ("s", "sort by the next column"),
    ("space", "hold the screen still, or go on"),
    ("e", "write what is on the screen to a file: s as SVG, c as CSV, j as JSON"),
    (":", "all commands"),
    ("q", "quit"),
    ("", ""),
    ("waterfall", "+ and - zoom, ← and → pan, z another scale, f follow the newest, c the connection"),
    ("reuse", "requests on a connection that had carried one before, of those that could"),
    ("resum", "TLS handshakes that resumed a session, of those that could"),
    ("wait", "from the last byte of a request to the first of its answer"),
    ("token", "from the last byte of a request to the first token of a streamed answer"),
    ("–", "not known; never a zero"),
    ("", ""),
)  # fmt: skip


class HelpPage(Page):
    """What stands here is all there is to know."""

    TITLE_TEXT: ClassVar[str] = "help"
    KEYS: ClassVar[tuple[tuple[str, str], ...]] = (("esc", "back"),)

    def content(self) -> ComposeResult:
        """Lay out the parts."""
        with VerticalScroll(id="help"):
            yield Facts()
            yield Legend()

    def show(self, snapshot: Snapshot) -> None:  # noqa: ARG002
        """Draw the same always."""
        self.query_one(Facts).tell(_TEXT)
