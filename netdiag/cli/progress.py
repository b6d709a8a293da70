# SPDX-License-Identifier: Apache-2.0
"""A line on stderr for what takes more than a second, where stderr is a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

__all__ = ["Counter", "Reading"]

_QUIET_S, _AGAIN_S = 1.0, 0.2


class _Line:
    """Is written over as it goes on, and taken away at the end."""

    def __init__(self) -> None:
        self._began = self._last = time.monotonic()
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def _due_s(self) -> float | None:
        """Return the seconds since the beginning; None while nothing is to be shown."""
        now = time.monotonic()
        if now - self._began < _QUIET_S or now - self._last < _AGAIN_S or not sys.stderr.isatty():
            return None
        self._last = now
        return now - self._began

    def _show(self, text: str) -> None:
        self._shown = True
        sys.stderr.write(f"\r\x1b[Knetdiag: {text}")
        sys.stderr.flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the line away."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


class Counter(_Line):
    """Shows what is done and how far."""

    def __call__(self, what: str, done: int, of: int) -> None:
        """Show how far it has come."""
        if self._due_s() is not None:
            self._show(f"{what} {done:,} of {of:,}")


class Reading(_Line):
    """Shows how much of a big file was read."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def __call__(self, taken: int, size: int | None) -> None:
        """Show how many bytes were read, and of how many where that is known."""
        took_s = self._due_s()
        if took_s is None:
            return
        from netdiag.text import safe

        done = f"{100 * taken / size:3.0f} %" if size else f"{taken / 1e6:,.0f} MB"
        self._show(f"{safe(self._name.rpartition('/')[2])}: {done}, {taken / 1e6 / took_s:,.0f} MB/s")
