# SPDX-License-Identifier: Apache-2.0
"""What the worker and the widgets tell each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from textual.message import Message

from netdiag.tui.model import Snapshot

__all__ = ["Chosen", "Taken"]


@dataclass
class Taken(Message):
    """There is a new snapshot."""

    snapshot: Snapshot


@dataclass
class Chosen(Message):
    """A line was chosen, with Enter or a click; `key` says which."""

    key: Any
    source: str
    """Id of the widget."""
