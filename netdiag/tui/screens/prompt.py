# SPDX-License-Identifier: Apache-2.0
"""One line at the bottom where words are typed, over the screen that was open."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

__all__ = ["Prompt"]


class Prompt(ModalScreen[str | None]):
    """Returns what was typed; None after Escape."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Leave")]

    def __init__(self, label: str, value: str, check: Callable[[str], str | None]) -> None:
        """`check` says what is wrong with the words, or None."""
        super().__init__()
        self._label, self._value, self._check = label, value, check

    def compose(self) -> ComposeResult:
        """Lay out the line, and one for what is wrong."""
        with Vertical(id="prompt"):
            yield Static(self._label, id="label")
            yield Input(value=self._value, id="words", compact=True)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Say at once what is wrong."""
        self.query_one("#label", Static).update(self._check(event.value) or self._label)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return the words, where they are right."""
        if self._check(event.value) is None:
            self.dismiss(event.value)

    def action_leave(self) -> None:
        """Return nothing."""
        self.dismiss(None)
