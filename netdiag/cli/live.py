# SPDX-License-Identifier: Apache-2.0
"""What the terminal shows while a trace runs: a line for each connection that ends, or a counter."""

from __future__ import annotations

import contextlib
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from netdiag.tracing.request import Progress

__all__ = ["Progressing"]

_PAUSE_S = 0.2
_PATIENCE_S = 1.0
"""A shorter wait shows no counter."""


class Progressing:
    """Takes the progress of a trace; call it as a function, and `close` it before anything else is printed."""

    def __init__(self, *, lines: bool, counter: bool, stream: TextIO | None = None) -> None:
        """With `lines`, ended connections are printed as they come; else `counter` shows seconds on a terminal."""
        self._stream = sys.stderr if stream is None else stream
        self._lines = lines
        self._counter = counter and not lines and self._stream.isatty()
        self._counting = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __call__(self, progress: Progress) -> None:
        """Show where the trace is."""
        if progress.state != "tracing":
            return
        if self._lines and self._thread is None:
            # not earlier: before this the command is forked, and a process with threads should not fork
            self._thread = threading.Thread(target=self._print_lines, args=(progress.recording,), daemon=True)
            self._thread.start()
        if self._counter and progress.elapsed_s >= _PATIENCE_S:
            from netdiag.units import format_bytes

            size = format_bytes(progress.recorded_bytes)
            self._write(f"\rnetdiag: {progress.elapsed_s:.0f} s, {size} recorded; Ctrl-C ends \x1b[K")
            self._counting = True

    def close(self) -> None:
        """Print the lines that are still missing, and take the counter away."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=_PAUSE_S * 5)
        if self._counting:
            self._write("\r\x1b[K")
            self._counting = False

    def _print_lines(self, recording: Path) -> None:
        from netdiag.errors import InputUnreadable
        from netdiag.recording.reader import follow
        from netdiag.render.lines import HEAD, lines  # NumPy: 0.1 s, in this thread

        self._write(f"{HEAD}\n")
        with contextlib.suppress(InputUnreadable):  # the report that follows says what is wrong with the file
            for part in follow(recording, wait=self._wait):
                self._write("".join(f"{line}\n" for line in lines(part)))

    def _wait(self) -> bool:
        return not self._stop.wait(_PAUSE_S)

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # nobody looks any more: the trace goes on
            self._stream.write(text)
            self._stream.flush()
