# SPDX-License-Identifier: Apache-2.0
"""The options that every command that prints results has, in one decorator."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click

from netdiag.errors import UsageError

__all__ = ["COLORS", "FORMATS", "LISTS", "SEVERITIES", "Output", "format_option", "output_options", "wants_color"]

Command = TypeVar("Command", bound=Callable[..., Any])

FORMATS = ("table", "json", "ndjson", "csv", "markdown")
LISTS = ("connections", "requests", "handshakes", "resolutions", "processes", "findings")
COLORS = ("auto", "always", "never")
SEVERITIES = ("info", "warning", "critical")


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What the user said about results."""

    format: str = FORMATS[0]
    file: Path | None = None
    """None: stdout, or stderr where stdout belongs to the traced command."""
    color: str = COLORS[0]
    fail_on: str | None = None
    """The least severity of a finding that makes the exit status 3."""
    assertions: tuple[str, ...] = ()
    config: Path | None = None
    slow_ms: float = 500.0
    rows: str = LISTS[0]
    """Which list CSV holds."""
    verbose: int = 0
    reserved: int | None = None
    """A descriptor of `file`, where it could not be opened any more once privileges are dropped."""


def wants_color(choice: str, stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether to colour what goes to the stream; `--color` is stronger than NO_COLOR."""
    if choice != "auto":
        return choice == "always"
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def format_option(*formats: str) -> Callable[[Command], Command]:
    """Return the decorator for `--format` of a command with formats of its own, the first being the default."""
    return click.option(
        "--format",
        "format_",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="Form of the output.",
    )


_OPTIONS = (
    format_option(*FORMATS),
    click.option("-o", "file", metavar="FILE", type=click.Path(path_type=Path), help="Write results to FILE."),
    click.option("--rows", type=click.Choice(LISTS), default=LISTS[0], show_default=True, help="The list in CSV."),
    click.option("--color", type=click.Choice(COLORS), default="auto", show_default=True, help="Colour the table."),
    click.option("--fail-on", type=click.Choice(SEVERITIES), help="Exit 3 on a finding this severe."),
    click.option(
        "--assert",
        "assertions",
        metavar="EXPR",
        multiple=True,
        help="Exit 3 unless EXPR holds for the summary, as 'connections<=2' or 'reuse>=0.95'. Repeatable.",
    ),
    click.option(
        "--config",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Accepted findings, with reason and expiry. [default: netdiag.toml, not as root]",
    ),
    click.option(
        "--slow-ms",
        metavar="MS",
        type=click.FloatRange(min=0),
        default=500.0,
        show_default=True,
        help="A server's answer is slow from here on.",
    ),
    click.option("-v", "--verbose", count=True, help="Say more on stderr, and every finding in full."),
)


def output_options(function: Command) -> Command:
    """Add the options to a command, which gets them as one argument `output`."""

    @functools.wraps(function)
    def wrapped(**values: Any) -> Any:
        output = Output(
            format=values.pop("format_"),
            file=values.pop("file"),
            color=values.pop("color"),
            fail_on=values.pop("fail_on"),
            assertions=values.pop("assertions"),
            config=values.pop("config"),
            slow_ms=values.pop("slow_ms"),
            rows=values.pop("rows"),
            verbose=values.pop("verbose"),
        )
        _check(output)
        return function(output=output, **values)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]


def _check(output: Output) -> None:
    """Find what is wrong before anything is traced: a wrong word must not cost a minute of measurement."""
    from netdiag.asserts import parse

    for text in output.assertions:
        parse(text)
    if output.file is not None and output.file.is_dir():
        raise UsageError(f"-o {output.file}: it is a folder")
    if output.file is not None and not output.file.absolute().parent.is_dir():
        raise UsageError(f"-o {output.file}: there is no such folder")
    if output.verbose:
        _log_to_stderr(output.verbose)


def _log_to_stderr(verbose: int) -> None:
    import logging

    level = logging.DEBUG if verbose > 1 else logging.INFO
    logging.basicConfig(stream=sys.stderr, level=level, format="netdiag: %(message)s")
