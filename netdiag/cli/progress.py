# SPDX-License-Identifier: Apache-2.0
"""A counter on stderr for what takes more than a second, where stderr is a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

__all__ = ["Counter"]

_QUIET_S, _AGAIN_S = 1.0, 0.2


class Counter:
    """Shows what is done and how far; takes its line away at the end."""

    def __init__(self) -> None:
        self._began = self._last = time.monotonic()
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __call__(self, what: str, done: int, of: int) -> None:
        """Show how far it has come."""
        now = time.monotonic()
        if now - self._began < _QUIET_S or now - self._last < _AGAIN_S or not sys.stderr.isatty():
            return
        self._last, self._shown = now, True
        sys.stderr.write(f"\r\x1b[Knetdiag: {what} {done:,} of {of:,}")
        sys.stderr.flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the line away."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
