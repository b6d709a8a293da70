# SPDX-License-Identifier: Apache-2.0
"""`netdiag live`, and what the terminal shows while `netdiag trace` runs: ended connections, or a counter."""

from __future__ import annotations

import contextlib
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from netdiag.cli.targets import packets_option, run_options, target_options

if TYPE_CHECKING:
    from netdiag.processes import Target
    from netdiag.tracing.request import Progress

__all__ = ["Progressing", "command"]

_SLOW = "A server's answer is slow from here on."
_PAUSE_S = 0.2
_PATIENCE_S = 1.0
"""A shorter wait shows no counter."""


class _Live(click.Command):
    """Knows whether what was given stood after `--`: a command, and no recording."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_DASHES] = "--" in args
        return super().parse_args(ctx, args)


_DASHES = "netdiag.cli.live.dashes"


@click.command(
    "live",
    cls=_Live,
    short_help="Show a trace, running or kept, as a dashboard in the terminal.",
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@target_options
@click.option("--save", metavar="FILE", type=click.Path(path_type=Path), help="Keep the recording as FILE.")
@packets_option
@click.option("--no-keep", is_flag=True, help="Keep no recording as `last`.")
@click.option("--duration", metavar="S", type=float, help="End the trace after S seconds; the dashboard stays.")
@run_options
@click.option("--slow-ms", metavar="MS", type=click.FloatRange(min=0), default=500.0, show_default=True, help=_SLOW)
@click.option("--plain", is_flag=True, help="Letters only, nothing moves: for screen readers and simple terminals.")
@click.option("--calm", is_flag=True, help="No animation.")
@click.argument("argv", metavar="[RECORDING | -- CMD ARG...]", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(context: click.Context, /, *, target: Target, argv: tuple[str, ...], **chosen: Any) -> int:
    """Show findings, rates, requests and connections while they happen, or those of a RECORDING.

    A RECORDING (a file, or `last`) needs no privileges, also while another netdiag writes it.
    With a target or CMD a trace starts in the background, as `netdiag trace` would; what CMD
    prints is shown when the dashboard ends.

    \b
    netdiag live last
    netdiag live --pid 4711
    netdiag live -- python app.py
    """  # noqa: D301 - click reads the control character
    from netdiag.cli.dashboard import show

    return show(target, argv, chosen, is_command=context.meta[_DASHES])


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
