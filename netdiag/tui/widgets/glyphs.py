# SPDX-License-Identifier: Apache-2.0
"""Which signs a widget draws with: the app's choice."""

from __future__ import annotations

from textual.widget import Widget

from netdiag.tui.look import FANCY, Glyphs

__all__ = ["glyphs_of"]


def glyphs_of(widget: Widget) -> Glyphs:
    """Return the app's glyphs; those of a full terminal where the app has no say."""
    found = getattr(widget.app, "glyphs", FANCY)
    return found if isinstance(found, Glyphs) else FANCY
